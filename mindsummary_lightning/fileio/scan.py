"""Records from a file that may be growing or torn.

A tail that is no whole record yet is not an error: it may still be growing, and reading goes on at the same offset
later. A CRC that does not match is one, and is raised with its offset.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import (
    HEADER_SIZE,
    OVERHEAD,
    checksum_mismatch,
    header_mismatch,
    unpack_length,
)

__all__ = ["RecordScanner"]

_BLOCK = 1 << 20  # bytes asked from the file at a time
_FOOTER_SIZE = OVERHEAD - HEADER_SIZE


class RecordScanner:
    """The payloads of a record file, in order; iterate again to read what has been added since.

    Memory is bounded by one block and one record, never by the file, and a length that the rest of the file cannot hold
    is not believed.

    Args:
        path: the file.
        offset: where to begin; the start of a record.

    Attributes:
        offset: end of the last whole record read so far.
    """

    def __init__(self, path: str, offset: int = 0) -> None:
        self.path = path
        self.offset = offset

    def __iter__(self) -> Iterator[bytes]:
        """Yield each whole record's payload.

        Raises:
            DamagedFileError: a CRC does not match or a record is empty; everything before it has been yielded.
            OSError: the file cannot be read.
        """
        for payloads in self._blocks():
            for payload in payloads:
                self.offset += len(payload) + OVERHEAD
                yield payload

    def batches(self) -> Iterator[list[bytes]]:
        """Yield the payloads of neighbouring records, as many as one block holds; ``offset`` is the end of them all.

        Raises:
            DamagedFileError, OSError: as in iterating.
        """
        for payloads in self._blocks():
            self.offset += sum(map(len, payloads)) + OVERHEAD * len(payloads)
            yield payloads

    def _blocks(self) -> Iterator[list[bytes]]:
        offset = self.offset
        with open(self.path, "rb", buffering=0) as file:
            file.seek(offset)
            block = b""
            while True:
                start, size, wanted, problem = 0, len(block), _BLOCK, None
                payloads = []
                while start + HEADER_SIZE <= size:
                    body = start + HEADER_SIZE
                    length, problem = _checked_length(block[start:body])
                    if problem:
                        break
                    end = body + length
                    if end + _FOOTER_SIZE > size:
                        wanted = max(_BLOCK, end + _FOOTER_SIZE - size)
                        break
                    payload = block[body:end]
                    problem = checksum_mismatch(payload, block, end)
                    if problem:
                        break
                    payloads.append(payload)
                    start = end + _FOOTER_SIZE
                offset += start
                if payloads:
                    yield payloads
                if problem:
                    raise DamagedFileError(self.path, offset, problem)
                if wanted > _BLOCK and not _holds(file.fileno(), offset + size - start + wanted):
                    return
                more = file.read(wanted)
                if not more:
                    return
                block = block[start:] + more


@lru_cache(maxsize=1024)  # most records of a run have one of few lengths, and so one of few headers
def _checked_length(header: bytes) -> tuple[int, str | None]:
    length = unpack_length(header)
    return length, header_mismatch(header) or (None if length else "an empty record, which no writer leaves")


def _holds(descriptor: int, size: int) -> bool:
    return os.fstat(descriptor).st_size >= size
