"""``mindsummary repair RUN``."""

from __future__ import annotations

import argparse

__all__ = ["HELP", "NAME", "add_arguments", "run"]

NAME = "repair"
HELP = "Rebuild damaged files of a run from their complete records; the damaged ones are kept in RUN/.damaged."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("run_dir", metavar="RUN", help="a run that is not being recorded")
    parser.add_argument("--json", action="store_true", help="print the rebuilt files as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Repair and list what was rebuilt."""
    from mindsummary_lightning.cli.output import progress_bar, readable_size, say, say_json
    from mindsummary_lightning.cli.runs import files_size, one_run
    from mindsummary_lightning.maintenance.repair import repair_run

    path = one_run(arguments.run_dir)
    with progress_bar("repairing", files_size(path)) as advance:
        repaired = repair_run(path, advance)
    if arguments.json:
        facts = [{"path": f.path, "records": f.records, "dropped": f.dropped, "backup": f.backup} for f in repaired]
        say_json({"run": path, "repaired": facts})
        return 0
    for file in repaired:
        say(f"{file.path}: {file.records} records kept, {readable_size(file.dropped)} dropped")
        say(f"  the damaged file is now {file.backup}")
    if not repaired:
        say(f"{path}: nothing is damaged")
    return 0
