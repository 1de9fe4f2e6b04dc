"""Complete records of a damaged file. Reading continues after damage at the next offset where both CRCs match.

Payloads are opaque here: a record is what its length CRC and its payload CRC agree on. The file is read, never mapped,
because another process may truncate it, and a mapped page that is gone kills the process with SIGBUS.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from io import FileIO
from typing import NamedTuple

import numpy as np

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

_BLOCK = 1 << 20  # offsets tried at a time
_ZEROS = bytes(_BLOCK + HEADER_SIZE)


class Piece(NamedTuple):
    """A stretch of a file: one complete record, or everything up to the next one.

    Attributes:
        start: offset of its first byte.
        end: offset after its last byte.
        payload: payload of the record; ``None`` if the stretch is damaged.
        damage: what is wrong with it, or ``None``.
        is_tail: whether the stretch is what an interrupted writer leaves at the end: a record that is not complete, or
            from some byte of it on only zeros (what a power cut leaves of blocks that never reached the disk).
    """

    start: int
    end: int
    payload: bytes | None
    damage: str | None = None
    is_tail: bool = False


def read_pieces(path: str, at: int = 0) -> Iterator[Piece]:
    """Every byte of a file from an offset on, in order, as complete records and damaged stretches.

    Memory is bounded by one record and one block. If the file is truncated meanwhile, the pieces end there.

    Args:
        path: the file.
        at: where to begin; the start of a record.

    Raises:
        OSError: the file cannot be read, or is not a regular file.
    """
    with os.fdopen(open_regular(path), "rb", buffering=0) as file:
        yield from pieces_of(file, at)


def pieces_of(file: FileIO, at: int = 0) -> Iterator[Piece]:
    """:func:`read_pieces` for an open file, from the start of a record on."""
    data = _Window(file)
    while at < data.size:
        payload, damage = _record(data, at)
        if payload is not None:
            end = at + len(payload) + OVERHEAD
            yield Piece(at, end, payload)
        else:
            end = _next_record(data, at + 1)
            is_tail = end == data.size and _is_unfinished(data, at)
            end = min(end, data.size)
            if end <= at:  # truncated meanwhile
                return
            yield Piece(at, end, None, damage, is_tail)
        at = end


class _Window:
    """Bytes of an open file by offset; ``size`` shrinks when the file turns out to be shorter than it was."""

    def __init__(self, file: FileIO) -> None:
        self.file = file
        self._start = 0
        self._block = b""
        self.size = os.fstat(file.fileno()).st_size

    def read(self, start: int, end: int) -> bytes:
        """The bytes from ``start`` to ``end``, fewer at the end of the file."""
        inside = start - self._start
        if inside < 0 or end > self._start + len(self._block):
            self._fill(start, max(end - start, _BLOCK))
            inside = 0
            if start + len(self._block) < end:
                self.size = min(self.size, start + len(self._block))
        return self._block[inside : inside + end - start]

    def _fill(self, start: int, wanted: int) -> None:
        self.file.seek(start)
        chunks = []
        while wanted > 0 and (chunk := self.file.read(wanted)):
            chunks.append(chunk)
            wanted -= len(chunk)
        self._start, self._block = start, b"".join(chunks)


def skip_hole(file: FileIO, at: int, size: int) -> int:
    """The first offset from ``at`` on that is not in a hole of a sparse file; ``size`` if there is none."""
    if not hasattr(os, "SEEK_DATA"):
        return at
    try:
        return min(os.lseek(file.fileno(), at, os.SEEK_DATA), size)
    except OSError as error:  # ENXIO: only a hole follows; anything else: the file system does not tell
        return size if error.errno == errno.ENXIO else at


def _record(data: _Window, at: int) -> tuple[bytes | None, str | None]:
    """Payload of the record at an offset, or ``None`` and what is wrong."""
    header = data.read(at, at + HEADER_SIZE)
    if len(header) < HEADER_SIZE:
        return None, f"{len(header)} bytes are left, a record has at least {OVERHEAD}"
    problem = header_mismatch(header)
    if problem:
        return None, problem
    length = unpack_length(header)
    if not length:
        return None, "an empty record; MindInsight never gets past it"
    end = at + length + OVERHEAD
    if end <= data.size:
        if length > MAX_PAYLOAD:
            return None, f"a record of {length} bytes, more than protobuf allows"
        payload = data.read(at + HEADER_SIZE, end - FOOTER_SIZE)
        footer = data.read(end - FOOTER_SIZE, end)
        if len(payload) == length and len(footer) == FOOTER_SIZE:
            problem = checksum_mismatch(payload, footer)
            return (None, problem) if problem else (payload, None)
    return None, f"the record should end at byte {end}, the file ends at {data.size}"


def _is_unfinished(data: _Window, at: int) -> bool:
    header = data.read(at, at + HEADER_SIZE)
    if len(header) < HEADER_SIZE:
        return True
    zeros = at + HEADER_SIZE
    if header_mismatch(header) is None:
        end = at + unpack_length(header) + OVERHEAD
        if end > data.size:
            return True
        zeros = end - FOOTER_SIZE if end == data.size else end
    while (zeros := skip_hole(data.file, zeros, data.size)) < data.size:
        block = data.read(zeros, min(zeros + _BLOCK, data.size))
        if not _is_zero(block):
            return False
        zeros += max(len(block), 1)
    return True


def _is_zero(block: bytes) -> bool:
    return block == _ZEROS[: len(block)]


def _next_record(data: _Window, begin: int) -> int:
    """Offset of the next complete record at or after ``begin``; the size if there is none."""
    while begin + OVERHEAD < data.size:
        # A length may begin with zeros, so a header can reach from a hole into what follows.
        begin = max(begin, skip_hole(data.file, begin, data.size) - HEADER_SIZE)
        block = data.read(begin, begin + _BLOCK + HEADER_SIZE)
        if not _is_zero(block):
            for offset in _likely_headers(np.frombuffer(block, np.uint8), data.size - begin):
                if _record(data, begin + offset)[0] is not None:
                    return begin + offset
        begin += _BLOCK
    return data.size


def _likely_headers(block: np.ndarray, remaining: int) -> list[int]:
    # A length is eight bytes of which the last four are zero in any record that fits a disk; few offsets look like
    # that, so that their CRCs can be computed one by one.
    count = block.size - HEADER_SIZE + 1
    if count <= 0:
        return []
    high = block[4 : count + 4] | block[5 : count + 5] | block[6 : count + 6] | block[7 : count + 7]
    offsets = np.flatnonzero(high == 0)
    lengths = sum(block[offsets + byte].astype(np.int64) << (8 * byte) for byte in range(4))
    fits = (lengths > 0) & (lengths + offsets <= remaining - OVERHEAD)
    found: list[int] = offsets[fits & (offsets < _BLOCK)].tolist()
    return found
