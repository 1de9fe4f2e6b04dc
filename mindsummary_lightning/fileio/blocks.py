"""Complete records of an open file, checked: the one place that compares header, length, size and CRC of a record."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from typing import IO

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import (
    FOOTER_SIZE,
    HEADER_SIZE,
    MAX_PAYLOAD,
    checksum_mismatch,
    header_mismatch,
    unpack_length,
)

BLOCK = 1 << 18  # bytes asked from a file at a time; memory for more would be asked from the system each time


def blocks_of(file: IO[bytes], path: str, offset: int, block_size: int = BLOCK) -> Iterator[tuple[int, list[bytes]]]:
    """The complete records of an open file from the start of one on, as many as one block holds at a time.

    Yields the end of the last of the records and their payloads; ends before a record that the file cannot hold.
    ``path`` is for errors.

    Raises:
        DamagedFileError: a CRC does not match or a record is empty; everything before it has been yielded.
        OSError: the file cannot be read.
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
            at = file.tell()
            if file.seek(0, os.SEEK_END) < at + wanted:
                return
            file.seek(at)
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
