"""Compute the statistics of an array for a row of output statistics.

They are the columns of the row after ``order``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.values.step_chain import COLUMNS, sample_places

# an array whose largest element is between them has squares within float32
_TINY, _HUGE = 1e-15, 1e15
_WIDTH = 512  # elements of a row whose squares are summed in float32; rows are summed in float64


def array_statistics(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return statistics of an array: size, RMS, mean, range, zeros, samples.

    For a complex array, they are the statistics of all real and imaginary parts.

    Args:
        array: of numbers or bools, any shape.

    Returns:
        float64, shape ``(23,)``; NaN if the array has no finite element.
    """
    if np.iscomplexobj(array):
        array = np.stack([array.real, array.imag], -1)
    flat = array.reshape(-1)
    if not flat.size:
        return np.array([0, *[math.nan] * (len(COLUMNS) - 2)])
    numbers = _plain(flat) if flat.dtype == np.float32 else None
    samples = flat[sample_places(flat.size)].astype(np.float64)
    return np.array(
        [flat.size, *(_safe(flat.astype(np.float64)) if numbers is None else numbers), *samples]
    )


def _plain(flat: NDArray[np.float32]) -> list[float] | None:
    """Compute the statistics of finite float32 numbers, without a copy.

    The result is ``None`` if an element is not finite, or if squares would not fit into float32.
    """
    low, high = float(flat.min()), float(flat.max())
    largest = max(high, -low)
    if not (largest == 0 or _TINY < largest < _HUGE):  # nor is NaN
        return None
    whole = flat.size // _WIDTH * _WIDTH
    rows, rest = flat[:whole].reshape(-1, _WIDTH), flat[whole:].astype(np.float64)
    squares = np.einsum("ij,ij->i", rows, rows).sum(dtype=np.float64) + rest @ rest
    non_zero = flat.size if low > 0 or high < 0 else np.count_nonzero(flat)
    mean = float(flat.mean(dtype=np.float64))
    return [math.sqrt(squares / flat.size), mean, low, high, 1 - non_zero / flat.size, 0]


def _safe(flat: NDArray[np.float64]) -> list[float]:
    """Compute the statistics of float64 numbers of any size, also of NaN."""
    finite = flat[np.isfinite(flat)]
    non_finite = flat.size - finite.size
    if not finite.size:
        return [*[math.nan] * 5, non_finite]
    low, high = float(finite.min()), float(finite.max())
    unit = max(-low, high) or 1.0  # squares in units of the largest stay within float64
    rms = unit * math.sqrt(float(np.square(finite / unit).mean()))
    return [
        rms,
        float(finite.mean()),
        low,
        high,
        1 - np.count_nonzero(finite) / finite.size,
        non_finite,
    ]
