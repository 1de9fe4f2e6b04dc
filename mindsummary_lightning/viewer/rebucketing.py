"""Convert the histograms of several steps to common bins, as MindInsight does.

The arithmetic is MindInsight's to the last digit: a bin gets from each recorded bucket the share
that overlaps it, and the sum is rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

_MAX_BINS = 30


@dataclass(frozen=True, slots=True)
class StepHistogram:
    """The histogram of a step: buckets, smallest and largest value, number of values."""

    buckets: Sequence[tuple[float, float, int]]  # left edge, width and count of each, by left edge
    min: float
    max: float
    count: int  # of all buckets

    @property
    def nbytes(self) -> int:
        """Estimated memory of the histogram, bytes."""
        return 200 * len(self.buckets)


class _Bucket(NamedTuple):
    left: float
    right: float
    width: float
    elements: int


def bin_count(count: int) -> int:
    """Return the number of bins that MindInsight uses for ``count`` values, 1 to 30."""
    if not count:
        return 1
    if count <= 5:
        return 2
    if count <= 10:
        return 3
    return min(math.ceil(count / 10) + 1, _MAX_BINS)


def rebucketed(histograms: Sequence[StepHistogram]) -> list[list[tuple[float, float, int]]]:
    """Convert histograms to common bins between their smallest and largest value.

    Returns:
        For every histogram its bins as tuples of left edge, width and count, by left edge.

    Raises:
        ValueError: the largest value is less than the smallest, the range is not finite, or a
            bucket has a negative width.
    """
    filled = [histogram for histogram in histograms if histogram.count]
    low = min((histogram.min for histogram in filled), default=0.0)
    high = max((histogram.max for histogram in filled), default=0.0)
    bins = bin_count(max((histogram.count for histogram in filled), default=0))
    if high < low:
        raise ValueError(f"Invalid input. max_val({high}) is less or equal than min_val({low}).")
    if high == low:
        low, high = low - 0.5, high + 0.5
    width = (high - low) / bins
    if not math.isfinite(width):
        raise ValueError(f"Invalid input. The values from {low} to {high} are too far apart.")
    lefts = [low + width * index for index in range(bins)]
    return [_resampled(histogram, lefts, width) for histogram in histograms]


def _resampled(
    histogram: StepHistogram, lefts: list[float], width: float
) -> list[tuple[float, float, int]]:
    if not histogram.count:
        return [(left, width, 0) for left in lefts]
    buckets = [
        _Bucket(left, left + width, width, count) for left, width, count in histogram.buckets
    ]
    if any(bucket.right < bucket.left for bucket in buckets):
        raise ValueError("Invalid input. a bucket has a negative width.")
    resampled = []
    current = 0
    for left in lefts:
        right = left + width
        total = 0.0
        # The last bucket that has been reached stays the current one once there is no other.
        if right > buckets[min(current, len(buckets) - 1)].left:
            while current < len(buckets) and left >= buckets[current].right:
                current += 1
            total, current = _sum_of_overlaps(buckets, current, left, right)
        resampled.append((left, width, math.ceil(total)))
    return resampled


def _sum_of_overlaps(
    buckets: Sequence[_Bucket], first: int, left: float, right: float
) -> tuple[float, int]:
    """Sum the counts of buckets, each weighted by its overlap with a bin.

    Returns:
        The sum, and the index of the bucket at which the next bin continues.
    """
    total = 0.0
    for index in range(first, len(buckets)):
        bucket = buckets[index]
        overlap = max(min(right, bucket.right) - max(left, bucket.left), 0.0)
        total += overlap / bucket.width * bucket.elements if bucket.width else bucket.elements
        if right <= bucket.right:
            return total, index
    return total, len(buckets)
