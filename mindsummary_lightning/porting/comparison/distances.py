"""Distances of two recordings of one number or tensor, and from which distance on they are different."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.values.text import Phrase

Floats = NDArray[np.float64]

_LOSS_FLOOR = 0.05  # of the first loss: one that falls to nothing is noise
# of the larger tensors' greatest element: rounding in a small bias is that of large weights
_SCALE_FLOOR = 0.1


class Tolerance(NamedTuple):
    """Distances up to which two runs are the same: of losses, of tensors, and of rows of a chain, losses as of both."""

    name: str
    loss: float
    tensor: float
    row: float


TOLERANCES = {"float32": Tolerance("float32", 1e-5, 3e-6, 1e-6)} | {
    name: Tolerance(name, 2e-3, 3e-2, 2e-2) for name in ("bfloat16", "float16")
}


class Distances(NamedTuple):
    """Distances of two runs, and the limits beyond which they count.

    Attributes:
        losses: float64, shape ``(l,)``, as ``loss_limits``.
        tensors: float64, shape ``(pairs, s)``, as ``tensor_limits``; NaN where not recorded.
        tolerance: the limits before rounding was measured.
    """

    losses: Floats
    tensors: Floats
    loss_limits: Floats
    tensor_limits: Floats
    tolerance: Tolerance

    @property
    def tolerances(self) -> str:
        """The limits in words."""
        name, loss, tensor, _ = self.tolerance
        limits = (
            max(loss, self.loss_limits.max(initial=0.0)),
            max(tensor, self.tensor_limits.max(initial=0.0)),
        )
        measured = (
            ""
            if limits == (loss, tensor)
            else Phrase(", or three times what two runs of a differ by")
        )
        return Phrase("tolerance {}{}: loss {:.2g}, tensors {:.2g}", name, measured, *limits)

    @property
    def far(self) -> NDArray[np.bool_]:
        """Where tensors are beyond their limits."""
        return np.greater(self.tensors, self.tensor_limits)


def loss_distances(a: Floats, b: Floats) -> Floats:
    """Relative differences of two losses of the same steps, shape ``(steps,)``; infinite where only one is a number."""
    floor = (
        _LOSS_FLOOR * max(abs(a[0]), abs(b[0]))
        if a.size and np.isfinite([a[0], b[0]]).all()
        else 0.0
    )
    with np.errstate(invalid="ignore"):
        distances = np.abs(a - b) / np.maximum(np.maximum(np.abs(a), np.abs(b)), floor)
    is_same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(is_same, 0.0, np.where(np.isfinite(a) & np.isfinite(b), distances, np.inf))


def tensor_distances(a: Floats, b: Floats) -> Floats:
    """Distances of tensors by their minimum, maximum and mean.

    Args:
        a: float64, shape ``(tensors, steps, 3)``; NaN where a tensor was not recorded.
        b: those of the other run.

    Returns:
        Shape ``(tensors, steps)``: the largest difference of the three over the largest element so
        far; NaN where either was not recorded.
    """
    scale = np.fmax(_largest(a[:, :, :2]), _largest(b[:, :, :2]))
    scale = np.fmax.accumulate(scale, axis=1)  # a bias may pass through zero
    # later ones may have grown beyond any bound
    first = [row[np.isfinite(row)][:1] for row in scale]
    floor = (
        _SCALE_FLOOR * float(np.quantile(np.concatenate(first), 0.75))
        if any(map(len, first))
        else 0.0
    )
    with np.errstate(invalid="ignore"):
        difference = _largest(a - b)
        return np.where(difference == 0, 0.0, difference / np.maximum(scale, floor))


def _largest(numbers: Floats) -> Floats:
    """The largest magnitudes along the last axis, which is short: plane by plane takes a fifth of ``max``."""
    return functools.reduce(
        np.maximum, (np.abs(numbers[..., index]) for index in range(numbers.shape[-1]))
    )


def largest(distances: Floats) -> float | None:
    """The largest that is known, or ``None``."""
    known = distances[~np.isnan(distances)]
    return float(known.max()) if known.size else None


def largest_first(distances: dict[str, float]) -> dict[str, float]:
    """The same, the largest first and equal ones by name."""
    return dict(sorted(distances.items(), key=lambda item: (-item[1], item[0])))
