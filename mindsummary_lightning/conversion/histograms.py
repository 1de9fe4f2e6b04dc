"""Numbers -> a histogram value, by the rule of MindSpore's recorder: buckets of what is finite, counts of the rest.

This module says what is counted; ``buckets.py`` says where and how.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.conversion.arrays import to_array
from mindsummary_lightning.conversion.histogram_buckets import (
    FEW,
    blocks,
    bucket_counts,
    bucket_edges,
    counts_of_ordered,
)
from mindsummary_lightning.values import Histogram

__all__ = ["HISTOGRAM_LIMIT", "Statistics", "build_histogram", "to_histogram"]

HISTOGRAM_LIMIT = float(np.finfo(np.float64).max) / 2
"""Largest size of an element in a histogram: MindInsight subtracts the extremes of a tag, which must not overflow."""

_SAFELY_SUMMED = HISTOGRAM_LIMIT / FEW
"""A few elements of this size add up to no infinity."""

# What the methods of an array call, without their detour through Python.
_lowest, _highest, _sum = np.minimum.reduce, np.maximum.reduce, np.add.reduce


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a histogram says beside its buckets.

    Attributes:
        count: all elements, finite or not.
        nan_count: elements that are NaN.
        pos_inf_count: elements that are +inf.
        neg_inf_count: elements that are -inf.
        low: smallest finite element; without meaning if there is none.
        high: largest finite element; without meaning if there is none.
        total: sum of the finite elements, added up in float64.
    """

    count: int
    nan_count: int
    pos_inf_count: int
    neg_inf_count: int
    low: float
    high: float
    total: float

    @property
    def finite(self) -> int:
        """Number of finite elements."""
        return self.count - self.nan_count - self.pos_inf_count - self.neg_inf_count


def to_histogram(value: Any) -> Histogram:
    """Buckets and statistics of the elements; NaN and the infinities are counted apart and never in the way.

    Args:
        value: whatever ``to_array`` takes, of at least one dimension; it may be empty. Bools count as 0.0 and 1.0.

    Returns:
        2 to 90 buckets by the number of finite elements (none for none), edges evenly spaced in the dtype of the
        elements, counts as ``numpy.histogram`` makes them. Float64 elements beyond half its range count at the half.

    Raises:
        TypeError: ``value`` holds no real numbers.
        ValueError: it has no dimension.
    """
    array = to_array(value)
    if array.ndim == 0:
        raise ValueError("a histogram needs at least one dimension, found a single number: record it as a scalar")
    if array.dtype.kind == "b":  # MindSpore's worker dies on one; float32 puts the two values into buckets of their own
        array = array.astype(np.float32)
    flat = array.ravel(order="K")
    return _histogram_of_few(flat) or _histogram_of_any(flat)


def _histogram_of_few(flat: NDArray[Any]) -> Histogram | None:
    """The histogram of a few finite elements; ``None`` of others. What a training loop waits for, many times a step."""
    if not 0 < flat.size <= FEW or flat.dtype == np.float16:  # as in bucket_counts, float16 may be sorted wrong
        return None
    ordered = flat.copy()
    ordered.sort()
    low, high = float(ordered[0]), float(ordered[-1])  # infinities are sorted to the ends, NaN to the last
    if not -_SAFELY_SUMMED < low <= high < _SAFELY_SUMMED:
        return None
    statistics = Statistics(flat.size, 0, 0, 0, low, high, float(_sum(flat, dtype=np.float64)))
    edges = bucket_edges(low, high, flat.size, flat.dtype)
    return build_histogram(statistics, edges, counts_of_ordered(ordered, edges))


def _histogram_of_any(flat: NDArray[Any]) -> Histogram:
    elements, statistics = _finite_part(flat)
    if not statistics.finite:
        return build_histogram(statistics, np.empty(0), np.empty(0, np.int64))
    edges = bucket_edges(statistics.low, statistics.high, statistics.finite, flat.dtype)
    return build_histogram(statistics, edges, bucket_counts(elements, edges))


def build_histogram(statistics: Statistics, edges: NDArray[Any], counts: NDArray[np.int64]) -> Histogram:
    """The value made of its parts.

    Args:
        statistics: of all elements.
        edges: one more than ``counts``, in the dtype that the widths are computed in; ignored if nothing is finite.
        counts: elements in each bucket.
    """
    finite = bool(statistics.finite)
    widths = edges[1:] - edges[:-1]
    if widths.dtype.kind == "i":
        widths = widths.view(widths.dtype.str.replace("i", "u"))  # a width can be twice the largest signed number
    return Histogram(
        lefts=edges[:-1],
        widths=widths,
        counts=counts,
        count=statistics.count,
        nan_count=statistics.nan_count,
        pos_inf_count=statistics.pos_inf_count,
        neg_inf_count=statistics.neg_inf_count,
        min=statistics.low if finite else None,
        max=statistics.high if finite else None,
        sum=statistics.total if finite else None,
    )


def _finite_part(array: NDArray[Any]) -> tuple[NDArray[Any], Statistics]:
    """The finite elements, within ``HISTOGRAM_LIMIT``, and the statistics of all."""
    count, nan_count, pos_inf_count, neg_inf_count = array.size, 0, 0, 0
    low, high, total = _low_high_total(array)
    if not math.isfinite(low) or not math.isfinite(high):  # NaN and infinities all show in one of the two
        nan_count = int(np.count_nonzero(np.isnan(array)))
        pos_inf_count = int(np.count_nonzero(array == np.inf))
        neg_inf_count = int(np.count_nonzero(array == -np.inf))
        array = array[np.isfinite(array)]
        low, high, total = _low_high_total(array)
    if low < -HISTOGRAM_LIMIT or high > HISTOGRAM_LIMIT:
        array = array.clip(-HISTOGRAM_LIMIT, HISTOGRAM_LIMIT)
        low, high = max(low, -HISTOGRAM_LIMIT), min(high, HISTOGRAM_LIMIT)
    return array, Statistics(count, nan_count, pos_inf_count, neg_inf_count, low, high, total)


def _low_high_total(array: NDArray[Any]) -> tuple[float, float, float]:
    if not array.size:
        return 0.0, 0.0, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        first, *rest = blocks(array)  # three passes over one block in the cache, not over the whole array
        low, high, total = _lowest(first), _highest(first), float(_sum(first, dtype=np.float64))
        for block in rest:
            low = np.minimum(low, _lowest(block))  # a NaN stays, unlike with min()
            high = np.maximum(high, _highest(block))
            total += float(_sum(block, dtype=np.float64))
    return float(low), float(high), total
