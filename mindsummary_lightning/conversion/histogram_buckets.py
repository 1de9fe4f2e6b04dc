"""Edges of a histogram's buckets by MindSpore's rule, and exactly the counts of ``numpy.histogram`` between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.values.limits import MAX_BUCKETS

_BLOCK = 1 << 16  # elements that fit the processor's cache
_COUNTING = np.arange(MAX_BUCKETS + 1, dtype=np.float64)
_FLOAT64_DIGITS = 2**53


def _where(condition: bool, value: int, other: int) -> int:
    return value if condition else other


def number_of_buckets(finite: Any, where: Callable[..., Any] = _where) -> Any:  # Any: an int, or a tensor
    """Number of buckets that MindSpore 2.7.0 uses for ``finite`` >= 1 finite elements.

    With ``where=torch.where`` it takes and gives a tensor, and waits for no device.

    >>> [number_of_buckets(n) for n in (5, 10, 11, 880, 881)]
    [2, 3, 2, 89, 90]
    """
    many = where(finite <= 880, finite // 10 + 1, MAX_BUCKETS)
    return where(finite <= 5, 2, where(finite <= 10, 3, many))


def bucket_edges(low: float, high: float, finite: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """MindSpore's ascending edges: ``numpy.linspace`` from the smallest to the largest of the finite elements.

    Around a constant they reach half a unit to both sides; neighbours may be equal. They are of the elements' dtype, or
    of float64 where that cannot hold them or rounding would leave elements outside (MindSpore's worker dies there: an
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
    if not width:  # below the smallest float; linspace handles that
        return np.linspace(first, last, buckets + 1)
    exact = _COUNTING[: buckets + 1] * width
    exact += first
    exact[-1] = last
    return exact


def bucket_counts(elements: NDArray[Any], edges: NDArray[Any]) -> NDArray[np.int64]:
    """``numpy.histogram(elements, edges)[0]``: elements in each bucket, closed on the left, the last one on both sides.

    The edges are almost evenly spaced, so that a bucket is computed; whatever is not between its edges is searched.
    """
    edges = in_single(edges)
    last = edges.size - 2
    counts = np.zeros(last + 1, np.int64)
    lefts, rights = edges[:-1], edges[1:].copy()
    is_float = edges.dtype.kind == "f"
    dtype = edges.dtype if is_float else np.dtype(np.float64)
    if is_float:
        rights[-1] = np.inf  # of other types the largest elements are searched
    with np.errstate(all="ignore"):  # edges that are closer than numbers can say are searched in
        per_unit = dtype.type((last + 1) / (np.float64(edges[-1]) - np.float64(edges[0])))
        for values in map(in_single, blocks(elements)):
            places = np.subtract(values, edges[0], dtype=dtype)
            places *= per_unit
            bucket = places.astype(np.intp)
            np.clip(bucket, 0, last, out=bucket)
            is_outside = values < lefts.take(bucket)
            is_outside |= values >= rights.take(bucket)
            if is_outside.any():
                bucket[is_outside] = edges[1:-1].searchsorted(values[is_outside], "right")
            counts += np.bincount(bucket, minlength=last + 1)
    return counts


def counts_of_ordered(ordered: NDArray[Any], edges: NDArray[Any]) -> NDArray[np.int64]:
    """:func:`bucket_counts` of elements in ascending order, without float16 among the dtypes."""
    below = np.zeros(edges.size, np.int64)  # elements below each edge; below the last one or on it
    below[1:-1] = ordered.searchsorted(edges[1:-1])
    below[-1] = ordered.size
    counts: NDArray[np.int64] = below[1:] - below[:-1]
    return counts


def in_single(numbers: NDArray[Any]) -> NDArray[Any]:
    """float16 in float32, which holds the same numbers and is what processors compute with; all others as they are."""
    return numbers.astype(np.float32) if numbers.dtype == np.float16 else numbers


def blocks(elements: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Consecutive parts of a one-dimensional array that fit the processor's cache."""
    for start in range(0, elements.size, _BLOCK):
        yield elements[start : start + _BLOCK]
