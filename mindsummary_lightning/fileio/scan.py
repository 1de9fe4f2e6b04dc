"""Records from a file that may be growing or torn, and the cutting of torn tails.

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
from mindsummary_lightning.fileio.append import try_lock

__all__ = ["RecordScanner", "cut_torn_tail"]

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
        with open(self.path, "rb", buffering=0) as file:
            file.seek(self.offset)
            block = b""
            while True:
                start, size, wanted = 0, len(block), _BLOCK
                while start + HEADER_SIZE <= size:
                    body = start + HEADER_SIZE
                    length, problem = _checked_length(block[start:body])
                    if problem:
                        raise DamagedFileError(self.path, self.offset, problem)
                    end = body + length
                    if end + _FOOTER_SIZE > size:
                        wanted = max(_BLOCK, end + _FOOTER_SIZE - size)
                        break
                    payload = block[body:end]
                    problem = checksum_mismatch(payload, block[end : end + _FOOTER_SIZE])
                    if problem:
                        raise DamagedFileError(self.path, self.offset, problem)
                    start = end + _FOOTER_SIZE
                    self.offset += length + OVERHEAD
                    yield payload
                if wanted > _BLOCK and not _holds(file.fileno(), self.offset + size - start + wanted):
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


def cut_torn_tail(path: str) -> int:
    """Cut a file that nobody writes to back to its last whole record.

    A tail is cut if the last record is not complete, or if from some byte of it on there are only zeros (what a power
    cut leaves of blocks that never reached the disk). A file with any other damage is left to ``mindsummary repair``.

    Args:
        path: a summary or lineage file.

    Returns:
        Bytes cut; 0 if the file was whole, is being written to, or lies where locks do not tell.

    Raises:
        OSError: the file cannot be opened or cut.
    """
    scanner = RecordScanner(path)
    try:
        for _ in scanner:
            pass
    except DamagedFileError:
        if not _ends_in_zeros(path, scanner.offset):
            return 0
    torn = os.path.getsize(path) - scanner.offset
    if torn <= 0:
        return 0
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        if try_lock(descriptor) is not True or os.fstat(descriptor).st_size != scanner.offset + torn:
            return 0
        os.ftruncate(descriptor, scanner.offset)
        return torn
    finally:
        os.close(descriptor)


def _ends_in_zeros(path: str, offset: int) -> bool:
    """Whether the damaged record at ``offset`` lost its end, and all that followed it, to zeros."""
    with open(path, "rb") as file:
        file.seek(offset)
        header = file.read(HEADER_SIZE)
        if header_mismatch(header) is None:
            footer = offset + HEADER_SIZE + unpack_length(header)
            is_last = not _holds(file.fileno(), footer + _FOOTER_SIZE + 1)
            file.seek(footer if is_last else footer + _FOOTER_SIZE)
        while block := file.read(_BLOCK):
            if block.count(0) != len(block):
                return False
    return True
