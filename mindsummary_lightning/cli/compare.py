"""``mindsummary compare BASELINE CANDIDATE``: the first difference of two runs."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import Any

from mindsummary_lightning.cli.arguments import LANGUAGE, argument, flag, json_of
from mindsummary_lightning.cli.output import Answer, Heading, UsageError, error_line, progress_bar
from mindsummary_lightning.cli.runs import files_size, one_run
from mindsummary_lightning.errors import MindSummaryError
from mindsummary_lightning.fileio.replace import replace_file
from mindsummary_lightning.porting.comparison.compare import compare_runs
from mindsummary_lightning.porting.comparison.matching.given_names import read_names
from mindsummary_lightning.porting.comparison.result import Comparison
from mindsummary_lightning.porting.comparison.terminal_text import comparison_lines

ARGUMENTS = (
    argument("baseline", metavar="BASELINE", help="a run"),
    argument("candidate", metavar="CANDIDATE", help="the run to compare with it, of any framework"),
    argument(
        "--names",
        "--map",
        dest="map",
        metavar="FILE",
        help="lines of a tensor's name in BASELINE and its name in CANDIDATE",
    ),
    argument(
        "--tolerance",
        metavar="PRECISION",
        help="float32, bfloat16, float16 or a number: relative distance that is equal "
        "(default: by the runs)",
    ),
    argument(
        "--same",
        metavar="REPEAT",
        help="a repeat of BASELINE: up to three times their difference counts as equal",
    ),
    flag("--strict", "also exit with 1 if only one run has some steps or tensors"),
    json_of("the result"),
    argument(
        "--html", metavar="FILE", help="also write a page with curves and a map of all tensors"
    ),
    LANGUAGE,
)
_EXIT = {"same": 0, "different": 1, "undecided": 2, "not_comparable": 2}


def run(arguments: argparse.Namespace) -> Answer:
    """Compare two runs; the exit code is 0 if equal, 1 if different, 2 if undecided.

    With ``--strict``, runs of different lengths are different.
    """
    try:
        comparison = _compared(arguments)
        if arguments.html:
            page = comparison.to_html(language=arguments.language)
            replace_file(arguments.html, page.encode())
    except (MindSummaryError, OSError, ValueError) as error:  # 1 would say that the runs differ
        raise UsageError(error_line(error)) from error
    code = _EXIT[comparison.verdict]
    if arguments.strict and comparison.is_same and _has_only_in_one(comparison):
        code = 1
    return Answer(comparison.to_dict(), _lines(comparison, arguments.html), code)


def _compared(arguments: argparse.Namespace) -> Comparison:
    names = read_names(arguments.map) if arguments.map else None
    baseline, candidate = one_run(arguments.baseline), one_run(arguments.candidate)
    runs = [baseline, candidate]
    same = None
    if arguments.same is not None:
        same = one_run(arguments.same)
        runs.append(same)
    tolerance: Any = arguments.tolerance
    with contextlib.suppress(TypeError, ValueError):
        tolerance = float(tolerance)
    with progress_bar("comparing", sum(map(files_size, runs))) as advance:
        return compare_runs(
            baseline, candidate, names=names, tolerance=tolerance, same=same, progress=advance
        )


def _has_only_in_one(comparison: Comparison) -> bool:
    for only in (comparison.only_in_baseline, comparison.only_in_candidate):
        if only.steps or only.tensors:
            return True
    return False


def _lines(comparison: Comparison, page: str | None) -> Iterator[str]:
    first, *others = comparison_lines(comparison)
    yield Heading(first)
    yield from others
    if page:
        yield f"page: {page}"
