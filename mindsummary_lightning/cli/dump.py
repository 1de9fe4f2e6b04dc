"""``mindsummary dump FILE``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from mindsummary_lightning.cli.output import UsageError, say
from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.export.json_events import plain_event
from mindsummary_lightning.fileformat.file_names import is_lineage_name
from mindsummary_lightning.fileformat.framing import OVERHEAD
from mindsummary_lightning.fileformat.lineage_codec import decode_lineage_event
from mindsummary_lightning.fileformat.summary_codec import decode_event
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.maintenance.verify import appearance
from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files


def run(arguments: argparse.Namespace) -> int:
    """Print every complete record up to the first damaged one."""
    if os.path.isdir(arguments.file):
        files = summary_files(arguments.file) + lineage_file_paths(arguments.file)
        listed = "its files are: " + " ".join(files) if files else "it holds no event file"
        raise UsageError(f"{arguments.file} is a directory, dump takes a file; {listed}")
    is_lineage = is_lineage_name(os.path.basename(arguments.file))
    decode: Callable[[bytes], Any] = decode_lineage_event if is_lineage else decode_event
    scanner, offset = RecordScanner(arguments.file), 0
    try:
        for event in scanner.decoded(decode):
            line = {"offset": offset, "length": scanner.offset - offset - OVERHEAD, **plain_event(event)}
            say(json.dumps(line, ensure_ascii=False, allow_nan=False))  # what say() escapes, it escapes as JSON does
            offset = scanner.offset
    except DamagedFileError as error:
        if offset or error.offset:
            raise
        looks = appearance(arguments.file)
        raise UsageError(f"{arguments.file} is not an event file, or it is damaged: it looks like {looks}") from error
    rest = os.path.getsize(arguments.file) - scanner.offset
    if rest:
        say(f"mindsummary: {rest} bytes after the last complete record are not a record yet", sys.stderr)
    return 0
