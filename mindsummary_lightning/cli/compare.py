"""``mindsummary compare A B``: whether two runs are the same training, and where they part; exits as ``diff`` does."""

from __future__ import annotations

import argparse

from mindsummary_lightning.cli.output import UsageError, counted, error_line, heading, say, say_json
from mindsummary_lightning.cli.runs import one_run
from mindsummary_lightning.comparison.names import GRADIENT, read_names
from mindsummary_lightning.comparison.page import comparison_page
from mindsummary_lightning.comparison.result import Comparison
from mindsummary_lightning.comparison.verdict import compare_runs
from mindsummary_lightning.errors import MindSummaryError
from mindsummary_lightning.fileio.replace import replace_file
from mindsummary_lightning.values.text import listed

_EXIT = {"same": 0, "different": 1, "undecided": 2, "not_comparable": 2}
_LISTED = 8


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict; 0: the same, 1: different (by ``--strict`` also in length), 2: undecided, not comparable."""
    try:
        names = read_names(arguments.map) if arguments.map else None
        a, b, *same = (one_run(run) for run in (arguments.a, arguments.b, arguments.same) if run)
        comparison = compare_runs(a, b, names=names, tolerance=arguments.tolerance, same=next(iter(same), None))
        if arguments.html:
            replace_file(arguments.html, comparison_page(comparison).encode())
    except (MindSummaryError, OSError, ValueError) as error:  # 1 would say that the runs differ
        raise UsageError(error_line(error)) from error
    if arguments.json:
        say_json(comparison.to_dict())
    else:
        _print(comparison)
        if arguments.html:
            say(f"page: {arguments.html}")
    has_alone = any(alone.steps or alone.tensors for alone in comparison.alone.values())
    return 1 if arguments.strict and comparison.is_same and has_alone else _EXIT[comparison.verdict]


def _print(comparison: Comparison) -> None:
    compared = comparison.compared
    for side, path in (("a", comparison.a), ("b", comparison.b)):
        say(f"{side}: {path}")
    loss = f"the loss ({comparison.alignment.loss_tag}) at {counted(compared['losses'], 'step')}"
    say(f"compared: {counted(compared['steps'], 'step')}, {loss}, {counted(compared['tensors'], 'tensor')}")
    for side, alone in comparison.alone.items():
        unmatched = comparison.unmatched[side]
        weights = [name for name in unmatched if not name.endswith(GRADIENT)]
        parts = [counted(alone.steps, "step")] if alone.steps else []
        for kind, names in (("tensor", weights), ("gradient", [name for name in unmatched if name not in weights])):
            if names:
                parts.append(f"{counted(len(names), kind)} ({listed(names, _LISTED)})")
        if parts:
            say(f"in {side} alone, not compared: {', '.join(parts)}")
    for how, matched in (("by its first numbers", comparison.by_value), ("by its place alone", comparison.guessed)):
        if matched:
            pairs = [f"{one} = {other}" for one, other in matched]
            say(f"paired {how} (--map decides): {listed(pairs, _LISTED)}")
    if comparison.settings:
        print(heading("settings that differ"))
        for name, (one, other) in comparison.settings.items():
            say(f"  {name}: {one} | {other}")
    print(heading(comparison.sentence))
    first = comparison.first_difference
    if first is not None:
        for tensor in first.tensors[:_LISTED]:
            name = tensor.a if tensor.a == tensor.b else f"{tensor.a} = {tensor.b}"
            say(f"  {tensor.distance:8.1e}  {name}")
        if len(first.tensors) > _LISTED:
            say(f"  and {len(first.tensors) - _LISTED} more")
    for name, value in comparison.trend.items():
        if value is not None:
            say(f"  {name.replace('_', ' ')}: {value:.4g}")
    for hint in comparison.hints:
        say(f"- {hint.text}")
