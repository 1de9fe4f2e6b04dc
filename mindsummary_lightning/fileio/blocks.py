"""Read and check the complete records of an open file.

The one place that compares header, length, size and CRC of a record.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
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
    """Yield the complete records from an offset on, a block at a time.

    Yields the end of the last of them in the file, and them; ends before a record that the file
    cannot hold. ``path`` is for errors.

    Raises:
        DamagedFileError: a CRC does not match or a record is empty; everything before it has been
            yielded.
        OSError: the file cannot be read.
    """
    at, block, start, length, least = offset, b"", 0, 0, 1
    alike, before, most, needed = 0, b"", _MANY, _ALIKE
    while (left := file.seek(0, os.SEEK_END) - at) >= least:  # fewer cannot complete a record
        if length > MAX_PAYLOAD:  # a sparse file holds it, and reading it would take as much memory
            raise DamagedFileError(
                path, offset, f"a record of {length} bytes, more than protobuf allows"
            )
        file.seek(at)
        more = file.read(min(max(block_size, least), left))
        if not more:
            return
        at += len(more)
        block = block[start:] + more
        start, size, least, problem = 0, len(block), 1, None
        bounds = array("q", [0])
        while start + HEADER_SIZE <= size:
            header = block[start : start + HEADER_SIZE]
            length, problem = checked_length(header)
            if problem:
                break
            end = start + length + OVERHEAD
            if end > size:
                least = end - size
                break
            alike, before = alike + 1 if header == before else 0, header
            if alike < needed:
                bounds.append(end)
                start = end
                continue
            count = count_alike(block, start, end - start, most)
            bounds.frombytes(
                (np.arange(1, count + 1, dtype=np.int64) * (end - start) + start).tobytes()
            )
            start = bounds[-1]
            # Where the block ends, the next one may go on with them.
            alike, most = (
                (alike, 8 * count)
                if count == most or start + length + OVERHEAD > size
                else (0, _MANY)
            )
            needed = _ALIKE if count > _ALIKE else 2 * needed
        records = Records(block, bounds)
        count, mismatch = records.first_mismatch()
        if mismatch:
            problem, records = mismatch, Records(block, bounds[: count + 1])
        start = records.nbytes
        offset += start
        if count:
            yield offset, records
        if problem:
            raise DamagedFileError(path, offset, problem)


@lru_cache(maxsize=1024)  # most records of a run have one of few lengths, and so one of few headers
def checked_length(header: bytes) -> tuple[int, str | None]:
    """Return the length in a record's 12-byte header, and the header's problem."""
    length = unpack_length(header)
    return length, header_mismatch(header) or (
        None if length else "an empty record; MindInsight never gets past it"
    )
