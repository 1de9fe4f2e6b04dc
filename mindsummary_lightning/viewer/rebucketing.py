"""Histograms of several steps brought to the same bins, so that the page can draw them one behind the other.

The arithmetic is MindInsight's to the last digit: a bin gets of each recorded bucket the part that
overlaps it, and the sum is rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_MAX_BINS = 30


@dataclass(frozen=True, slots=True)
class StepHistogram:
    """The histogram of one step."""

    buckets: Sequence[tuple[float, float, int]]  # left edge, width and count of each, by left edge
    min: float
    max: float
    count: int  # of all buckets

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it takes, roughly."""
        return 200 * len(self.buckets)


def bin_count(count: int) -> int:
    """MindInsight's number of bins for ``count`` values."""
    if not count:
        return 1
    if count <= 5:
        return 2
    if count <= 10:
        return 3
    return min(math.ceil(count / 10) + 1, _MAX_BINS)


def rebucketed(histograms: Sequence[StepHistogram]) -> list[list[tuple[float, float, int]]]:
    """Left edge, width and count of the same bins for each histogram.

    A ValueError if their edges make no sense.
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
        raise ValueError(f"Invalid input. the range from {low} to {high} is too wide.")
    lefts = [low + width * index for index in range(bins)]
    return [_resampled(histogram, lefts, width) for histogram in histograms]


def _resampled(
    histogram: StepHistogram, lefts: list[float], width: float
) -> list[tuple[float, float, int]]:
    if not histogram.count:
        return [(left, width, 0) for left in lefts]
    buckets = [
        (left, left + bucket_width, bucket_width, count)
        for left, bucket_width, count in histogram.buckets
    ]
    if any(bucket_right < bucket_left for bucket_left, bucket_right, _, _ in buckets):
        raise ValueError("Invalid input. a bucket has a negative width.")
    resampled = []
    current = 0
    for left in lefts:
        right = left + width
        total = 0.0
        # The last bucket that has been reached stays the current one once there is no other.
        if right > buckets[min(current, len(buckets) - 1)][0]:
            while current < len(buckets) and left >= buckets[current][1]:
                current += 1
            while current < len(buckets):
                bucket_left, bucket_right, bucket_width, count = buckets[current]
                overlap = max(min(right, bucket_right) - max(left, bucket_left), 0.0)
                total += overlap / bucket_width * count if bucket_width else count
                if right <= bucket_right:
                    break
                current += 1
        resampled.append((left, width, math.ceil(total)))
    return resampled
