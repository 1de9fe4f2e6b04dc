"""``mindsummary repair DIR``."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from mindsummary_lightning.cli.output import counted, error_line, progress_bar, readable_size, say, say_json
from mindsummary_lightning.cli.runs import files_size, runs_in
from mindsummary_lightning.maintenance.repair import RepairedFile, repair_run


def run(arguments: argparse.Namespace) -> int:
    """Repair and list what was rebuilt; 1 if something could not be, or would be in a dry run."""
    runs = runs_in(arguments.directories)
    named = " ".join(arguments.directories)
    damaged: list[RepairedFile] = []
    refusals: list[OSError] = []
    with progress_bar("repairing", sum(map(files_size, runs))) as advance:
        for path in runs:
            try:
                damaged += repair_run(path, advance, is_dry=arguments.dry_run)
            except OSError as error:  # this run is being recorded or cannot be read; the others are not
                if len(runs) == 1:
                    raise
                refusals.append(error)
    repaired, unreadable = ([file for file in damaged if bool(file.records) is usable] for usable in (True, False))
    code = 1 if unreadable or refusals or (repaired and arguments.dry_run) else 0
    if arguments.json:
        facts = {"repaired": [asdict(file) for file in repaired], "unreadable": [asdict(file) for file in unreadable]}
        say_json({"run": runs[0] if len(runs) == 1 else named, **facts})
    for refusal in refusals:
        say(f"mindsummary: {error_line(refusal)}", sys.stderr)
    if arguments.json:
        return code
    for file in repaired:
        kept, dropped = ("would be kept", "would be dropped") if arguments.dry_run else ("kept", "dropped")
        say(f"{file.path}: {counted(file.records, 'record')} {kept}, {readable_size(file.dropped)} {dropped}")
        if file.backup:
            say(f"  the damaged file is now {file.backup}")
    for file in unreadable:
        say(f"{file.path}: left as it is: no record can be read; it looks like {file.looks_like}")
    if not damaged:
        say(f"{named}: nothing is damaged{' in its other runs' if refusals else ''}")
    return code
