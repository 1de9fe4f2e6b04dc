"""``TagSurvey``: finds the tags in many runs, fast enough for lists of runs.

It reads only the beginning and the end of large files.

A tag appears early or never in most runs, so the numbers are nearly always right; what was not read
is said.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from io import FileIO
from typing import TypeAlias

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import HEADER_SIZE
from mindsummary_lightning.fileformat.records import Records
from mindsummary_lightning.fileformat.scalar_columns import ScalarDecoder
from mindsummary_lightning.fileio.blocks import BLOCK
from mindsummary_lightning.fileio.regular import open_regular
from mindsummary_lightning.fileio.salvage import pieces_of
from mindsummary_lightning.fileio.scan import RecordScanner

Tags: TypeAlias = "set[tuple[str, str]]"  # kinds and tags

# bytes at the beginning, or at least the first record of values, and at the end
_HEAD, _TAIL = 1 << 15, 1 << 15


class TagSurvey:
    """Finds the tags in the summary files of many runs.

    Runs of the same training script hold events of the same shapes, which are decoded faster.
    """

    def __init__(self) -> None:
        self._decoder = ScalarDecoder()

    def tags(self, paths: Iterable[str], is_exact: bool = False) -> tuple[Tags, bool]:
        """Return the kinds and tags in summary files, and whether all bytes were read.

        Every file is opened once.

        With ``is_exact`` everything is read, otherwise the first and last part of a large file.

        Raises:
            DamagedFileError: what was read is damaged.
            OSError: a file cannot be read.
        """
        tags: Tags = set()
        is_whole = True
        for path in paths:
            with open_regular(path) as file:
                scanner = RecordScanner(path, file=file)
                begin = first = 0
                of_file: Tags = set()
                for payloads in scanner.batches(BLOCK if is_exact else _HEAD):
                    # a graph may precede the values, and be larger than the head
                    first = first if of_file else begin
                    of_file |= self._tags(path, begin, payloads)
                    begin = scanner.offset
                    tail = os.fstat(file.fileno()).st_size - _TAIL
                    if of_file and first + _HEAD // 2 <= begin < tail and not is_exact:
                        is_whole = False
                        of_file |= self._last_tags(path, file, tail)
                        break
                tags |= of_file
        return tags, is_whole

    def _tags(self, path: str, begin: int, payloads: Records) -> Tags:
        columns, others = self._decoder.decode(payloads)
        tags: Tags = set()
        for group in columns:
            tags.update(("scalar", tag) for tag in group.tags)
        for index, outline in others:
            if isinstance(outline, ValueError):
                raise DamagedFileError(
                    path, begin + payloads.place(index)[0] - HEADER_SIZE, str(outline)
                ) from outline
            tags.update(outline.tags)
        return tags

    def _last_tags(self, path: str, file: FileIO, begin: int) -> Tags:
        first = 0
        payloads: list[bytes] = []
        for piece in pieces_of(file, begin):
            if piece.payload is not None:
                first = first if payloads else piece.start
                payloads.append(piece.payload)
            elif payloads and not piece.is_tail:  # before the first record is the rest of another
                raise DamagedFileError(path, piece.start, str(piece.damage))
        return self._tags(path, first, Records.of(payloads))
