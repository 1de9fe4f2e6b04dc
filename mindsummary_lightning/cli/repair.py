"""``mindsummary repair DIR...``."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from mindsummary_lightning.cli.arguments import RUNS_IN, argument, flag, json_of
from mindsummary_lightning.cli.output import Answer, error_line, readable_size
from mindsummary_lightning.cli.runs import found_in, runs_in
from mindsummary_lightning.values.text import counted, listed

if TYPE_CHECKING:
    from mindsummary_lightning.maintenance.repair import RepairedFile

ARGUMENTS = (
    argument("directories", metavar="DIR", nargs="+", help=RUNS_IN),
    flag(
        "--dry-run",
        "list the files that would be rebuilt, and change nothing; exit 1 if there are any",
    ),
    json_of("the rebuilt files"),
)
_NAMED = 5  # directories in a line


def run(arguments: argparse.Namespace) -> Answer:
    """Rebuild files; exit 1 if a file failed, or in a dry run would be rebuilt."""
    from mindsummary_lightning.maintenance.repair import repair_run

    runs = runs_in(arguments.directories)
    repair = functools.partial(repair_run, is_dry=arguments.dry_run)
    damaged, errors = found_in("repairing", runs, repair)
    if errors and len(runs) == 1:
        raise errors[0]  # it is being recorded, or cannot be read
    repaired = [file for file in damaged if file.records]
    unreadable = [file for file in damaged if not file.records]
    lines: list[str] = []
    for file in repaired:
        lines += _repaired_lines(file, "would be " if arguments.dry_run else "")
    for file in unreadable:
        lines.append(
            f"{file.path}: left as it is: no record can be read; it looks like {file.looks_like}"
        )
    if not damaged:
        named = listed(arguments.directories, _NAMED)
        lines.append(f"{named}: nothing is damaged{' in its other runs' if errors else ''}")
    answer = {
        "runs": runs,
        "repaired": [asdict(file) for file in repaired],
        "unreadable": [asdict(file) for file in unreadable],
    }
    is_bad = unreadable or errors or (repaired and arguments.dry_run)
    return Answer(answer, lines, int(bool(is_bad)), map(error_line, errors))


def _repaired_lines(file: RepairedFile, be: str) -> Iterator[str]:
    kept = counted(file.records, "record")
    yield f"{file.path}: {kept} {be}kept, {readable_size(file.dropped)} {be}dropped"
    if file.backup:
        yield f"  the damaged file is now {file.backup}"
