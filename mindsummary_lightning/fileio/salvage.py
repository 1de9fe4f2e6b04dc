"""Whole records out of a damaged file, and the cutting of what an interrupted writer left at the end of one.

Reading goes on behind damage at the next place where both CRCs are right. Payloads mean nothing here; a record is what
its length CRC and its payload CRC agree on.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import (
    HEADER_SIZE,
    OVERHEAD,
    checksum_mismatch,
    header_mismatch,
    unpack_length,
)
from mindsummary_lightning.fileio.append import try_lock
from mindsummary_lightning.fileio.scan import RecordScanner

__all__ = ["Piece", "cut_torn_tail", "read_pieces"]

_BLOCK = 1 << 20  # offsets tried at a time


class Piece(NamedTuple):
    """A stretch of a file: one whole record, or everything up to the next one.

    Attributes:
        start: its first byte.
        end: behind its last byte.
        payload: what the record holds; ``None`` if the stretch is damaged.
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
    """Every byte of a file, in order, as whole records and damaged stretches.

    Memory is bounded by one record and one block.

    Args:
        path: the file.
        at: where to begin; the start of a record.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as data:
            while at < size:
                damage = _damage(data, at, size)
                if damage is None:
                    end = at + unpack_length(data[at : at + HEADER_SIZE]) + OVERHEAD
                    yield Piece(at, end, data[at + HEADER_SIZE : end - (OVERHEAD - HEADER_SIZE)])
                else:
                    end = _next_record(data, at + 1, size)
                    yield Piece(at, end, None, damage, end == size and _is_unfinished(data, at, size))
                at = end


def _damage(data: mmap.mmap, at: int, size: int) -> str | None:
    header = data[at : at + HEADER_SIZE]
    if len(header) < HEADER_SIZE:
        return f"{len(header)} bytes are left, a record has at least {OVERHEAD}"
    problem = header_mismatch(header)
    if problem:
        return problem
    length = unpack_length(header)
    if not length:
        return "an empty record; MindInsight never gets past it"
    end = at + length + OVERHEAD
    if end > size:
        return f"the record should end at byte {end}, the file ends at {size}"
    footer = end - (OVERHEAD - HEADER_SIZE)
    return checksum_mismatch(data[at + HEADER_SIZE : footer], data[footer:end])


def _is_unfinished(data: mmap.mmap, at: int, size: int) -> bool:
    header = data[at : at + HEADER_SIZE]
    if len(header) < HEADER_SIZE:
        return True
    zeros = at + HEADER_SIZE
    if header_mismatch(header) is None:
        end = at + unpack_length(header) + OVERHEAD
        if end > size:
            return True
        zeros = end - (OVERHEAD - HEADER_SIZE) if end == size else end
    blocks = (data[place : min(place + _BLOCK, size)] for place in range(zeros, size, _BLOCK))
    return all(block.count(0) == len(block) for block in blocks)


def _next_record(data: mmap.mmap, begin: int, size: int) -> int:
    """Offset of the next whole record at or behind ``begin``; ``size`` if there is none."""
    while begin + OVERHEAD < size:
        block = np.frombuffer(data[begin : begin + _BLOCK + HEADER_SIZE], np.uint8)
        for place in _likely_headers(block, size - begin):
            if _damage(data, begin + place, size) is None:
                return begin + place
        begin += _BLOCK
    return size


def _likely_headers(block: np.ndarray, remaining: int) -> list[int]:
    # A length is eight bytes of which the last four are zero in any record that fits a disk; few places look like that,
    # so that their CRCs can be computed one by one.
    count = block.size - HEADER_SIZE + 1
    if count <= 0:
        return []
    high = block[4 : count + 4] | block[5 : count + 5] | block[6 : count + 6] | block[7 : count + 7]
    places = np.flatnonzero(high == 0)
    lengths = sum(block[places + byte].astype(np.int64) << (8 * byte) for byte in range(4))
    fits = (lengths > 0) & (lengths + places <= remaining - OVERHEAD)
    found: list[int] = places[fits & (places < _BLOCK)].tolist()
    return found


def cut_torn_tail(path: str) -> int:
    """Cut a file that nobody writes to back to its last whole record.

    A file with any other damage than a torn tail is left to ``mindsummary repair``.

    Args:
        path: a summary or lineage file.

    Returns:
        Bytes cut; 0 if the file was whole, is damaged otherwise, is being written to, or lies where locks do not tell.

    Raises:
        OSError: the file cannot be opened or cut.
    """
    scanner = RecordScanner(path)
    with suppress(DamagedFileError):
        for _ in scanner:
            pass
    tail = next(read_pieces(path, scanner.offset), None)
    if tail is None or not tail.is_tail:
        return 0
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        if try_lock(descriptor) is not True or os.fstat(descriptor).st_size != tail.end:
            return 0
        os.ftruncate(descriptor, tail.start)
        return tail.end - tail.start
    finally:
        os.close(descriptor)
