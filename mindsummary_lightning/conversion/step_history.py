"""Keep numbers of every step of a run in bounded memory, for a heat map."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

_MAX_COLUMNS = 512  # a picture has half of them at least


class StepHistory:
    """A history of float32 numbers that has at most 512 columns.

    At first, every step gets a column. When there are 512 columns, pairs of neighbouring columns
    are merged, and the larger number of each row stays. So a short spike is not lost. Later columns
    may have more rows. NaN stays only if both columns have it.
    """

    def __init__(self) -> None:
        self._columns: list[NDArray[np.float32]] = []
        self._steps: list[int] = []  # the last one of each column
        self._merged = 1  # steps in a full column
        self._in_last = 1  # of them in the last column

    def add(self, step: int, numbers: ArrayLike) -> None:
        """Add the numbers of a later step, one number for every row."""
        column = np.asarray(numbers, np.float32)
        if self._in_last < self._merged:
            self._columns[-1], self._steps[-1] = _larger(self._columns[-1], column), step
            self._in_last += 1
            return
        if len(self._columns) == _MAX_COLUMNS:
            self._columns = [
                _larger(*self._columns[at : at + 2]) for at in range(0, _MAX_COLUMNS, 2)
            ]
            self._steps, self._merged = self._steps[1::2], 2 * self._merged
        self._columns.append(column)
        self._steps.append(step)
        self._in_last = 1

    def columns(self) -> tuple[list[int], NDArray[np.float32]]:
        """Return the last step of every column, and the numbers.

        The numbers have the shape ``(rows, columns)``. Missing numbers are NaN.
        """
        return [*self._steps], stacked(self._columns)


def stacked(columns: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Place columns of different lengths side by side, padded with NaN."""
    table = np.full((max(map(len, columns), default=0), len(columns)), np.nan, np.float32)
    for at, column in enumerate(columns):
        table[: column.size, at] = column
    return table


def _larger(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    larger: NDArray[np.float32] = np.fmax.reduce(stacked([one, other]), axis=1)
    return larger
