"""``mindsummary repair RUN``."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from mindsummary_lightning.cli.output import progress_bar, readable_size, say, say_json
from mindsummary_lightning.cli.runs import files_size, one_run
from mindsummary_lightning.maintenance.repair import repair_run


def run(arguments: argparse.Namespace) -> int:
    """Repair and list what was rebuilt."""
    path = one_run(arguments.run_dir)
    with progress_bar("repairing", files_size(path)) as advance:
        repaired = repair_run(path, advance)
    if arguments.json:
        say_json({"run": path, "repaired": [asdict(file) for file in repaired]})
        return 0
    for file in repaired:
        say(f"{file.path}: {file.records} records kept, {readable_size(file.dropped)} dropped")
        say(f"  the damaged file is now {file.backup}")
    if not repaired:
        say(f"{path}: nothing is damaged")
    return 0
