"""``Records``: neighbouring records in a piece of memory.

A payload is cut out only where it is asked for.
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
    """The payloads of neighbouring records, in order.

    Args:
        block: what holds the records, each behind the one before.
        bounds: where each begins in it, 0 for the first, and where the last one ends; of 64 bits.

    Attributes:
        nbytes: bytes of all of them.
    """

    __slots__ = ("_block", "_bounds", "nbytes")

    def __init__(self, block: bytes, bounds: array[int]) -> None:
        self._block, self._bounds = block, bounds
        self.nbytes: int = bounds[-1]

    @classmethod
    def of(cls, payloads: Sequence[bytes]) -> Records:
        """Payloads that were cut out before."""
        bounds = array(
            "q", accumulate((len(payload) + OVERHEAD for payload in payloads), initial=0)
        )
        return cls(
            b"".join(bytes(HEADER_SIZE) + payload + bytes(FOOTER_SIZE) for payload in payloads),
            bounds,
        )

    @property
    def bounds(self) -> NDArray[np.int64]:
        """Where the records begin, and the last of them ends; shape ``(n + 1,)``."""
        return np.frombuffer(self._bounds, np.int64)

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __iter__(self) -> Iterator[bytes]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, row: int) -> bytes:
        return self._block[self._bounds[row] + HEADER_SIZE : self._bounds[row + 1] - FOOTER_SIZE]

    @property
    def last_checksum(self) -> bytes:
        """The checksum at the end of the last record."""
        return self._block[self.nbytes - FOOTER_SIZE : self.nbytes]

    def place(self, row: int) -> tuple[int, int]:
        """Start and end of a payload in the memory of the records."""
        return self._bounds[row] + HEADER_SIZE, self._bounds[row + 1] - FOOTER_SIZE

    def side_by_side(self, rows: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Payloads of the same length, shape ``(n, bytes)``.

        ``rows`` are ascending indices.

        Where they stand beside each other already, nothing is copied.
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
        """Index of the first record whose checksum is wrong, and the error.

        Without such a record they are the number of records and ``None``.
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
        """Whether all checksums are right, by the checksum of a copy without headers.

        A payload and what is stated as its checksum bring the register to 0 if that is right; four
        bytes start it anew.
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
    """Count the records from ``start`` on that have the header of the first.

    They are complete, and at most ``most``.

    ``size`` bytes are the first record's.
    """
    count = min(most, (len(block) - start) // size)
    lengths = np.ndarray(count, "<u8", block, start, size)
    sums = np.ndarray(count, "<u4", block, start + 8, size)
    is_other = (lengths != lengths[0]) | (sums != sums[0])
    return int(is_other.argmax()) or count
