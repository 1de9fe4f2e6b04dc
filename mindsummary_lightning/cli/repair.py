"""``mindsummary repair DIR...``."""

from __future__ import annotations

import argparse
import functools
from dataclasses import asdict

from mindsummary_lightning.cli.arguments import RUNS_IN, argument, flag, json_of
from mindsummary_lightning.cli.output import Answer, error_line, readable_size
from mindsummary_lightning.cli.runs import found_in, runs_in
from mindsummary_lightning.values.text import counted, listed

ARGUMENTS = (
    argument("directories", metavar="DIR", nargs="+", help=RUNS_IN),
    flag("--dry-run", "say what would be done and do nothing; exit 1 if it is any"),
    json_of("the rebuilt files"),
)
_NAMED = 5  # directories in a line


def run(arguments: argparse.Namespace) -> Answer:
    """What was rebuilt; 1 if something could not be, or would be in a dry run."""
    from mindsummary_lightning.maintenance.repair import repair_run

    runs = runs_in(arguments.directories)
    named = listed(arguments.directories, _NAMED)
    damaged, errors = found_in(
        "repairing", runs, functools.partial(repair_run, is_dry=arguments.dry_run)
    )
    if errors and len(runs) == 1:
        raise errors[0]  # it is being recorded, or cannot be read
    repaired, unreadable = (
        [file for file in damaged if bool(file.records) is usable] for usable in (True, False)
    )
    be = "would be " if arguments.dry_run else ""
    lines = []
    for file in repaired:
        kept, dropped = counted(file.records, "record"), readable_size(file.dropped)
        lines.append(f"{file.path}: {kept} {be}kept, {dropped} {be}dropped")
        lines += [f"  the damaged file is now {file.backup}"] if file.backup else []
    for file in unreadable:
        lines.append(
            f"{file.path}: left as it is: no record can be read; it looks like {file.looks_like}"
        )
    if not damaged:
        lines.append(f"{named}: nothing is damaged{' in its other runs' if errors else ''}")
    facts = {
        "repaired": [asdict(file) for file in repaired],
        "unreadable": [asdict(file) for file in unreadable],
    }
    code = int(bool(unreadable or errors or (repaired and arguments.dry_run)))
    return Answer({"runs": runs, **facts}, lines, code, map(error_line, errors))
