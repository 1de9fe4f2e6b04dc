"""Histogram buckets converted between TensorBoard's layouts and MindInsight's: at most 90, totals kept."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.conversion.histograms import HISTOGRAM_LIMIT
from mindsummary_lightning.values import Histogram
from mindsummary_lightning.values.limits import MAX_BUCKETS

_EMPTY = (np.empty(0), np.empty(0), np.empty(0, np.int64))
_MAX_COUNT = float(2**53)  # above it a float64 does not count


def histogram_of_limits(
    limits: NDArray[np.float64], buckets: NDArray[np.float64], low: float, high: float, number: float, total: float
) -> Histogram:
    """A histogram from the fields of TensorBoard's ``HistogramProto``: right edges of buckets, and elements in each.

    Elements that are in no bucket are beyond the outermost if ``low`` or ``high`` is; else they are what makes ``low``
    or ``high`` infinite, and NaN if neither tells.

    Raises:
        ValueError: the buckets are none: other lengths, limits that descend, counts that are not numbers of elements.
    """
    if limits.shape != buckets.shape:
        raise ValueError(f"a histogram of {limits.size} bucket limits and {buckets.size} buckets")
    inside = _sum_of_counts(buckets)
    count = max(round(number), inside) if 0 < number < _MAX_COUNT else inside
    missing = count - inside
    edges = np.concatenate([limits[:1], limits])  # a first bucket begins at the smallest element, an empty one anywhere
    if (
        missing
        and limits.size
        and math.isfinite(low)
        and math.isfinite(high)
        and (low < limits[0] or high > limits[-1])
    ):
        if high > limits[-1]:
            edges, buckets = np.append(edges, high), np.append(buckets, missing)
        else:
            buckets = np.concatenate([buckets[:1] + missing, buckets[1:]])
        missing = 0
    if edges.size and buckets[0]:
        width = edges[2] - edges[1] if edges.size > 2 else 1.0
        edges[0] = low if -math.inf < low < edges[1] else edges[1] - width
    lows, highs = (missing, 0) if low == high == -math.inf else (0, missing) if low == high == math.inf else (0, 0)
    if math.isfinite(low) != math.isfinite(high) and not math.isnan(low + high):
        lows, highs = (missing, 0) if math.isinf(low) else (0, missing)
    return _histogram(edges, buckets, low, high, (missing - lows - highs, highs, lows), total)


def histogram_of_rows(rows: NDArray[np.float64]) -> Histogram:
    """A histogram from TensorFlow 2's rows of left edge, right edge and elements; those between NaN are NaN.

    Raises:
        ValueError: the rows are not those of neighbouring buckets.
    """
    _sum_of_counts(rows[:, 2])
    is_bucket = ~np.isnan(rows[:, :2]).any(axis=1)
    missing = _sum_of_counts(rows[~is_bucket, 2])
    rows = rows[is_bucket]
    with np.errstate(invalid="ignore"):  # where edges are infinite
        apart = np.abs(rows[1:, 0] - rows[:-1, 1]) > 1e-6 * (rows[1:, 1] - rows[:-1, 0])
    if apart.any():
        raise ValueError("a histogram whose buckets are not neighbours")
    edges = np.concatenate([rows[:1, 0], rows[:, 1]])
    low, high = (edges[0], edges[-1]) if edges.size else (math.nan, math.nan)
    return _histogram(edges, rows[:, 2], float(low), float(high), (missing, 0, 0), math.nan)


def _histogram(
    edges: NDArray[np.float64],
    buckets: NDArray[np.float64],
    low: float,
    high: float,
    others: tuple[int, int, int],
    total: float,
) -> Histogram:
    """Build it; ``others`` are numbers of NaN, +inf and -inf, and extremes that cannot be true are the buckets' own."""
    edges = np.clip(edges, -HISTOGRAM_LIMIT, HISTOGRAM_LIMIT)
    if not (np.diff(edges) >= 0).all():
        raise ValueError("a histogram whose bucket limits do not ascend")
    full = np.flatnonzero(buckets > 0)
    inside = _sum_of_counts(buckets)
    count = inside + sum(others)
    if not inside:
        return Histogram(*_EMPTY, count, *others)
    first, last = float(edges[full[0]]), float(edges[full[-1] + 1])
    if not (-HISTOGRAM_LIMIT <= low <= high <= HISTOGRAM_LIMIT and low <= last and high >= first):
        low, high = first, last
    return histogram_of_buckets(edges, buckets, low, high, others=others, total=total if math.isfinite(total) else None)


