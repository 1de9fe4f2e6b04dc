"""``RunDistances``: distances between two runs, and their tolerances.

It holds how much losses and tensors of two runs differ at each step, and their tolerances.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.porting.comparison.alignment import Alignment
from mindsummary_lightning.porting.comparison.distances import (
    Floats,
    largest,
    loss_distances,
    tensor_distances,
)
from mindsummary_lightning.porting.comparison.tolerance_table import (
    REPEAT_FACTOR,
    WHOLE_TENSOR,
    Tolerance,
)


class RepeatDistance(NamedTuple):
    """The largest loss and tensor distances between the baseline and its repeat."""

    loss: float | None
    tensor: float | None

    @property
    def differs(self) -> bool:
        """Whether the repeat differs at all, and so shows the effect of rounding."""
        return bool(self.loss) or bool(self.tensor)


class LargestLimits(NamedTuple):
    """The largest tolerance at any step, for losses and for tensors."""

    loss: float
    tensor: float


@dataclass(frozen=True, slots=True, eq=False)
class RunDistances:
    """Distances between two runs, and their tolerances.

    Attributes:
        losses: float64, shape ``(l,)``, as ``loss_limits``.
        tensors: float64, shape ``(pairs, s)``, as ``tensor_limits``; NaN where not recorded.
        loss_limits: tolerance of each loss.
        tensor_limits: tolerance of each tensor.
        tolerance: the tolerances without a repeat.
        repeat: how far a repeat of the baseline differs, or ``None``.
    """

    losses: Floats
    tensors: Floats
    loss_limits: Floats
    tensor_limits: Floats
    tolerance: Tolerance
    repeat: RepeatDistance | None = None

    @property
    def tensors_exceed(self) -> NDArray[np.bool_]:
        """Where tensors are beyond their tolerance, shape ``(pairs, s)``."""
        return np.greater(self.tensors, self.tensor_limits)

    @property
    def losses_exceed(self) -> NDArray[np.bool_]:
        """Where losses are beyond their tolerance, shape ``(l,)``."""
        return np.greater(self.losses, self.loss_limits)

    @property
    def largest_limits(self) -> LargestLimits:
        """The largest tolerance that applies to a loss, and to a tensor."""
        loss = max(self.tolerance.loss, float(self.loss_limits.max(initial=0.0)))
        tensor = max(self.tolerance.tensor, float(self.tensor_limits.max(initial=0.0)))
        return LargestLimits(loss, tensor)


def run_distances(alignment: Alignment, tolerance: Tolerance) -> RunDistances:
    """Measure the distances between two runs at the steps that both recorded.

    Tensors with different non-finite counts have an infinite distance.
    """
    losses = loss_distances(*alignment.losses.values)
    tensors = tensor_distances(*alignment.tensors.values)
    nonfinite = alignment.tensors.nonfinite
    tensors = np.where((nonfinite[0] != nonfinite[1]).any(axis=2), np.inf, tensors)
    limit = tolerance.tensor
    if not alignment.is_weight.any() and not losses.size:  # rounding shows in gradients first
        limit = max(limit, float(WHOLE_TENSOR))
    return RunDistances(
        losses,
        tensors,
        np.full(losses.shape, tolerance.loss),
        np.full(tensors.shape, limit),
        tolerance,
    )


def with_repeat(
    found: RunDistances, alignment: Alignment, repeat: Alignment, of_repeat: RunDistances
) -> RunDistances:
    """Raise the tolerances to three times the distances of the baseline's repeat.

    At each step the largest distance up to the next step counts: rounding of another kernel is in
    other tensors, and a step ahead or behind where it grows fast.

    Args:
        found: distances of the two runs.
        alignment: the two runs.
        repeat: the baseline and its repeat.
        of_repeat: distances of these.
    """
    largest_tensors = np.fmax.reduce(of_repeat.tensors, axis=0, initial=0.0)
    losses = _limits(of_repeat.losses, repeat.losses.steps, alignment.losses.steps)
    tensors = _limits(largest_tensors, repeat.tensors.steps, alignment.tensors.steps)
    return replace(
        found,
        loss_limits=np.maximum(found.loss_limits, losses),
        tensor_limits=np.maximum(found.tensor_limits, tensors),
        repeat=RepeatDistance(largest(of_repeat.losses), largest(of_repeat.tensors)),
    )


def _limits(distances: Floats, steps: NDArray[np.int64], wanted: NDArray[np.int64]) -> Floats:
    largest_so_far = np.maximum.accumulate(np.concatenate([[0.0], distances]))
    ends = np.minimum(np.searchsorted(steps, wanted, side="right") + 1, distances.size)
    limits: Floats = REPEAT_FACTOR * largest_so_far[ends]
    return limits


def without_steps(found: RunDistances, alignment: Alignment, steps: list[int]) -> RunDistances:
    """Cap distances at their tolerance in steps whose output statistics agree."""
    losses = np.minimum(found.losses, found.loss_limits)
    tensors = np.minimum(found.tensors, found.tensor_limits)
    losses = np.where(np.isin(alignment.losses.steps, steps), losses, found.losses)
    tensors = np.where(np.isin(alignment.tensors.steps, steps), tensors, found.tensors)
    return replace(found, losses=losses, tensors=tensors)
