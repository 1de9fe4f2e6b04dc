"""``mindsummary compare A B``: whether two runs are the same training, and where they part; exits as ``diff`` does."""

from __future__ import annotations

import argparse
import contextlib
from typing import Any

from mindsummary_lightning.cli.arguments import argument, flag, json_of
from mindsummary_lightning.cli.output import Answer, Heading, UsageError, error_line, progress_bar
from mindsummary_lightning.cli.runs import files_size, one_run
from mindsummary_lightning.errors import MindSummaryError
from mindsummary_lightning.fileio.replace import replace_file
from mindsummary_lightning.porting.comparison.names import read_names
from mindsummary_lightning.porting.comparison.page import comparison_page
from mindsummary_lightning.porting.comparison.result import SETTINGS, comparison_lines
from mindsummary_lightning.porting.comparison.verdict import compare_runs

ARGUMENTS = (
    argument("a", metavar="A", help="a run"),
    argument("b", metavar="B", help="another run, of another framework perhaps"),
    argument(
        "--names",
        "--map",
        dest="map",
        metavar="FILE",
        help="lines of a tensor's name in A and its name in B",
    ),
    argument(
        "--tolerance",
        metavar="PRECISION",
        help="float32, bfloat16 or a number: values so far apart are the same (default: by the runs)",
    ),
    argument(
        "--same",
        metavar="A2",
        help="a second run of A's program: how far the two differ is no difference",
    ),
    flag("--strict", "end with 1, too, if one run has steps or tensors alone"),
    json_of("the result"),
    argument(
        "--html", metavar="FILE", help="write a page with curves and a map of all tensors, too"
    ),
)
_EXIT = {"same": 0, "different": 1, "undecided": 2, "not_comparable": 2}


def run(arguments: argparse.Namespace) -> Answer:
    """The verdict; 0: the same, 1: different (by ``--strict`` also in length), 2: undecided, not comparable."""
    try:
        names = read_names(arguments.map) if arguments.map else None
        a, b, *same = (
            one_run(run) for run in (arguments.a, arguments.b, arguments.same) if run is not None
        )
        tolerance: Any = arguments.tolerance
        with contextlib.suppress(TypeError, ValueError):
            tolerance = float(tolerance)
        options = {"names": names, "tolerance": tolerance, "same": next(iter(same), None)}
        with progress_bar("comparing", sum(map(files_size, [a, b, *same]))) as advance:
            comparison = compare_runs(a, b, progress=advance, **options)
        if arguments.html:
            replace_file(arguments.html, comparison_page(comparison).encode())
    except (MindSummaryError, OSError, ValueError) as error:  # 1 would say that the runs differ
        raise UsageError(error_line(error)) from error
    has_alone = any(alone.steps or alone.tensors for alone in comparison.alone.values())
    code = 1 if arguments.strict and comparison.is_same and has_alone else _EXIT[comparison.verdict]
    heads, page = (
        (SETTINGS, comparison.sentence),
        [f"page: {arguments.html}"] if arguments.html else [],
    )
    lines = (Heading(line) if line in heads else line for line in comparison_lines(comparison))
    return Answer(comparison.to_dict(), [*lines, *page], code)
