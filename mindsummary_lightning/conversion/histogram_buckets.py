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
from PIL import Image

from mindsummary_lightning.values.limits import MAX_BUCKETS

__all__ = ["FEW", "blocks", "bucket_counts", "bucket_edges", "counts_of_ordered", "number_of_buckets"]

FEW = 2048
"""Elements up to which sorting them is faster than setting up the map; most parameters have no more."""

_BLOCK = 1 << 16
_COUNTED_TOGETHER = 1 << 20  # elements; their buckets take a byte each
_COUNTING = np.arange(MAX_BUCKETS + 1, dtype=np.float64)
# Where the first bucket lies on the map. A float32 from 128 to 256 has 7 bits before its point and 16 behind it.
_FIRST = 128
_CELLS = 1 << 16
_FIRST_CELLS = (_FIRST + np.arange(MAX_BUCKETS + 1)) * _CELLS
# Cells that the edges are moved up by, so that none falls short of its bucket's first cell by rounding. The last one
# leaves a thirtieth of all elements to the exact look-up; sorting is faster beyond.
_LEADS = (4, 64, 1024)
_RARELY_AHEAD = 2 * _LEADS[0]
_FLOAT64_DIGITS = 2**53
_PILLOW_PAYS = 1 << 15


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
    return MAX_BUCKETS


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
        unsigned constant 0, the ends of int64), or where integers have more digits than a float64.
    """
    first, last = (low, high) if low < high else (low - 0.5, high + 0.5)
    exact = _evenly_spaced(first, last, number_of_buckets(finite))
    if dtype.kind == "f":
        return exact.astype(dtype)
    with np.errstate(invalid="ignore"):
        edges = np.floor(exact).astype(dtype)
    holds = edges[0] <= low and edges[-1] >= high and bool((edges[1:] >= edges[:-1]).all())
    return edges if holds and max(-low, high) < _FLOAT64_DIGITS else exact


def _evenly_spaced(first: float, last: float, buckets: int) -> NDArray[np.float64]:
    # The arithmetic of numpy.linspace without its checks, which cost a small tensor as much as its counts.
    width = (last - first) / buckets
    if not width:  # below the smallest float; linspace knows what to do then
        return np.linspace(first, last, buckets + 1)
    exact = _COUNTING[: buckets + 1] * width
    exact += first
    exact[-1] = last
    return exact


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
    if elements.dtype.kind == "f" and elements.size > FEW:
        cells = _Cells.between(edges)
        if cells is not None:
            return cells.counts(elements)
    return _counts_by_sorting(elements, edges)


def blocks(elements: NDArray[Any], size: int = _BLOCK) -> Iterator[NDArray[Any]]:
    """Consecutive parts of a one-dimensional array; by default they fit the processor's cache."""
    for start in range(0, elements.size, size):
        yield elements[start : start + size]


def _counts_by_sorting(elements: NDArray[Any], edges: NDArray[Any]) -> NDArray[np.int64]:
    counts = np.zeros(edges.size - 1, np.int64)
    for block in blocks(elements):
        counts += counts_of_ordered(np.sort(block.astype(edges.dtype) if block.dtype == np.float16 else block), edges)
    return counts


def counts_of_ordered(ordered: NDArray[Any], edges: NDArray[Any]) -> NDArray[np.int64]:
    """:func:`bucket_counts` of elements in ascending order, without float16 among the dtypes."""
    below = np.zeros(edges.size, np.int64)  # elements below each edge; below the last one or on it
    below[1:-1] = ordered.searchsorted(edges[1:-1])
    below[-1] = ordered.size
    counts: NDArray[np.int64] = below[1:] - below[:-1]
    return counts


