"""Compute the bucket edges of a histogram by MindSpore's rule.

The counts are exactly those of ``numpy.histogram`` with these edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.values.limits import MAX_BUCKETS

_BLOCK = 1 << 15  # elements that fit the processor's cache with what is computed of them
_COUNTING = np.arange(MAX_BUCKETS + 1, dtype=np.float64)
_FLOAT64_DIGITS = 2**53


def _where(condition: bool, value: int, other: int) -> int:
    return value if condition else other


# Any: an int, or a tensor
def number_of_buckets(finite: Any, where: Callable[..., Any] = _where) -> Any:
    """Return the number of buckets that MindSpore 2.7.0 uses for ``finite`` elements.

    ``finite`` is the number of finite elements, at least 1. With ``where=torch.where`` it and the
    result are tensors, and the function waits for no device.

    >>> [number_of_buckets(n) for n in (5, 10, 11, 880, 881)]
    [2, 3, 2, 89, 90]
    """
    many = where(finite <= 880, finite // 10 + 1, MAX_BUCKETS)
    return where(finite <= 5, 2, where(finite <= 10, 3, many))


def bucket_edges(low: float, high: float, finite: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the ascending bucket edges that MindSpore uses.

    They are ``numpy.linspace`` from the smallest to the largest finite element.

    For constant data, they reach half a unit to both sides; neighbouring edges may be equal. They
    have the elements' dtype. They are float64 if the dtype cannot hold them, if rounding would
    leave elements outside (MindSpore's worker dies there: an unsigned constant 0, the ends of
    int64), or if integers have more digits than a float64.
    """
    first, last = (low, high) if low < high else (low - 0.5, high + 0.5)
    exact = _evenly_spaced(first, last, number_of_buckets(finite))
    if dtype.kind == "f":
        return exact.astype(dtype)
    with np.errstate(invalid="ignore"):
        edges = np.floor(exact).astype(dtype)
    holds = edges[0] <= low and edges[-1] >= high and bool((edges[1:] >= edges[:-1]).all())
    if holds and max(-low, high) < _FLOAT64_DIGITS:
        return edges
    return exact


def _evenly_spaced(first: float, last: float, buckets: int) -> NDArray[np.float64]:
    # The arithmetic of numpy.linspace without its checks, which cost a small tensor as much as its
    # counts.
    width = (last - first) / buckets
    if not width:  # below the smallest float; linspace handles that
        return np.linspace(first, last, buckets + 1)
    exact = _COUNTING[: buckets + 1] * width
    exact += first
    exact[-1] = last
    return exact


def bucket_counts(elements: NDArray[Any], edges: NDArray[Any]) -> NDArray[np.int64]:
    """Count the elements in every bucket, as ``numpy.histogram(elements, edges)[0]``.

    Buckets are closed on the left, the last bucket on both sides.

    The elements lie between the first and the last edge.
    """
    edges = in_single(edges)
    counts = np.zeros(edges.size - 1, np.int64)
    # of edges that are closer than numbers can say, where it does not count
    with np.errstate(all="ignore"):
        bucket_of = _arithmetic(edges)
        for values in map(in_single, blocks(elements)):
            if bucket_of is None:
                counts += counts_of_ordered(np.sort(values), edges)
            else:
                counts += np.bincount(bucket_of(values), minlength=counts.size)
    return counts


def _arithmetic(edges: NDArray[Any]) -> Callable[[NDArray[Any]], NDArray[np.intp]] | None:
    """Return a function that computes the buckets of elements without a search.

    The result is ``None`` if the edges are too close, or far from evenly spaced.

    A place is computed slightly too low: it is that of the bucket or of the bucket before, and the
    edge between them decides. Rounding keeps the order of numbers, so what holds for each edge and
    the number below it holds for all numbers between.
    """
    dtype = edges.dtype if edges.dtype.kind == "f" else np.dtype(np.float64)
    limits = edges.astype(dtype)
    first, rights, before = limits[0], limits[1:], np.arange(edges.size - 1)
    per_unit = dtype.type(rights.size / (np.float64(rights[-1]) - np.float64(first)))
    start = first + 8 * np.finfo(dtype).eps * np.abs(limits).max()

    def place(values: NDArray[Any]) -> NDArray[np.intp]:
        places: NDArray[Any] = np.subtract(values, start, dtype=dtype)
        places *= per_unit
        return places.astype(np.intp)

    at = place(np.concatenate([limits, np.nextafter(rights, dtype.type(-np.inf))]))
    on, below = at[1 : limits.size], at[limits.size :]
    if at[0] != 0 or on[-1] != before[-1] or (on < before).any() or (below > before).any():
        return None
    rights[-1] = np.inf

    def bucket_of(values: NDArray[Any]) -> NDArray[np.intp]:
        bucket = place(values)
        # which is quicker than to check the bounds
        bucket += values >= rights.take(bucket, mode="clip")
        return bucket

    return bucket_of


def counts_of_ordered(ordered: NDArray[Any], edges: NDArray[Any]) -> NDArray[np.int64]:
    """Count the elements in every bucket, if the elements are in ascending order.

    The dtype must not be float16.
    """
    below = np.zeros(edges.size, np.int64)  # elements below each edge; below the last one or on it
    below[1:-1] = ordered.searchsorted(edges[1:-1])
    below[-1] = ordered.size
    counts: NDArray[np.int64] = below[1:] - below[:-1]
    return counts


def in_single(numbers: NDArray[Any]) -> NDArray[Any]:
    """Convert float16 numbers to float32; return any different array unchanged.

    float32 holds the same numbers, and processors compute with it.
    """
    if numbers.dtype == np.float16:
        return numbers.astype(np.float32)
    return numbers


def blocks(elements: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield consecutive parts of a vector that fit into the processor's cache."""
    for start in range(0, elements.size, _BLOCK):
        yield elements[start : start + _BLOCK]
