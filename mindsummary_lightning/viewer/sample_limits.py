"""How many samples of a tag the pages get. MindInsight's limits are exceeded, not undercut; below ours all are shown.

Curves are thinned to the shape that a screen shows. Of other kinds every second, fourth, ... sample is shown and the
newest, so that a sample that is shown while a run grows stays.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

MAX_POINTS = 5000  # of a curve; MindInsight keeps 1000
MAX_IMAGES = 1000  # MindInsight keeps 10
MAX_HISTOGRAMS = 100  # drawn one behind the other; MindInsight keeps 50
MAX_TENSORS = 50  # each is read as a whole for its statistics; MindInsight keeps 20


def spread(max_samples: int) -> Callable[[NDArray[np.int64]], NDArray[np.intp]]:
    """A choice of samples: of more than ``max_samples`` every 2nd, 4th, 8th, ... and the newest."""

    def select(steps: NDArray[np.int64]) -> NDArray[np.intp]:
        stride = 1
        while (steps.size - 1) // stride + 2 > max_samples and steps.size > max_samples:
            stride *= 2
        chosen = np.arange(0, steps.size, stride)
        return chosen if chosen[-1] == steps.size - 1 else np.append(chosen, steps.size - 1)

    return select
