"""Histogram buckets converted between TensorBoard's layouts and MindInsight's: at most 90, totals kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.values import Histogram
from mindsummary_lightning.values.limits import MAX_BUCKETS


def histogram_of_buckets(
    edges: NDArray[np.float64],
    counts: NDArray[np.float64],
    smallest: float,
    largest: float,
    *,
    count: int | None = None,
    total: float | None = None,
) -> Histogram:
    """A histogram of at most 90 buckets from neighbouring ones, with as many elements in all.

    ``edges`` ascend, the outermost may be far beyond the data, that is from ``smallest`` to ``largest``; ``count`` is
    that of all elements, by default those in buckets.
    """
    whole = int(np.rint(counts.sum()))
    edges = np.clip(edges, smallest, largest)
    if not counts.size or largest <= smallest:
        # A bucket without width shows nothing in MindInsight; MindSpore too puts constant data in one of width 1.
        edges, kept = np.array([smallest - 0.5, smallest + 0.5]), np.array([whole])
    else:
        kept = np.diff(np.rint(np.concatenate([[0], np.cumsum(counts)]))).astype(np.int64)
        # Empty buckets at the ends are how TensorBoard marks where the first one begins.
        inside = np.flatnonzero((np.diff(edges) > 0) | (kept > 0))
        edges, kept = edges[inside[0] : inside[-1] + 2], kept[inside[0] : inside[-1] + 1]
    if kept.size > MAX_BUCKETS or (np.diff(edges) <= 0).any():
        running = np.concatenate([[0], np.cumsum(kept)])
        coarse = np.linspace(edges[0], edges[-1], min(MAX_BUCKETS, kept.size) + 1)
        # Elements count as evenly spread in their bucket; rounding the running total keeps the sum exact.
        kept = np.diff(np.rint(np.interp(coarse, edges, running))).astype(np.int64)
        edges = coarse
    return Histogram(
        lefts=edges[:-1],
        widths=np.diff(edges),
        counts=kept,
        count=whole if count is None else count,
        min=smallest,
        max=largest,
        sum=total,
    )


def limits_of_buckets(histogram: Histogram) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """TensorBoard's ``bucket_limit`` and ``bucket``: right edges and counts, with an empty bucket before the first."""
    order = np.argsort(histogram.lefts, kind="stable")
    lefts = histogram.lefts[order]
    rights = lefts + histogram.widths[order]
    counts = histogram.counts[order].astype(np.float64)
    if not lefts.size:
        return np.array([0.0]), np.array([0.0])
    limits, buckets = [lefts[0]], [0.0]
    for left, right, number in zip(lefts.tolist(), rights.tolist(), counts.tolist(), strict=True):
        if left - limits[-1] > (right - left) * 1e-6:
            limits.append(left)  # a gap is an empty bucket
            buckets.append(0.0)
        limits.append(right)
        buckets.append(number)
    return np.array(limits), np.array(buckets)
