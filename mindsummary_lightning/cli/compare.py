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

_EXIT = {"same": 0, "different": 1, "not_comparable": 2}
_LISTED = 8


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict; 0: the same, 1: different, 2: not comparable."""
    try:
        names = read_names(arguments.map) if arguments.map else None
        runs = one_run(arguments.a), one_run(arguments.b)
        comparison = compare_runs(*runs, names=names, tolerance=arguments.tolerance)
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
    return _EXIT[comparison.verdict]


def _print(comparison: Comparison) -> None:
    for side, other, path in (("a", "b", comparison.a), ("b", "a", comparison.b)):
        say(f"{side}: {path}")
        unmatched = comparison.unmatched[side]
        weights = [name for name in unmatched if not name.endswith(GRADIENT)]
        for kind, names in (("tensor", weights), ("gradient", [name for name in unmatched if name not in weights])):
            if names:
                say(f"   {counted(len(names), kind)} without a partner in {other}: {listed(names, _LISTED)}")
    if comparison.guessed:
        pairs = [f"{one} = {other}" for one, other in comparison.guessed]
        say(f"matched by their place alone (--map decides): {listed(pairs, _LISTED)}")
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
    compared = comparison.compared
    say(
        f"compared: the loss at {counted(compared['losses'], 'step')}, {counted(compared['tensors'], 'tensor')} by "
        f"minimum, maximum and mean; {counted(compared['steps'], 'step')} in common"
    )