class _Cells:
    """The linear map from values to cells, for one set of edges.

    Strategy: the map ends in a float32 whose whole part is the bucket and whose last 16 bits are the cell in it.
    """

    def __init__(self, edges: NDArray[Any], scale: Any, start: Any, most_ahead: int) -> None:
        self._edges = edges
        self._scale = scale
        self._start = start
        self._most_ahead = most_ahead

    @classmethod
    def between(cls, edges: NDArray[Any]) -> _Cells | None:
        """The map for these edges; ``None`` if they are too irregular or too extreme for one."""
        with np.errstate(all="ignore"):
            scale = edges.dtype.type(edges.size - 1) / (edges[-1] - edges[0])
            for lead in _LEADS:
                start = edges.dtype.type(_FIRST + lead / _CELLS) - edges[0] * scale
                mapped = (edges * scale + start).astype(np.float32)
                ahead = mapped.astype(np.float64) * _CELLS - _FIRST_CELLS[: edges.size]
                # Monotone: no element at or above an edge lands in a lower cell than the edge, none below it in a
                # higher one. So only the first cells of a bucket can hold elements of the bucket before.
                if ahead.min() >= 0 and ahead.max() <= 2 * lead:
                    return cls(edges, scale, start, int(ahead.max()))
        return None

    def counts(self, elements: NDArray[Any]) -> NDArray[np.int64]:
        buckets = np.empty(min(elements.size, _COUNTED_TOGETHER), np.uint8)
        totals = np.zeros(self._edges.size - 1, np.int64)
        for together in blocks(elements, _COUNTED_TOGETHER):
            found = buckets[: together.size]
            doubtful = self._find_buckets(together, found)
            found[doubtful] = self._looked_up(together[doubtful])
            totals += _each_counted(found, totals.size)
        return totals

    def _find_buckets(self, elements: NDArray[Any], buckets: NDArray[np.uint8]) -> NDArray[np.intp]:
        """Fill in the bucket of each element; return the places of those that may belong to the bucket before."""
        room = min(elements.size, _BLOCK)
        mapped = np.empty(room, np.float32)
        scaled = mapped if self._edges.dtype == np.float32 else np.empty(room, self._edges.dtype)
        flags = bytearray(2 * room)
        doubtful = []
        for start in range(0, elements.size, room):
            block = elements[start : start + room]
            scaled, mapped = scaled[: block.size], mapped[: block.size]
            np.multiply(block, self._scale, out=scaled, dtype=scaled.dtype)
            np.add(scaled, self._start, out=mapped, casting="same_kind")
            np.copyto(buckets[start : start + room], mapped, casting="unsafe")  # whole parts; all lie from 128 to 256
            doubtful.append(self._few_ahead(mapped, flags) + start)
        return np.concatenate(doubtful)

    def _few_ahead(self, mapped: NDArray[np.float32], flags: bytearray) -> NDArray[np.intp]:
        """Where the cell in the bucket, the last 16 bits, is one that can hold elements of the bucket before."""
        few = np.frombuffer(flags, np.bool_, 2 * mapped.size)
        np.less_equal(mapped.view(np.uint16), self._most_ahead, out=few)  # the first 16 bits are never so few
        if self._most_ahead > _RARELY_AHEAD:
            return np.flatnonzero(few) >> 1
        # Where hardly any is set, searching for the next one is far quicker than looking at all.
        found, place = [], flags.find(1, 0, few.size)
        while place >= 0:
            found.append(place >> 1)
            place = flags.find(1, place + 1, few.size)
        return np.array(found, np.intp)

    def _looked_up(self, elements: NDArray[Any]) -> NDArray[np.intp]:
        last = self._edges.size - 2
        return _FIRST + np.minimum(self._edges.searchsorted(elements, side="right") - 1, last)


def _each_counted(buckets: NDArray[np.uint8], number: int) -> NDArray[np.int64]:
    """How often each of the buckets from ``_FIRST`` on occurs, for ``number`` of them."""
    rest = buckets.size if buckets.size < _PILLOW_PAYS else buckets.size % 4
    counts = np.bincount(buckets[buckets.size - rest :], minlength=_FIRST + number)[_FIRST:]
    if rest < buckets.size:
        # bincount makes int64 of them and looks for their extremes. The histogram of a picture takes half the time, and
        # its four colours are counted apart, so that one count need not wait for the last, as alike elements make it.
        pixels = buckets[: buckets.size - rest]
        picture = Image.frombuffer("RGBA", (pixels.size // 4, 1), pixels, "raw", "RGBA", 0, 1)
        colours = picture.histogram()
        counts += np.array([colours[first : first + number] for first in range(_FIRST, 4 << 8, 1 << 8)]).sum(axis=0)
    return counts
