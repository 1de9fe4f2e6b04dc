"""Convert histogram buckets from TensorBoard to MindInsight and back.

MindInsight shows at most 90 buckets; the total number of elements is kept.
"""

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
    limits: NDArray[np.float64],
    buckets: NDArray[np.float64],
    low: float,
    high: float,
    number: float,
    total: float,
) -> Histogram:
    """Build a histogram from the fields of TensorBoard's ``HistogramProto``.

    ``limits`` are the right edges of the buckets, and ``buckets`` the numbers of elements in them.
    ``low`` and ``high`` are the extremes, ``number`` is the number of elements, ``total`` their
    sum.

    ``number`` may exceed the elements in the buckets. The missing elements lie outside the
    outermost bucket if ``low`` or ``high`` does, and between ``low`` and ``high`` if all buckets
    are empty. Otherwise they are +inf or -inf if exactly one kind of infinity makes ``low`` or
    ``high`` infinite, and else NaN. An extreme that is not finite, or that contradicts the buckets,
    is replaced by the edge of its bucket.

    Raises:
        ValueError: the lengths differ, the limits descend, or a count is not a number of elements.
    """
    if limits.shape != buckets.shape:
        raise ValueError(
            "a histogram must have as many bucket limits as buckets, got "
            f"{limits.size} limits and {buckets.size} buckets"
        )
    counts = _counts(buckets)
    missing = max(round(number) - int(counts.sum()), 0) if 0 < number < _MAX_COUNT else 0
    # a first bucket begins at the smallest element, an empty one anywhere
    edges = np.concatenate([limits[:1], limits])
    if missing and math.isfinite(low + high):
        edges, counts, missing = _with_missing(edges, counts, missing, low, high)
    if edges.size and counts[0]:
        width = edges[2] - edges[1] if edges.size > 2 else 1.0
        edges[0] = low if -math.inf < low < edges[1] else edges[1] - width
    not_finite = {extreme for extreme in (low, high) if not math.isfinite(extreme)}
    highs = missing if not_finite == {math.inf} else 0
    lows = missing if not_finite == {-math.inf} else 0
    return _histogram(edges, counts, low, high, (missing - highs - lows, highs, lows), total)


def _with_missing(
    edges: NDArray[np.float64], counts: NDArray[np.int64], missing: int, low: float, high: float
) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
    """Add elements that are in no bucket; also return how many elements remain."""
    if not counts.any():
        return np.array([low, high]), np.array([missing]), 0
    if high > edges[-1]:
        return np.append(edges, high), np.append(counts, missing), 0
    if low < edges[0]:
        counts[0] += missing
        return edges, counts, 0
    return edges, counts, missing


def histogram_of_rows(rows: NDArray[np.float64]) -> Histogram:
    """Build a histogram from TensorFlow 2's rows: left edge, right edge, count.

    Elements of a row whose edges are NaN count as NaN.

    Raises:
        ValueError: the buckets are not neighbours.
    """
    counts = _counts(rows[:, 2])
    is_bucket = ~np.isnan(rows[:, :2]).any(axis=1)
    missing, counts, rows = int(counts[~is_bucket].sum()), counts[is_bucket], rows[is_bucket]
    with np.errstate(invalid="ignore"):  # where edges are infinite
        apart = np.abs(rows[1:, 0] - rows[:-1, 1]) > 1e-6 * (rows[1:, 1] - rows[:-1, 0])
    if apart.any():
        raise ValueError("each bucket of a histogram must begin where the previous bucket ends")
    edges = np.concatenate([rows[:1, 0], rows[:, 1]])
    return _histogram(edges, counts, math.nan, math.nan, (missing, 0, 0), math.nan)


