"""``mindsummary compare A B``: whether two runs are the same training, and where they part; exits as ``diff`` does."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from mindsummary_lightning.cli.arguments import argument, flag, json_of
from mindsummary_lightning.cli.output import Answer, Heading, UsageError, counted, error_line, progress_bar
from mindsummary_lightning.cli.runs import files_size, one_run
from mindsummary_lightning.comparison.chain_words import lines
from mindsummary_lightning.comparison.names import GRADIENT, read_names
from mindsummary_lightning.comparison.page import comparison_page
from mindsummary_lightning.comparison.result import Comparison
from mindsummary_lightning.comparison.verdict import compare_runs
from mindsummary_lightning.errors import MindSummaryError
from mindsummary_lightning.fileio.replace import replace_file
from mindsummary_lightning.values.text import listed


def _tolerance(text: str) -> str | float:
    try:
        return text if text in ("float32", "bfloat16", "float16") else float(text)
    except ValueError:
        expected = "must be float32, bfloat16, float16 or a number between 0 and 1"
        raise argparse.ArgumentTypeError(f"{expected}, not {text!r}") from None


ARGUMENTS = (
    argument("a", metavar="A", help="a run"),
    argument("b", metavar="B", help="another run, of another framework perhaps"),
    argument("--names", "--map", dest="map", metavar="FILE", help="lines of a tensor's name in A and its name in B"),
    argument(
        "--tolerance",
        type=_tolerance,
        metavar="PRECISION",
        help="float32, bfloat16 or a number: values so far apart are the same (default: by the runs)",
    ),
    argument("--same", metavar="A2", help="a second run of A's program: how far the two part is no difference"),
    flag("--strict", "end with 1, too, if one run has steps or tensors alone"),
    json_of("the result"),
    argument("--html", metavar="FILE", help="write a page with curves and a map of all tensors, too"),
)
_EXIT = {"same": 0, "different": 1, "undecided": 2, "not_comparable": 2}
_LISTED = 8


def run(arguments: argparse.Namespace) -> Answer:
    """The verdict; 0: the same, 1: different (by ``--strict`` also in length), 2: undecided, not comparable."""
    try:
        names = read_names(arguments.map) if arguments.map else None
        a, b, *same = (one_run(run) for run in (arguments.a, arguments.b, arguments.same) if run)
        options = {"names": names, "tolerance": arguments.tolerance, "same": next(iter(same), None)}
        with progress_bar("comparing", sum(map(files_size, [a, b, *same]))) as advance:
            comparison = compare_runs(a, b, progress=advance, **options)
        if arguments.html:
            replace_file(arguments.html, comparison_page(comparison).encode())
    except (MindSummaryError, OSError, ValueError) as error:  # 1 would say that the runs differ
        raise UsageError(error_line(error)) from error
    has_alone = any(alone.steps or alone.tensors for alone in comparison.alone.values())
    code = 1 if arguments.strict and comparison.is_same and has_alone else _EXIT[comparison.verdict]
    page = [f"page: {arguments.html}"] if arguments.html else []
    return Answer(comparison.to_dict(), [*_lines(comparison), *page], code)


def _lines(comparison: Comparison) -> Iterator[str]:
    compared = comparison.compared
    for side, path in (("a", comparison.a), ("b", comparison.b)):
        yield f"{side}: {path}"
    loss = f"the loss ({comparison.alignment.loss_tag}) at {counted(compared['losses'], 'step')}"
    yield f"compared: {counted(compared['steps'], 'step')}, {loss}, {counted(compared['tensors'], 'tensor')}"
    for side, alone in comparison.alone.items():
        unmatched = comparison.unmatched[side]
        weights = [name for name in unmatched if not name.endswith(GRADIENT)]
        parts = [counted(alone.steps, "step")] if alone.steps else []
        for kind, names in (("tensor", weights), ("gradient", [name for name in unmatched if name not in weights])):
            if names:
                parts.append(f"{counted(len(names), kind)} ({listed(names, _LISTED)})")
        if parts:
            yield f"in {side} alone, not compared: {', '.join(parts)}"
    for how, matched in (("by its first numbers", comparison.by_value), ("by its place alone", comparison.guessed)):
        if matched:
            pairs = [f"{one} = {other}" for one, other in matched]
            yield f"paired {how} (--map decides): {listed(pairs, _LISTED)}"
    if comparison.settings:
        yield Heading("settings that differ")
        for name, (one, other) in comparison.settings.items():
            yield f"  {name}: {one} | {other}"
    yield Heading(comparison.sentence)
    first = comparison.first_difference
    if comparison.chain is not None:
        yield from lines(comparison.chain)
    if first is not None and (comparison.chain is None or comparison.chain.part is None):
        for tensor in first.tensors[:_LISTED]:
            name = tensor.a if tensor.a == tensor.b else f"{tensor.a} = {tensor.b}"
            yield f"  {tensor.distance:8.1e}  {name}"
        if len(first.tensors) > _LISTED:
            yield f"  and {len(first.tensors) - _LISTED} more"
    for name, value in comparison.trend.items():
        if value is not None:
            yield f"  {name.replace('_', ' ')}: {value:.4g}"
    for hint in comparison.hints:
        yield f"- {hint.text}"
