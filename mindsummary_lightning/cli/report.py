"""``mindsummary report RUN... -o FILE``."""

from __future__ import annotations

import argparse
import os
import sys

from mindsummary_lightning.cli.arguments import LANGUAGE, argument, json_of, positive
from mindsummary_lightning.cli.output import Answer, UsageError, progress_bar, readable_size, say
from mindsummary_lightning.cli.runs import runs_in
from mindsummary_lightning.errors import LineageSearchConditionParamError
from mindsummary_lightning.values.text import counted

ARGUMENTS = (
    argument("runs", metavar="RUN", nargs="+", help="runs, or directories that hold runs"),
    argument(
        "-o",
        "--out",
        "--output",
        default="report.html",
        metavar="FILE",
        help="the page to write (%(default)s)",
    ),
    argument(
        "--by", metavar="SCALAR", help="put a row for each run, the best by this scalar first"
    ),
    argument(
        "--best", type=positive, metavar="N", help="draw the curves of the N best runs (default: 8)"
    ),
    argument(
        "--group",
        metavar="SETTING",
        help="draw all curves, in a colour for each value of this setting",
    ),
    LANGUAGE,
    json_of("what was written"),
)
LARGE_BYTES = 20_000_000


def run(arguments: argparse.Namespace) -> Answer:
    """Write the page; exit 1 if a run cannot be read and is left out."""
    from mindsummary_lightning.export.report import write_report

    run_dirs = runs_in(arguments.runs)

    def announce(size: int) -> None:
        if size > LARGE_BYTES:
            expected = f"the page will have about {readable_size(size)}"
            say(f"{expected}. For a smaller page, name fewer runs", sys.stderr)

    with progress_bar("report", 100, "%") as advance:
        asked = {
            "by": arguments.by,
            "best": arguments.best,
            "group": arguments.group,
            "language": arguments.language,
        }
        try:
            problems = write_report(run_dirs, arguments.out, advance, announce, **asked)
        except LineageSearchConditionParamError as error:
            raise UsageError(str(error)) from error
    number, size = len(run_dirs) - len(problems), os.path.getsize(arguments.out)
    lines = [f"{arguments.out}: {counted(number, 'run')}, {readable_size(size)}"]
    skipped = [
        f"skipped because it cannot be read: {name}: {problem}"
        for name, problem in problems.items()
    ]
    facts = {"file": arguments.out, "runs": number, "bytes": size}
    return Answer(facts, [*lines, *skipped], int(bool(problems)), skipped if arguments.json else ())
