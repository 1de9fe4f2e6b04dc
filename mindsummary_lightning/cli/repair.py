"""``mindsummary repair RUN``."""

from __future__ import annotations

import argparse

__all__ = ["HELP", "NAME", "add_arguments", "run"]

NAME = "repair"
HELP = "Rebuild damaged files of a run from their whole records; the damaged ones are kept in RUN/.damaged."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("run_dir", metavar="RUN", help="a run that nobody is recording")


def run(arguments: argparse.Namespace) -> int:
    """Repair and say what was saved."""
    from mindsummary_lightning.cli.output import progress_bar, readable_size
    from mindsummary_lightning.cli.runs import files_size, one_run
    from mindsummary_lightning.maintenance.repair import repair_run

    path = one_run(arguments.run_dir)
    with progress_bar("repairing", files_size(path)) as advance:
        repaired = repair_run(path, advance)
    for file in repaired:
        print(f"{file.path}: {file.records} records kept, {readable_size(file.dropped)} dropped")
        print(f"  the damaged file is now {file.backup}")
    if not repaired:
        print(f"{path}: nothing is damaged")
    return 0
