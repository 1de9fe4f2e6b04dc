"""Where the buckets of a histogram lie and how many elements fall into each: exactly what ``numpy.histogram`` counts.

Strategy: a linear map from values to cells, far more cells than buckets, is monotone even after rounding. So an element
in a cell that no edge shares is sure of its bucket, and only the few others are compared with the edges themselves.
Working in blocks keeps every pass but the first inside the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.values.limits import MOST_BUCKETS

__all__ = ["blocks", "bucket_counts", "bucket_edges", "number_of_buckets"]

_BLOCK = 1 << 16
_CELL_BITS = 16  # cells per bucket as bits; 90 buckets of 2**16 cells still fit the 24 digits of a float32
_CELLS = 1 << _CELL_BITS
_LARGEST_MARGIN = 1 << 12  # beyond it an eighth of all elements would need the exact look-up, and sorting is faster
_SMALL = 2048  # below it sorting is faster than setting up the map


def number_of_buckets(finite: int) -> int:
    """How many buckets MindSpore 2.7.0 makes for ``finite`` >= 1 finite elements.

    >>> [number_of_buckets(n) for n in (5, 10, 11, 880, 881)]
    [2, 3, 2, 89, 90]
    """
    if finite <= 5:
        return 2
    if finite <= 10:
        return 3
    if finite <= 880:
        return finite // 10 + 1
    return MOST_BUCKETS


def bucket_edges(low: float, high: float, finite: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """MindSpore's edges: ``numpy.linspace`` from ``low`` to ``high`` in the dtype of the elements.

    Args:
        low: smallest finite element.
        high: largest finite element; if it equals ``low``, the edges reach half a unit to both sides.
        finite: number of finite elements, at least 1.
        dtype: dtype of the elements, an integer or floating one.

    Returns:
        Edges that never fall, one more than ``number_of_buckets(finite)``. They are of ``dtype``, or of float64 where
        ``dtype`` cannot hold them or its rounding would leave elements outside (MindSpore's worker dies there: an
        unsigned constant 0, the ends of int64).
    """
    first, last = (low, high) if low < high else (low - 0.5, high + 0.5)
    exact = np.linspace(first, last, number_of_buckets(finite) + 1)
    if dtype.kind == "f":
        return exact.astype(dtype)
    with np.errstate(invalid="ignore"):
        edges = np.floor(exact).astype(dtype)
    holds = edges[0] <= low and edges[-1] >= high and bool((edges[1:] >= edges[:-1]).all())
    return edges if holds else exact


def bucket_counts(elements: NDArray[Any], edges: NDArray[Any]) -> NDArray[np.int64]:
    """How many elements lie in each bucket, each closed on the left and the last one on both sides.

    Args:
        elements: finite numbers from ``edges[0]`` to ``edges[-1]``, one-dimensional.
        edges: numbers that never fall, at most 91.

    Returns:
        One count for each pair of neighbouring edges, equal to ``numpy.histogram(elements, edges)[0]``.
    """
    if edges.dtype == np.float16:
        # float32 holds the same numbers and has digits left for the cells. It is sorted right, too: NumPy 2.4 leaves
        # negative float16 denormals in disorder on some processors, and numpy.histogram then miscounts them.
        edges = edges.astype(np.float32)
    if elements.dtype.kind == "f" and elements.size > _SMALL:
        cells = _Cells.between(edges)
        if cells is not None:
            return cells.counts(elements)
    return _counts_by_sorting(elements, edges)


def blocks(elements: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Consecutive parts of a one-dimensional array that fit the processor's cache."""
    for start in range(0, elements.size, _BLOCK):
        yield elements[start : start + _BLOCK]


def _counts_by_sorting(elements: NDArray[Any], edges: NDArray[Any]) -> NDArray[np.int64]:
    below = np.zeros(edges.size, np.int64)  # elements below each edge; below the last one or on it
    for block in blocks(elements):
        ordered = np.sort(block.astype(edges.dtype) if block.dtype == np.float16 else block)
        below[:-1] += ordered.searchsorted(edges[:-1], side="left")
        below[-1] += ordered.searchsorted(edges[-1], side="right")
    return np.diff(below)


class _Cells:
    """The linear map from values to cells, for one set of edges."""

    def __init__(self, edges: NDArray[Any], scale: Any, margin: int) -> None:
        self._edges = edges
        self._scale = scale
        self._margin = margin

    @classmethod
    def between(cls, edges: NDArray[Any]) -> _Cells | None:
        """The map for these edges; ``None`` if they are too irregular or too extreme for one."""
        buckets = edges.size - 1
        with np.errstate(all="ignore"):
            scale = edges.dtype.type(buckets * _CELLS) / (edges[-1] - edges[0])
            mapped = (edges - edges[0]) * scale
            displacement = np.abs(np.trunc(mapped) - np.arange(buckets + 1) * _CELLS).max()
        if not displacement < _LARGEST_MARGIN:  # NaN too
            return None
        # Monotone: no element at or above an edge lands in a lower cell than the edge, none below it in a higher one.
        # So only cells at most this far from a multiple of _CELLS can hold elements of two buckets.
        return cls(edges, scale, int(displacement) + 1)

    def counts(self, elements: NDArray[Any]) -> NDArray[np.int64]:
        buckets = self._edges.size - 1
        room = min(elements.size, _BLOCK)
        mapped = np.empty(room, self._edges.dtype)
        cells, distance = np.empty(room, np.int32), np.empty(room, np.int32)
        totals = np.zeros(buckets, np.int64)
        for block in blocks(elements):
            part = slice(block.size)
            totals += self._count_block(block, mapped[part], cells[part], distance[part])
        return totals

    def _count_block(
        self, block: NDArray[Any], mapped: NDArray[Any], cells: NDArray[np.int32], distance: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        np.subtract(block, self._edges[0], out=mapped, dtype=mapped.dtype)
        np.multiply(mapped, self._scale, out=mapped)
        np.copyto(cells, mapped, casting="unsafe")
        np.add(cells, self._margin, out=distance)
        np.bitwise_and(distance, _CELLS - 1, out=distance)
        doubtful = np.flatnonzero(distance <= 2 * self._margin)
        buckets = np.right_shift(cells, _CELL_BITS, out=cells)
        last = self._edges.size - 2
        buckets[doubtful] = np.minimum(self._edges.searchsorted(block[doubtful], side="right") - 1, last)
        return np.bincount(buckets, minlength=last + 1)
