"""``mindsummary report RUN... -o FILE``."""

from __future__ import annotations

import argparse
import os
import sys

from mindsummary_lightning.cli.output import counted, progress_bar, readable_size, say
from mindsummary_lightning.cli.runs import runs_in
from mindsummary_lightning.export.report import write_report

_LARGE_BYTES = 20_000_000


def run(arguments: argparse.Namespace) -> int:
    """Write the page and say where it is; 1 if it lacks a run that cannot be read."""
    run_dirs = runs_in(arguments.runs)

    def announce(size: int) -> None:
        if size > _LARGE_BYTES:
            say(f"the page will have about {readable_size(size)}; name fewer runs for a smaller one", sys.stderr)

    with progress_bar("report", 100, "%") as advance:
        problems = write_report(run_dirs, arguments.out, advance, announce)
    shown = counted(len(run_dirs) - len(problems), "run")
    say(f"{arguments.out}: {shown}, {readable_size(os.path.getsize(arguments.out))}")
    for name, problem in problems.items():
        say(f"skipped because it cannot be read: {name}: {problem}")
    return int(bool(problems))
