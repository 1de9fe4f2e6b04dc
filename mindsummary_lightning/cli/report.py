"""``mindsummary report RUN... -o FILE``."""

from __future__ import annotations

import argparse

__all__ = ["HELP", "NAME", "add_arguments", "run"]

NAME = "report"
HELP = "Write one self-contained HTML page about some runs."

_PARTS = 3  # runs read, figures made, file written


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("runs", metavar="RUN", nargs="+", help="runs, or directories that hold runs")
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help="the page to write, for example report.html")


def run(arguments: argparse.Namespace) -> int:
    """Write the page and say where it is."""
    import os

    from mindsummary_lightning.cli.output import progress_bar, readable_size, say
    from mindsummary_lightning.cli.runs import runs_below
    from mindsummary_lightning.export.report import write_report

    found = list(dict.fromkeys(run_dir for directory in arguments.runs for run_dir in runs_below(directory)))
    with progress_bar("report", _PARTS, "part") as advance:
        write_report(found, arguments.out, advance)
    counted = f"{len(found)} run{'' if len(found) == 1 else 's'}"
    say(f"{arguments.out}: {counted}, {readable_size(os.path.getsize(arguments.out))}")
    return 0
