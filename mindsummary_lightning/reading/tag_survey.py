"""``TagSurvey``: tags of many runs from the beginning and the end of their files, for lists.

A tag appears early or never in most runs, so the numbers are nearly always right; what was not read is said.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.event_outline import outline_event
from mindsummary_lightning.fileformat.framing import OVERHEAD
from mindsummary_lightning.fileformat.scalar_codec import MAX_SCALAR_EVENT, layout_of
from mindsummary_lightning.fileio.blocks import BLOCK
from mindsummary_lightning.fileio.salvage import Piece, read_pieces
from mindsummary_lightning.fileio.scan import RecordScanner

Tags: TypeAlias = "set[tuple[str, str]]"  # kinds and tags
# The mask of a layout, what events of it have in common under the mask, and their tags.
_Known: TypeAlias = "tuple[NDArray[np.uint8], NDArray[np.uint8], Tags]"

_HEAD, _TAIL = 1 << 15, 1 << 15  # bytes at the beginning, or at least the first record of values, and at the end
_MAX_LAYOUTS = 16  # of one length of event


class TagSurvey:
    """Tags of many runs. Runs of one training script hold events of the same layout, which is worked out once."""

    def __init__(self) -> None:
        self._layouts: dict[int, list[_Known]] = {}  # by length of an event

    def tags(self, paths: Iterable[str], is_exact: bool = False) -> tuple[Tags, bool]:
        """Kinds and tags in some summary files, and whether all of each file has been read.

        ``is_exact`` asks for that; otherwise it is the first and last part of a large file.

        Raises:
            DamagedFileError: what was read is damaged.
            OSError: a file cannot be read.
        """
        tags: Tags = set()
        is_whole = True
        for path in paths:
            scanner = RecordScanner(path)
            begin = first = 0
            of_file: Tags = set()
            for payloads in scanner.batches(BLOCK if is_exact else _HEAD):
                first = first if of_file else begin  # a graph may precede the values, and be larger than the head
                of_file |= self._tags(path, begin, payloads)
                begin = scanner.offset
                tail = os.path.getsize(path) - _TAIL
                if of_file and first + _HEAD // 2 <= begin < tail and not is_exact:
                    is_whole = False
                    for piece in _last_records(path, tail):
                        of_file |= self._tags(path, piece.start, [piece.payload or b""])
                    break
            tags |= of_file
        return tags, is_whole

    def _tags(self, path: str, begin: int, payloads: Sequence[bytes]) -> Tags:
        tags: Tags = set()
        by_length: dict[int, list[bytes]] = {}
        for payload in payloads:
            by_length.setdefault(len(payload), []).append(payload)
        for length, alike in by_length.items():
            layouts = self._layouts.setdefault(length, [])
            rows = np.frombuffer(b"".join(alike), np.uint8).reshape(-1, length)
            number = 0
            while len(rows):
                if number == len(layouts):
                    try:
                        tags |= self._outlined(rows[0].tobytes(), layouts)
                    except ValueError as error:
                        before = payloads[: payloads.index(rows[0].tobytes())]
                        offset = begin + sum(map(len, before)) + OVERHEAD * len(before)
                        raise DamagedFileError(path, offset, str(error)) from error
                    rows = rows[1:]
                    continue
                mask, common, known = layouts[number]
                is_known = ((rows & mask) == common).all(axis=1)
                if is_known.any():
                    tags |= known
                    rows = rows[~is_known]
                number += 1
        return tags

    def _outlined(self, payload: bytes, layouts: list[_Known]) -> Tags:
        tags = {(value.kind, value.tag) for value in outline_event(payload).values}
        layout = layout_of(payload) if len(payload) <= MAX_SCALAR_EVENT and len(layouts) < _MAX_LAYOUTS else None
        if layout is not None:
            mask = layout.mask(len(payload))
            layouts.append((mask, np.frombuffer(payload, np.uint8) & mask, tags))
        return tags


def _last_records(path: str, begin: int) -> list[Piece]:
    records: list[Piece] = []
    for piece in read_pieces(path, begin):
        if piece.payload is not None:
            records.append(piece)
        elif records and not piece.is_tail:  # what lies before the first record is the end of another one
            raise DamagedFileError(path, piece.start, str(piece.damage))
    return records
