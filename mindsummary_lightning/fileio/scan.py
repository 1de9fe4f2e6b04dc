"""Records of a file that may be growing or truncated.

A last record that is not complete yet is not an error: the file may still be growing, and reading continues at the same
offset later. A CRC that does not match is one, and is raised with its offset.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import IO, TypeVar

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import (
    FOOTER_SIZE,
    HEADER_SIZE,
    MAX_PAYLOAD,
    OVERHEAD,
    checksum_mismatch,
    header_mismatch,
    unpack_length,
)
from mindsummary_lightning.fileio.regular import open_regular

_T = TypeVar("_T")

_BLOCK = 1 << 20  # bytes asked from the file at a time


class RecordScanner:
    """The payloads of a record file, in order; iterate again to read what has been added since.

    Memory is bounded by one block and one record, never by the file: a length that the rest of the file cannot hold is
    taken for an incomplete record.

    Args:
        path: the file.
        offset: where to begin; the start of a record.

    Attributes:
        offset: end of the last complete record read so far.
    """

    def __init__(self, path: str, offset: int = 0) -> None:
        self.path = path
        self.offset = offset

    def __iter__(self) -> Iterator[bytes]:
        """Yield each complete record's payload.

        Raises:
            DamagedFileError: a CRC does not match or a record is empty; everything before it has been yielded.
            OSError: the file cannot be read, or is not a regular file.
        """
        for payloads in self._blocks():
            for payload in payloads:
                self.offset += len(payload) + OVERHEAD
                yield payload

    def decoded(self, decode: Callable[[bytes], _T]) -> Iterator[_T]:
        """Yield each complete record decoded; raises as in iterating, and where ``decode`` raises ``ValueError``."""
        start = self.offset
        for payload in self:
            try:
                yield decode(payload)
            except ValueError as error:
                raise DamagedFileError(self.path, start, str(error)) from error
            start = self.offset

    def batches(self) -> Iterator[list[bytes]]:
        """Yield the payloads of neighbouring records, as many as one block holds; ``offset`` is the end of them all.

        Raises:
            DamagedFileError, OSError: as in iterating.
        """
        for payloads in self._blocks():
            self.offset += sum(map(len, payloads)) + OVERHEAD * len(payloads)
            yield payloads

    def _blocks(self) -> Iterator[list[bytes]]:
        with os.fdopen(open_regular(self.path), "rb", buffering=0) as file:
            for _, payloads in blocks_of(file, self.path, self.offset):
                yield payloads


def blocks_of(file: IO[bytes], path: str, offset: int, block_size: int = _BLOCK) -> Iterator[tuple[int, list[bytes]]]:
    """The complete records of an open file from the start of one on, as many as one block holds at a time.

    The one place where header, length, size and CRC of a record are checked. Yields the end of the last of the records
    and their payloads; raises as :class:`RecordScanner` does. ``path`` is for errors.
    """
    file.seek(offset)
    block = b""
    while True:
        start, size, length, wanted, problem = 0, len(block), 0, block_size, None
        payloads = []
        while start + HEADER_SIZE <= size:
            body = start + HEADER_SIZE
            length, problem = checked_length(block[start:body])
            if problem:
                break
            end = body + length
            if end + FOOTER_SIZE > size:
                wanted = max(block_size, end + FOOTER_SIZE - size)
                break
            payload = block[body:end]
            problem = checksum_mismatch(payload, block, end)
            if problem:
                break
            payloads.append(payload)
            start = end + FOOTER_SIZE
        offset += start
        if payloads:
            yield offset, payloads
        if problem:
            raise DamagedFileError(path, offset, problem)
        if wanted > block_size:
            if os.fstat(file.fileno()).st_size < offset + size - start + wanted:
                return
            if length > MAX_PAYLOAD:  # a sparse file holds it, and reading it would take as much memory
                raise DamagedFileError(path, offset, f"a record of {length} bytes, more than protobuf allows")
        more = file.read(wanted)
        if not more:
            return
        block = block[start:] + more


@lru_cache(maxsize=1024)  # most records of a run have one of few lengths, and so one of few headers
def checked_length(header: bytes) -> tuple[int, str | None]:
    """Length that a record's 12-byte header announces, and what is wrong with the header."""
    length = unpack_length(header)
    return length, header_mismatch(header) or (None if length else "an empty record; MindInsight never gets past it")