def _histogram(
    edges: NDArray[np.float64],
    counts: NDArray[np.int64],
    low: float,
    high: float,
    others: tuple[int, int, int],
    total: float,
) -> Histogram:
    """Build a histogram from buckets; correct extremes that contradict the buckets.

    An extreme that contradicts the buckets is replaced by an edge of the buckets.
    """
    edges = np.clip(edges, -HISTOGRAM_LIMIT, HISTOGRAM_LIMIT)
    if not (np.diff(edges) >= 0).all():
        raise ValueError("the bucket limits of a histogram must ascend")
    full = np.flatnonzero(counts)
    if not full.size:
        return Histogram(*_EMPTY, sum(others), *others)
    first, last = float(edges[full[0]]), float(edges[full[-1] + 1])
    low = low if -HISTOGRAM_LIMIT <= low <= last else first
    high = high if max(low, first) <= high <= HISTOGRAM_LIMIT else last
    return histogram_of_buckets(
        edges, counts, low, high, others, total if math.isfinite(total) else None
    )


def histogram_of_buckets(
    edges: NDArray[np.float64],
    counts: NDArray[np.int64],
    smallest: float,
    largest: float,
    others: tuple[int, int, int] = (0, 0, 0),
    total: float | None = None,
) -> Histogram:
    """Build a histogram of at most 90 buckets from any number of adjacent buckets.

    The total number of elements is kept.

    Args:
        edges: ascending bucket edges; the outermost edges may be far beyond the data.
        counts: number of elements in every bucket.
        smallest: smallest finite element.
        largest: largest finite element.
        others: numbers of NaN, +inf and -inf.
        total: sum of the finite elements, or ``None``.
    """
    whole = int(counts.sum())
    # MindSpore's buckets of constant data reach half a unit to both sides; TensorBoard's outermost
    # may be anywhere.
    if smallest < largest or edges[-1] - edges[0] > 2:
        edges = np.clip(edges, smallest, largest)
    if edges[-1] <= edges[0]:
        # A bucket without width shows nothing in MindInsight; MindSpore too puts constant data in
        # one of width 1.
        half = max(0.5, float(np.spacing(abs(smallest))))  # large numbers have no half between them
        edges, counts = np.array([smallest - half, smallest + half]), np.array([whole])
    else:
        # Empty buckets at the ends are how TensorBoard marks where the first one begins.
        inside = np.flatnonzero((np.diff(edges) > 0) | (counts > 0))
        edges, counts = edges[inside[0] : inside[-1] + 2], counts[inside[0] : inside[-1] + 1]
    if counts.size > MAX_BUCKETS or (np.diff(edges) <= 0).any():
        running = np.concatenate([[0], np.cumsum(counts)])
        # some may be equal
        coarse = np.unique(np.linspace(edges[0], edges[-1], min(MAX_BUCKETS, counts.size) + 1))
        # Elements count as evenly spread in their bucket; rounding the running total keeps the sum
        # exact.
        below = np.rint(np.interp(coarse, edges, running))
        below[0], below[-1] = 0, running[-1]  # where the outermost have no width too
        edges, counts = coarse, np.diff(below).astype(np.int64)
    number = whole + sum(others)
    return Histogram(
        edges[:-1], np.diff(edges), counts, number, *others, min=smallest, max=largest, sum=total
    )


def limits_of_buckets(histogram: Histogram) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Convert a histogram to TensorBoard's ``bucket_limit`` and ``bucket``.

    These are the right edges and the counts, with an empty bucket in front.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rights = histogram.lefts + histogram.widths
    empty = np.zeros(min(1, rights.size))
    return np.concatenate([histogram.lefts[:1], rights]), np.concatenate([empty, histogram.counts])


def _counts(buckets: NDArray[np.float64]) -> NDArray[np.int64]:
    counts = np.rint(buckets)
    if not ((counts >= 0) & (counts == buckets)).all() or counts.sum() > _MAX_COUNT:
        raise ValueError("the bucket counts of a histogram must be whole numbers from 0 to 2**53")
    return counts.astype(np.int64)
