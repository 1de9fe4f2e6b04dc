"""Statistics of one array: the columns of a row of a step's chain behind ``order``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.values.step_chain import COLUMNS, sample_places


def array_statistics(array: NDArray[Any]) -> NDArray[np.float64]:
    """What :data:`COLUMNS` names, from ``elements`` on; of a complex array its real and imaginary parts.

    Args:
        array: of numbers or bools, any shape.

    Returns:
        float64, shape ``(23,)``; NaN where there is no finite element.
    """
    if np.iscomplexobj(array):
        array = np.stack([array.real, array.imag], -1)
    flat = array.reshape(-1).astype(np.float64)
    if not flat.size:
        return np.array([0, *[math.nan] * (len(COLUMNS) - 2)])
    samples = flat[sample_places(flat.size)]
    finite = flat[np.isfinite(flat)]
    non_finite = flat.size - finite.size
    if not finite.size:
        return np.array([flat.size, *[math.nan] * 5, non_finite, *samples])
    low, high = finite.min(), finite.max()
    unit = max(-low, high) or 1.0  # squares in units of the largest stay within float64
    rms = unit * math.sqrt(float(np.square(finite / unit).mean()))
    zeros = 1 - np.count_nonzero(finite) / finite.size
    return np.array([flat.size, rms, finite.mean(), low, high, zeros, non_finite, *samples])
