"""Hold consecutive records of a file in a single block of memory.

A payload is copied out of the block only when it is asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from mindsummary_lightning.fileformat.framing import (
    FOOTER_SIZE,
    HEADER_SIZE,
    MASK_DELTA,
    OVERHEAD,
    checksum_mismatch,
)

# these four bytes bring the register of a CRC32C from 0 to where each checksum begins
_RESTARTS = 0x641F6454
_ALL_ONES = 0xFFFFFFFF
_TOGETHER = 32  # records whose checksums are compared in one


class Records:
    """A sequence of the payloads of consecutive records.

    Args:
        block: memory with the records, without gaps between them.
        bounds: byte offsets at which the records begin (0 for the first), and at which the last
            record ends; 64-bit integers.

    Attributes:
        nbytes: total size of the records in bytes.
    """

    __slots__ = ("_block", "_bounds", "nbytes")

    def __init__(self, block: bytes, bounds: array[int]) -> None:
        self._block, self._bounds = block, bounds
        self.nbytes: int = bounds[-1]

    @classmethod
    def of(cls, payloads: Sequence[bytes]) -> Records:
        """Build a ``Records`` object from payloads that are separate bytes objects."""
        bounds = array(
            "q", accumulate((len(payload) + OVERHEAD for payload in payloads), initial=0)
        )
        return cls(
            b"".join(bytes(HEADER_SIZE) + payload + bytes(FOOTER_SIZE) for payload in payloads),
            bounds,
        )

    @property
    def bounds(self) -> NDArray[np.int64]:
        """Return the offset of every record, and the end of the last; shape ``(n + 1,)``."""
        return np.frombuffer(self._bounds, np.int64)

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __iter__(self) -> Iterator[bytes]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, row: int) -> bytes:
        return self._block[self._bounds[row] + HEADER_SIZE : self._bounds[row + 1] - FOOTER_SIZE]

    @property
    def last_checksum(self) -> bytes:
        """Return the 4-byte checksum at the end of the last record."""
        return self._block[self.nbytes - FOOTER_SIZE : self.nbytes]

    def place(self, row: int) -> tuple[int, int]:
        """Return the start and end of a payload in the memory block."""
        return self._bounds[row] + HEADER_SIZE, self._bounds[row + 1] - FOOTER_SIZE

    def side_by_side(self, rows: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Return payloads of equal length as a byte matrix of shape ``(n, length)``.

        ``rows`` are the ascending indices of the payloads. If the payloads are consecutive, nothing
        is copied.
        """
        start, end = self.place(int(rows[0]))
        length = end - start
        if rows[-1] - rows[0] == rows.size - 1:
            matrix: NDArray[np.uint8] = np.ndarray(
                (rows.size, length), "u1", self._block, start, (length + OVERHEAD, 1)
            )
            return matrix
        places: NDArray[np.void] = np.ndarray(
            len(self._block) - length + 1, f"V{length}", self._block, strides=1
        )
        return places[self.bounds[rows] + HEADER_SIZE].view(np.uint8).reshape(rows.size, length)

    def first_mismatch(self) -> tuple[int, str | None]:
        """Return the index of the first record with a wrong checksum, and the error.

        If all checksums are right, return the number of records and ``None``.
        """
        if len(self) < _TOGETHER or not self._are_sound():
            view = memoryview(self._block)
            for row in range(len(self)):
                start, end = self.place(row)
                problem = checksum_mismatch(view[start:end], self._block, end)
                if problem:
                    return row, problem
        return len(self), None

    def _are_sound(self) -> bool:
        """Tell whether all checksums are right, by one checksum of the whole block.

        The checksum is computed of a copy in which the headers are replaced. A payload followed by
        its right checksum brings the register of the CRC to 0, and four bytes set it to its initial
        value again.
        """
        bounds, end = self.bounds, self.nbytes
        sizes = np.diff(bounds)
        heads: slice | NDArray[np.int64] = bounds[:-1]
        feet: slice | NDArray[np.int64] = bounds[1:] - FOOTER_SIZE
        if (sizes == sizes[0]).all():  # several times as fast
            heads, feet = slice(0, end, sizes[0]), slice(sizes[0] - FOOTER_SIZE, end, sizes[0])
        copy = np.frombuffer(self._block, np.uint8, end).copy()
        words: NDArray[np.uint32] = np.ndarray(end - 3, "<u4", copy, strides=1)
        rotated = words[feet] - np.uint32(MASK_DELTA)
        words[feet] = ~(rotated << np.uint32(15) | rotated >> np.uint32(17))
        np.ndarray(end - 7, "<u8", copy, strides=1)[heads] = 0
        words[HEADER_SIZE - 4 :][heads] = _RESTARTS
        return bool(crc32c(copy, _ALL_ONES) == _ALL_ONES)


def count_alike(block: bytes, start: int, size: int, most: int) -> int:
    """Count the complete records in a row that have the same header as the first.

    Args:
        block: memory that contains the records.
        start: offset of the first record.
        size: length of the first record in bytes.
        most: greatest number of records to count.
    """
    count = min(most, (len(block) - start) // size)
    lengths = np.ndarray(count, "<u8", block, start, size)
    sums = np.ndarray(count, "<u4", block, start + 8, size)
    is_other = (lengths != lengths[0]) | (sums != sums[0])
    return int(is_other.argmax()) or count
