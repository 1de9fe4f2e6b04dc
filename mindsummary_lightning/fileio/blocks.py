"""Read and check the complete records of an open file.

No other module compares the header, length, size and CRC of a record.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import IO

import numpy as np

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import (
    HEADER_SIZE,
    MAX_PAYLOAD,
    OVERHEAD,
    header_mismatch,
    unpack_length,
)
from mindsummary_lightning.fileformat.records import Records, count_alike

# bytes asked from a file at a time; memory for more would be asked from the system each time
BLOCK = 1 << 18
# records in a row with one header: then those that follow and have it are looked for together
_ALIKE = 32
# so many at first; where there are few, twice as many must come in a row before the next time
_MANY = 256


def blocks_of(
    file: IO[bytes], path: str, offset: int, block_size: int = BLOCK
) -> Iterator[tuple[int, Records]]:
    """Yield the complete records of a file from an offset on, block by block.

    Yields:
        The byte offset in the file after the records of the block, and the records.

    The iteration ends before a record that is not complete. ``path`` is used in errors.

    Raises:
        DamagedFileError: a CRC does not match or a record is empty; all records before it have been
            yielded.
        OSError: the file cannot be read.
    """
    at, block, start, least = offset, b"", 0, 1
    finder = _EndFinder()
    while (left := file.seek(0, os.SEEK_END) - at) >= least:  # fewer cannot complete a record
        # a sparse file holds it, and reading it would take as much memory
        if finder.length > MAX_PAYLOAD:
            reason = f"a record has {finder.length} bytes, more than protobuf allows"
            raise DamagedFileError(path, offset, reason)
        file.seek(at)
        more = file.read(min(max(block_size, least), left))
        if not more:
            return
        at += len(more)
        block = block[start:] + more
        found = finder.find(block)
        least, problem = found.missing, found.problem
        records = Records(block, found.ends)
        count, mismatch = records.first_mismatch()
        if mismatch:
            problem, records = mismatch, Records(block, found.ends[: count + 1])
        start = records.nbytes
        offset += start
        if count:
            yield offset, records
        if problem:
            raise DamagedFileError(path, offset, problem)


@dataclass(frozen=True, slots=True)
class _RecordEnds:
    """Byte offsets at which the complete records of a block end.

    Attributes:
        ends: 0, then the end of every complete record, in bytes from the start of the block.
        missing: bytes that the next record lacks, as far as its header tells; at least 1.
        problem: the fault in the header after the last complete record, or ``None``.
    """

    ends: array[int]
    missing: int
    problem: str | None


class _EndFinder:
    """A search for the ends of the records in successive blocks of a file.

    Many records of a run have the same length. After several records with the same header, the
    following records with this header are counted in one NumPy operation.

    Attributes:
        length: payload bytes that the last header announces.
    """

    def __init__(self) -> None:
        self.length: int = 0
        self._header = b""
        self._alike = 0  # records in a row with this header
        self._needed = _ALIKE  # so many in a row before they are counted together
        self._most = _MANY  # so many are counted at once

    def find(self, block: bytes) -> _RecordEnds:
        """Return the ends of the complete records in a block that starts with a record."""
        start, size = 0, len(block)
        ends = array("q", [0])
        alike, before, needed = self._alike, self._header, self._needed
        missing, problem = 1, None
        while start + HEADER_SIZE <= size:
            header = block[start : start + HEADER_SIZE]
            self.length, problem = checked_length(header)
            if problem:
                break
            end = start + self.length + OVERHEAD
            if end > size:
                missing = end - size
                break
            alike, before = alike + 1 if header == before else 0, header
            if alike < needed:
                ends.append(end)
                start = end
                continue
            count = count_alike(block, start, end - start, self._most)
            steps = np.arange(1, count + 1, dtype=np.int64) * (end - start)
            ends.frombytes((steps + start).tobytes())
            start = ends[-1]
            if count == self._most or start + self.length + OVERHEAD > size:
                self._most = 8 * count  # the next block may go on with them
            else:
                alike, self._most = 0, _MANY
            needed = _ALIKE if count > _ALIKE else 2 * needed
        self._alike, self._header, self._needed = alike, before, needed
        return _RecordEnds(ends, missing, problem)


@lru_cache(maxsize=1024)  # most records of a run have one of few lengths, and so one of few headers
def checked_length(header: bytes) -> tuple[int, str | None]:
    """Return the payload length in a record's 12-byte header, and the header's fault."""
    length = unpack_length(header)
    return length, header_mismatch(header) or (
        None if length else "an empty record; MindInsight never gets past it"
    )
