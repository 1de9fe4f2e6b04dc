"""Tags of a run from the beginning and the end of its files, for lists of many runs.

A tag appears early or never in most runs, so the counts are nearly always right; what was not read is said.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from io import FileIO

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileio.regular import open_regular
from mindsummary_lightning.fileio.salvage import pieces_of
from mindsummary_lightning.fileio.scan import blocks_of
from mindsummary_lightning.reading.value_locations import outline_batch

_HEAD = 1 << 16  # bytes read at the beginning of a file, and at its end
_TAIL = 1 << 15


def survey_tags(paths: Iterable[str], is_exact: bool = False) -> tuple[set[tuple[str, str]], bool]:
    """Kinds and tags in the first and last part of some summary files.

    Args:
        paths: the files.
        is_exact: whether to read the files as a whole.

    Returns:
        Kinds and tags, and whether the files have been read as a whole.

    Raises:
        DamagedFileError: what was read is damaged.
        OSError: a file cannot be read.
    """
    tags: set[tuple[str, str]] = set()
    is_whole = True
    for path in paths:
        with os.fdopen(open_regular(path), "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            for end, payloads in blocks_of(file, path, 0, 1 << 20 if is_exact else _HEAD):
                tags |= _tags(path, payloads)
                if size - end > _TAIL and not is_exact:
                    is_whole = False
                    tags |= _tags(path, _last_payloads(path, file, size - _TAIL))
                    break
    return tags, is_whole


def _last_payloads(path: str, file: FileIO, begin: int) -> list[bytes]:
    payloads = []
    for piece in pieces_of(file, begin):
        if piece.payload is not None:
            payloads.append(piece.payload)
        elif payloads and not piece.is_tail:  # what lies before the first record is the end of another one
            raise DamagedFileError(path, piece.start, str(piece.damage))
    return payloads


def _tags(path: str, payloads: list[bytes]) -> set[tuple[str, str]]:
    def refuse(error: DamagedFileError) -> None:
        raise error from error.__cause__

    scalars, others = outline_batch(path, 0, 0, payloads, refuse)
    return {("scalar", tag) for columns in scalars for tag in columns.tags} | {
        (value.kind, value.tag) for _, outline in others for value in outline.values
    }
