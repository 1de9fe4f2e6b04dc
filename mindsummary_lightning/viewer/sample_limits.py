"""How many samples of a tag the pages get. MindInsight's limits are exceeded, not undercut; below ours all are shown.

Curves are thinned to what a screen shows: the first and last point and the extremes between them stay exact. Of other
kinds every second, fourth, ... sample is shown and the newest, so that a sample that is shown while a run grows stays.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_HISTOGRAMS", "MAX_IMAGES", "MAX_POINTS", "MAX_TENSORS", "spread", "thinned"]

MAX_POINTS = 5000  # of a curve; MindInsight keeps 1000
MAX_IMAGES = 1000  # MindInsight keeps 10
MAX_HISTOGRAMS = 100  # drawn one behind the other; MindInsight keeps 50
MAX_TENSORS = 50  # each is read as a whole for its statistics; MindInsight keeps 20


def thinned(values: NDArray[np.float32], max_points: int = MAX_POINTS) -> NDArray[np.intp]:
    """Choose the points of a curve that show its shape.

    Args:
        values: shape ``(n,)``; NaN and infinities are allowed.
        max_points: most points to choose, at least 5.

    Returns:
        Ascending indices: all of them up to ``max_points``; else the first, the last, and of each of many equally long
        stretches between them the least, the greatest and the first value that is not finite.
    """
    count = values.size
    if count <= max_points:
        return np.arange(count)
    stretches = (max_points - 2) // 3
    inner = np.linspace(1, count - 1, stretches + 1).astype(np.intp)
    length = int(np.diff(inner).max())
    # Stretches differ in length by one: the shorter ones repeat their last point.
    columns = np.minimum(inner[:-1, None] + np.arange(length), inner[1:, None] - 1)
    found = values[columns]
    is_finite = np.isfinite(found)
    chosen = [np.array([0, count - 1])]
    for column in (
        np.where(is_finite, found, np.inf).argmin(axis=1),
        np.where(is_finite, found, -np.inf).argmax(axis=1),
        is_finite.argmin(axis=1),
    ):
        chosen.append(columns[np.arange(stretches), column])
    return np.unique(np.concatenate(chosen))


def spread(max_samples: int) -> Callable[[NDArray[np.int64]], NDArray[np.intp]]:
    """A choice of samples: of more than ``max_samples`` every 2nd, 4th, 8th, ... and the newest."""

    def select(steps: NDArray[np.int64]) -> NDArray[np.intp]:
        stride = 1
        while (steps.size - 1) // stride + 2 > max_samples and steps.size > max_samples:
            stride *= 2
        chosen = np.arange(0, steps.size, stride)
        return chosen if chosen[-1] == steps.size - 1 else np.append(chosen, steps.size - 1)

    return select
