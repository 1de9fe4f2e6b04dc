"""Read the complete records of a damaged file.

After damage, reading continues at the next offset where both CRCs match.

The payload of a record is opaque here: a record is a stretch of bytes whose length CRC and payload
CRC match. The file is read and not mapped into memory, because another process may truncate it, and
access to a page that is gone kills the process with SIGBUS.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from io import FileIO
from typing import IO, NamedTuple

import numpy as np

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import FOOTER_SIZE, HEADER_SIZE, OVERHEAD
from mindsummary_lightning.fileio.blocks import BLOCK, blocks_of, checked_length
from mindsummary_lightning.fileio.regular import open_regular


class Piece(NamedTuple):
    """A stretch of a file: a complete record, or damaged bytes up to the next record.

    Attributes:
        start: byte offset of its first byte.
        end: byte offset after its last byte.
        payload: payload of the record; ``None`` if the stretch is damaged.
        damage: what is wrong with the stretch, or ``None``.
        is_tail: whether the stretch is at the end of the file and looks like an interrupted write:
            an incomplete record, or a record that has only zeros from some byte on (a power failure
            leaves zeros for blocks that never reached the disk).
    """

    start: int
    end: int
    payload: bytes | None
    damage: str | None = None
    is_tail: bool = False


def read_pieces(path: str) -> Iterator[Piece]:
    """Yield all bytes of a file in order, as complete records and damaged stretches.

    Memory is bounded by one record and one block. If the file is truncated meanwhile, the pieces
    end at its new end.

    Raises:
        OSError: the file cannot be read, or is not a regular file.
    """
    with open_regular(path) as file:
        yield from pieces_of(file)


def pieces_of(file: FileIO, at: int = 0) -> Iterator[Piece]:
    """Yield the records and damaged stretches of an open file from an offset on."""
    size = file.seek(0, os.SEEK_END)
    while at < size:
        damage = None
        try:
            for _, payloads in blocks_of(file, "", at):
                for payload in payloads:
                    end = at + len(payload) + OVERHEAD
                    yield Piece(at, end, payload)
                    at = end
        except DamagedFileError as error:
            damage = error.reason
        size = min(size, file.seek(0, os.SEEK_END))
        if at < size:
            end = next_record(file, at + 1, size)
            yield Piece(
                at,
                end,
                None,
                damage or shortage(file, at, size),
                end == size and _is_tail(file, at, size),
            )
            at = end


def find_record(path: str, at: int) -> int | None:
    """Return the offset of the first complete record at or after an offset.

    The result is ``None`` if no complete record follows.
    """
    with open_regular(path) as file:
        size = file.seek(0, os.SEEK_END)
        start = next_record(file, at, size)
        return start if start < size else None


def _read_at(file: FileIO, start: int, count: int) -> bytes:
    file.seek(start)
    chunks = []
    while count > 0:
        chunk = file.read(count)
        if not chunk:
            break
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks)


def skip_hole(file: FileIO, at: int, size: int) -> int:
    """Return the first offset at or after ``at`` that is not in a hole of the file.

    The result is ``size`` if only a hole follows.
    """
    if not hasattr(os, "SEEK_DATA"):
        return at
    try:
        return min(os.lseek(file.fileno(), at, os.SEEK_DATA), size)
    except (
        OSError
    ) as error:  # ENXIO: only a hole follows; anything else: the file system does not tell
        return size if error.errno == errno.ENXIO else at


def copy_data(file: FileIO, start: int, end: int, copy: IO[bytes]) -> None:
    """Copy a stretch of a file to the start of another file; holes stay holes."""
    at = start
    while (at := skip_hole(file, at, end)) < end:
        file.seek(at)
        copy.seek(at - start)
        at += max(copy.write(file.read(min(BLOCK, end - at))), 1)
    # somebody may have cut it meanwhile
    copy.truncate(max(min(end, os.fstat(file.fileno()).st_size) - start, 0))


def shortage(file: FileIO, at: int, size: int) -> str:
    """Describe which bytes an incomplete record lacks."""
    header = _read_at(file, at, HEADER_SIZE)
    if len(header) < HEADER_SIZE:
        return f"{size - at} bytes are left, a record has at least {OVERHEAD}"
    return (
        f"the record should end at byte {at + checked_length(header)[0] + OVERHEAD}, the file "
        f"ends at {size}"
    )


def _is_tail(file: FileIO, at: int, size: int) -> bool:
    header = _read_at(file, at, HEADER_SIZE)
    if len(header) < HEADER_SIZE:
        return True
    zeros = at + HEADER_SIZE
    length, problem = checked_length(header)
    if problem is None:
        end = at + length + OVERHEAD
        if end > size:
            return True
        zeros = end - FOOTER_SIZE if end == size else end
    while (zeros := skip_hole(file, zeros, size)) < size:
        block = _read_at(file, zeros, min(BLOCK, size - zeros))
        if block != bytes(len(block)):
            return False
        zeros += max(len(block), 1)
    return True


def next_record(file: FileIO, begin: int, size: int) -> int:
    """Return the offset of the next complete record at or after ``begin``.

    The result is ``size`` if there is none.
    """
    while begin + OVERHEAD < size:
        # A length may begin with zeros, so a header can reach from a hole into what follows.
        begin = max(begin, skip_hole(file, begin, size) - HEADER_SIZE)
        block = _read_at(file, begin, BLOCK + HEADER_SIZE)
        if block != bytes(len(block)):
            for offset in _likely_headers(np.frombuffer(block, np.uint8), size - begin):
                has_header = checked_length(block[offset : offset + HEADER_SIZE])[1] is None
                if has_header and is_record(file, begin + offset):
                    return begin + offset
        begin += BLOCK
    return size


def is_record(file: FileIO, at: int) -> bool:
    """Tell whether a complete record of an open file begins at an offset."""
    try:
        return next(blocks_of(file, "", at, HEADER_SIZE), None) is not None
    except DamagedFileError:
        return False


def _likely_headers(block: np.ndarray, remaining: int) -> list[int]:
    # A length is eight bytes of which the last four are zero in any record that fits a disk; few
    # offsets look like that, so that their CRCs can be computed one by one.
    count = block.size - HEADER_SIZE + 1
    if count <= 0:
        return []
    high = block[4 : count + 4] | block[5 : count + 5] | block[6 : count + 6] | block[7 : count + 7]
    offsets = np.flatnonzero(high == 0)
    lengths = sum(block[offsets + byte].astype(np.int64) << (8 * byte) for byte in range(4))
    fits = (lengths > 0) & (lengths + offsets <= remaining - OVERHEAD)
    likely: list[int] = offsets[fits & (offsets < BLOCK)].tolist()
    return likely
