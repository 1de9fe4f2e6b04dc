"""Curves thinned to what a screen shows: the first and last point and the extremes between them stay exact."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def thinned(values: NDArray[np.float32], max_points: int) -> NDArray[np.intp]:
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
