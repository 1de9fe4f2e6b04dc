"""``mindsummary dump FILE``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from mindsummary_lightning.cli.arguments import argument
from mindsummary_lightning.cli.output import Answer, UsageError, say
from mindsummary_lightning.conversion.json_events import plain_event
from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.file_names import is_lineage_name
from mindsummary_lightning.fileformat.framing import OVERHEAD
from mindsummary_lightning.fileformat.lineage_codec import decode_lineage_event
from mindsummary_lightning.fileformat.summary_codec import decode_event
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.maintenance.verify import appearance
from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files

ARGUMENTS = (argument("file", metavar="FILE", help="a summary or lineage file"),)


def run(arguments: argparse.Namespace) -> Answer:
    """Print all complete records up to the first damaged record."""
    if os.path.isdir(arguments.file):
        files = summary_files(arguments.file) + lineage_file_paths(arguments.file)
        listed = "its files are: " + " ".join(files) if files else "it holds no event file"
        raise UsageError(f"{arguments.file} is a directory; dump needs a file; {listed}")
    return Answer(lines=_records(arguments.file))


def _records(path: str) -> Iterator[str]:
    is_lineage = is_lineage_name(os.path.basename(path))
    decode: Callable[[bytes], Any] = decode_lineage_event if is_lineage else decode_event
    scanner = RecordScanner(path)
    offset = 0
    try:
        for event in scanner.decoded(decode):
            line = {
                "offset": offset,
                "length": scanner.offset - offset - OVERHEAD,
                **plain_event(event),
            }
            # what say() escapes, it escapes as JSON does
            yield json.dumps(line, ensure_ascii=False, allow_nan=False)
            offset = scanner.offset
    except DamagedFileError as error:
        if offset or error.offset:
            raise
        raise UsageError(
            f"{path} must be an event file, but looks like {appearance(path)}"
        ) from error
    rest = os.path.getsize(path) - scanner.offset
    if rest:
        say(
            f"mindsummary: the last record is incomplete: {rest} bytes are not printed",
            sys.stderr,
        )