def histogram_of_buckets(
    edges: NDArray[np.float64],
    counts: NDArray[np.float64],
    smallest: float,
    largest: float,
    *,
    others: tuple[int, int, int] = (0, 0, 0),
    total: float | None = None,
) -> Histogram:
    """A histogram of at most 90 buckets from neighbouring ones, with as many elements in all.

    ``edges`` ascend, the outermost may be far beyond the data, that is from ``smallest`` to ``largest``; ``others`` are
    the numbers of NaN, +inf and -inf.
    """
    whole = int(np.rint(counts.sum()))
    # MindSpore's buckets of constant data reach half a unit to both sides; TensorBoard's outermost may be anywhere.
    is_constant = smallest == largest and largest - 1 <= edges[0] <= edges[-1] <= smallest + 1
    if not (is_constant and ((np.diff(edges) > 0) | (counts == 0)).all()):
        edges = np.clip(edges, smallest, largest)
    kept = np.diff(np.rint(np.concatenate([[0], np.cumsum(counts)]))).astype(np.int64)
    if edges[-1] <= edges[0]:
        # A bucket without width shows nothing in MindInsight; MindSpore too puts constant data in one of width 1.
        half = max(0.5, float(np.spacing(abs(smallest))))  # large numbers have no half between them
        edges, kept = np.array([smallest - half, smallest + half]), np.array([whole])
    else:
        # Empty buckets at the ends are how TensorBoard marks where the first one begins.
        inside = np.flatnonzero((np.diff(edges) > 0) | (kept > 0))
        edges, kept = edges[inside[0] : inside[-1] + 2], kept[inside[0] : inside[-1] + 1]
    if kept.size > MAX_BUCKETS or (np.diff(edges) <= 0).any():
        running = np.concatenate([[0], np.cumsum(kept)])
        coarse = np.unique(np.linspace(edges[0], edges[-1], min(MAX_BUCKETS, kept.size) + 1))  # neighbours may be equal
        # Elements count as evenly spread in their bucket; rounding the running total keeps the sum exact.
        below = np.rint(np.interp(coarse, edges, running))
        below[0], below[-1] = 0, running[-1]  # where the outermost have no width too
        kept = np.diff(below).astype(np.int64)
        edges = coarse
    return Histogram(
        edges[:-1], np.diff(edges), kept, whole + sum(others), *others, min=smallest, max=largest, sum=total
    )


def limits_of_buckets(histogram: Histogram) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """TensorBoard's ``bucket_limit`` and ``bucket``: right edges and counts, with an empty bucket before the first."""
    order = np.argsort(histogram.lefts, kind="stable")
    lefts = histogram.lefts[order]
    with np.errstate(over="ignore", invalid="ignore"):
        rights = lefts + histogram.widths[order]
    counts = histogram.counts[order].astype(np.float64)
    if not lefts.size:
        return np.empty(0), np.empty(0)
    limits, buckets = [float(lefts[0])], [0.0]
    for left, right, number in zip(lefts.tolist(), rights.tolist(), counts.tolist(), strict=True):
        if left - limits[-1] > (right - left) * 1e-6:
            limits.append(left)  # a gap is an empty bucket
            buckets.append(0.0)
        limits.append(right)
        buckets.append(number)
    return np.array(limits), np.array(buckets)


def _sum_of_counts(counts: NDArray[np.float64]) -> int:
    if not (counts >= 0).all() or not (counts < _MAX_COUNT).all() or counts.sum() > _MAX_COUNT:
        raise ValueError("a histogram whose buckets do not hold numbers of elements")
    return int(np.rint(counts.sum()))
