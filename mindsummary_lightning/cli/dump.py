"""``mindsummary dump FILE``."""

from __future__ import annotations

import argparse
import json
import os
import sys

from mindsummary_lightning.cli.output import say
from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.export.json_events import plain_event
from mindsummary_lightning.fileformat.file_names import is_lineage_name
from mindsummary_lightning.fileformat.framing import OVERHEAD
from mindsummary_lightning.fileformat.lineage_codec import decode_lineage_event
from mindsummary_lightning.fileformat.summary_codec import decode_event
from mindsummary_lightning.fileio.scan import RecordScanner

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Print every complete record up to the first damaged one."""
    is_lineage = is_lineage_name(os.path.basename(arguments.file))
    scanner = RecordScanner(arguments.file)
    for payload in scanner:
        offset = scanner.offset - len(payload) - OVERHEAD
        try:
            event = decode_lineage_event(payload) if is_lineage else decode_event(payload)
        except ValueError as error:
            raise DamagedFileError(arguments.file, offset, str(error)) from error
        line = {"offset": offset, "length": len(payload), **plain_event(event)}
        say(json.dumps(line, ensure_ascii=False, allow_nan=False))  # what say() escapes, it escapes as JSON does
    rest = os.path.getsize(arguments.file) - scanner.offset
    if rest:
        say(f"mindsummary: {rest} bytes after the last complete record are not a record yet", sys.stderr)
    return 0
