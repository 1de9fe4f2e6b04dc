"""Convert the elements of an array or tensor to a histogram.

It has buckets of the finite elements, and counts of NaN and infinities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.conversion.arrays import to_array
from mindsummary_lightning.conversion.histogram_buckets import (
    blocks,
    bucket_counts,
    bucket_edges,
    counts_of_ordered,
    in_single,
)
from mindsummary_lightning.values import Histogram

_FEW = 2048
"""Greatest size of an array of which one sort gives extremes and counts; most are smaller."""

HISTOGRAM_LIMIT = float(np.finfo(np.float64).max) / 2
"""Largest magnitude of an element in a histogram.

MindInsight subtracts the extremes of a tag, which must not overflow.
"""

_SAFELY_SUMMED = HISTOGRAM_LIMIT / _FEW
"""The sum of a few elements of this size stays finite."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts, extremes and sum of a tensor's elements, for its histogram.

    The extremes and the sum are those of the finite elements. Without finite elements, the extremes
    have no meaning.
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
        """Return the number of finite elements."""
        return self.count - self.nan_count - self.pos_inf_count - self.neg_inf_count


def to_histogram(value: Any) -> Histogram:
    """Convert an array or tensor to a histogram of its elements.

    NaN and infinities are counted separately.

    Args:
        value: anything that ``to_array`` accepts, of at least one dimension; may be empty. Bools
            count as 0.0 and 1.0.

    Returns:
        A histogram with 2 to 90 buckets, by the number of finite elements (no bucket without finite
        elements). Edges are evenly spaced in the dtype of the elements, counts are those of
        ``numpy.histogram``. Float64 elements beyond half of the range of float64 are clipped to the
        half.

    Raises:
        TypeError: ``value`` holds no real numbers.
        ValueError: ``value`` has no dimension.
    """
    array = to_array(value)
    if array.ndim == 0:
        raise ValueError(
            "a histogram needs at least one dimension, found a single number: record it as a scalar"
        )
    # MindSpore's worker dies on it; as float32, each value has its own bucket
    if array.dtype.kind == "b":
        array = array.astype(np.float32)
    flat = array.ravel(order="K")
    return _histogram_of_few(flat) or _histogram_of_any(flat)


def _histogram_of_few(flat: NDArray[Any]) -> Histogram | None:
    """Compute the histogram of a few finite elements; ``None`` for a different array.

    This is the hot path, taken many times per collected step.
    """
    if not 0 < flat.size <= _FEW or flat.dtype == np.float16:  # see bucket_counts for float16
        return None
    ordered = flat.copy()
    ordered.sort()
    # infinities are sorted to the ends, NaN to the last
    low, high = float(ordered[0]), float(ordered[-1])
    if not -_SAFELY_SUMMED < low <= high < _SAFELY_SUMMED:
        return None
    statistics = Statistics(flat.size, 0, 0, 0, low, high, float(flat.sum(dtype=np.float64)))
    edges = bucket_edges(low, high, flat.size, flat.dtype)
    return build_histogram(statistics, edges, counts_of_ordered(ordered, edges))


def _histogram_of_any(flat: NDArray[Any]) -> Histogram:
    elements, statistics = finite_part(flat)
    if not statistics.finite:
        return build_histogram(statistics, np.empty(0), np.empty(0, np.int64))
    edges = bucket_edges(statistics.low, statistics.high, statistics.finite, flat.dtype)
    return build_histogram(statistics, edges, bucket_counts(elements, edges))


def build_histogram(
    statistics: Statistics, edges: NDArray[Any], counts: NDArray[np.int64]
) -> Histogram:
    """Build a histogram from its statistics, bucket edges and bucket counts.

    There is one more edge than counts. The widths are computed in the dtype of the edges.
    """
    finite = bool(statistics.finite)
    widths = edges[1:] - edges[:-1]
    if widths.dtype.kind == "i":
        # a width may be twice the largest signed number
        widths = widths.view(widths.dtype.str.replace("i", "u"))
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


def finite_part(array: NDArray[Any]) -> tuple[NDArray[Any], Statistics]:
    """Return an array's finite elements, and statistics of all its elements."""
    count, nan_count, pos_inf_count, neg_inf_count = array.size, 0, 0, 0
    low, high, total = _low_high_total(array)
    # NaN and infinities all show in one of the two
    if not math.isfinite(low) or not math.isfinite(high):
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
        # Three passes over each block in the cache, not over the whole array.
        parts = [
            (block.min(), block.max(), block.sum(dtype=np.float64))
            for block in map(in_single, blocks(array))
        ]
        lows, highs, totals = zip(*parts, strict=True)
        # np.min keeps NaN, unlike min
        return float(np.min(lows)), float(np.max(highs)), float(sum(totals))
