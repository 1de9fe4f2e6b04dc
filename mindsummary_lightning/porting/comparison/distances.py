"""Measures how far losses, or tensor histograms, differ between two runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.porting.comparison.tolerance_table import LOSS_FLOOR, SCALE_FLOOR

Floats = NDArray[np.float64]


def loss_distances(a: Floats, b: Floats) -> Floats:
    """Return the relative differences between two runs' losses at the same steps.

    Args:
        a: losses of the baseline, shape ``(steps,)``.
        b: losses of the candidate.

    Returns:
        Shape ``(steps,)``; infinite where one loss alone is a finite number.
    """
    floor = 0.0
    if a.size and np.isfinite([a[0], b[0]]).all():
        floor = LOSS_FLOOR * max(abs(a[0]), abs(b[0]))
    with np.errstate(invalid="ignore"):
        distances = np.abs(a - b) / np.maximum(np.maximum(np.abs(a), np.abs(b)), floor)
    is_same = (a == b) | (np.isnan(a) & np.isnan(b))
    distances = np.where(np.isfinite(a) & np.isfinite(b), distances, np.inf)
    return np.where(is_same, 0.0, distances)


def tensor_distances(a: Floats, b: Floats) -> Floats:
    """Return the distances between tensors, measured by minimum, maximum and mean.

    Args:
        a: tensors of the baseline, float64, shape ``(tensors, steps, 3)``; NaN where a tensor was
            not recorded.
        b: tensors of the candidate.

    Returns:
        Shape ``(tensors, steps)``: the largest difference of the three over the largest element so
        far; NaN where a run did not record the tensor.
    """
    scale = np.fmax(_largest_magnitude(a[:, :, :2]), _largest_magnitude(b[:, :, :2]))
    scale = np.fmax.accumulate(scale, axis=1)  # a bias may pass through zero
    floor = SCALE_FLOOR * _typical_first(scale)
    with np.errstate(invalid="ignore"):
        difference = _largest_magnitude(a - b)
        return np.where(difference == 0, 0.0, difference / np.maximum(scale, floor))


def _typical_first(scale: Floats) -> float:
    """Return the upper quartile, over all tensors, of a tensor's first known scale.

    Later scales may grow beyond any bound.
    """
    first = []
    for row in scale:
        known = row[np.isfinite(row)]
        if known.size:
            first.append(known[0])
    return float(np.quantile(first, 0.75)) if first else 0.0


def _largest_magnitude(numbers: Floats) -> Floats:
    """Return the largest magnitudes along the last, short axis, faster than ``max``."""
    largest_so_far = np.abs(numbers[..., 0])
    for index in range(1, numbers.shape[-1]):
        largest_so_far = np.maximum(largest_so_far, np.abs(numbers[..., index]))
    return largest_so_far


def largest(distances: Floats) -> float | None:
    """Return the largest distance that is not NaN; ``None`` if all are NaN."""
    known = distances[~np.isnan(distances)]
    return float(known.max()) if known.size else None


def largest_first(distances: dict[str, float]) -> dict[str, float]:
    """Sort distances from large to small; equal distances are sorted by name."""
    return dict(sorted(distances.items(), key=lambda item: (-item[1], item[0])))
