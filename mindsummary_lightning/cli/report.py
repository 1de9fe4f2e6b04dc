"""``mindsummary report RUN... -o FILE``."""

from __future__ import annotations

import argparse
import os

from mindsummary_lightning.cli.output import counted, progress_bar, readable_size, say
from mindsummary_lightning.cli.runs import runs_below
from mindsummary_lightning.export.report import write_report

_PARTS = 3  # runs read, figures made, file written


def run(arguments: argparse.Namespace) -> int:
    """Write the page and say where it is."""
    found = list(dict.fromkeys(run_dir for directory in arguments.runs for run_dir in runs_below(directory)))
    with progress_bar("report", _PARTS, "part") as advance:
        write_report(found, arguments.out, advance)
    say(f"{arguments.out}: {counted(len(found), 'run')}, {readable_size(os.path.getsize(arguments.out))}")
    return 0
