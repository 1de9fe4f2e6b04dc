"""Finds the first common step at which losses or tensors exceed a tolerance.

The result holds numbers and names no cause.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.porting.comparison.alignment import Alignment
from mindsummary_lightning.porting.comparison.distances import Floats
from mindsummary_lightning.porting.comparison.divergence import (
    DivergenceLocation,
    SettingDifference,
)
from mindsummary_lightning.porting.comparison.matching.tensor_names import is_bias
from mindsummary_lightning.porting.comparison.other_values import WholeDistances
from mindsummary_lightning.porting.comparison.pair_table import Stage
from mindsummary_lightning.porting.comparison.run_distances import RunDistances
from mindsummary_lightning.porting.comparison.tolerance_table import (
    MAX_ROUNDING_GROWTH,
    TOLERANCES,
    UNRECORDED_ROUNDING,
    WHOLE_TENSOR,
)

Doubt: TypeAlias = Literal["growth", "biases", "losses", "later step", "different start"]
"""Why a difference does not decide.

``growth``: smaller differences came before, and rounding errors can grow to this size.
``biases``: only biases differ, and a bias without effect on the loss moves by rounding.
``losses``: no weight differs.
``later step``: output statistics agree at the judged step and exceed their tolerance later.
``different start``: the first step with output statistics begins with different weights.
"""


@dataclass(frozen=True, slots=True)
class TensorDistance:
    """A tensor in both runs, and the distance between its two recordings.

    Attributes:
        baseline: its name in the baseline.
        candidate: its name in the candidate.
        distance: largest difference of minimum, maximum and mean, over the largest element;
            infinite if the runs count other elements that are not finite.
    """

    baseline: str
    candidate: str
    distance: float


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first recorded step at which two runs differ.

    Attributes:
        step: the step.
        stage: with output statistics of the step its first stage that differs: ``data``,
            ``weights``, ``forward``, ``loss``, ``gradients`` or ``update``; otherwise ``None``.
        loss_distance: of the losses at that step, or ``None`` if a run did not record its loss.
        tensors: tensors beyond the tolerance at that step, the largest distance first; of
            gradients the nearest to the loss first.
        last_equal_step: the last recorded step before it, or ``None``.
        location: with output statistics, in the stage ``forward``, the module call.
        settings: with output statistics, settings of optimizers, norms and numbers of losses that
            differ.
    """

    step: int
    stage: Stage | None
    loss_distance: float | None
    tensors: tuple[TensorDistance, ...]
    last_equal_step: int | None
    location: DivergenceLocation | None = None
    settings: tuple[SettingDifference, ...] = ()


class NumbersResult(NamedTuple):
    """The result of comparing two runs by losses and tensor histograms.

    Attributes:
        difference: the first step beyond tolerance, or ``None``.
        doubt: why it does not decide, or ``None`` if it does.
    """

    difference: FirstDifference | None
    doubt: Doubt | None


def first_difference(
    alignment: Alignment, distances: RunDistances, agreed_steps: list[int]
) -> NumbersResult:
    """Find the first step at which losses or tensors exceed their tolerance.

    The result also tells whether rounding can explain the difference.

    Args:
        alignment: the runs.
        distances: of the runs.
        agreed_steps: steps that agree by their output statistics.
    """
    decides = _deciding_tensors(alignment, distances)
    exceed = distances.tensors_exceed
    steps = alignment.tensors.steps
    is_no_rounding = np.isinf(distances.tensors) & alignment.is_weight[:, None]
    tensor_step = _first_step(steps, exceed & (decides[:, None] | is_no_rounding))
    loss_step = _first_step(alignment.losses.steps, distances.losses_exceed[None])
    if loss_step is None and tensor_step is None:
        biases = _deciding_biases(alignment, decides)
        bias_step = _first_step(steps, exceed[biases])
        if bias_step is None:
            return NumbersResult(None, None)
        return NumbersResult(_at(bias_step, alignment, distances, agreed_steps), "biases")
    step = min(step for step in (tensor_step, loss_step) if step is not None)
    difference = _at(step, alignment, distances, agreed_steps)
    is_own_tolerance = distances.tolerance.name not in TOLERANCES  # the user's number decides
    if is_own_tolerance:
        return NumbersResult(difference, None)
    if tensor_step is None and _weights_move(alignment, decides, step):
        return NumbersResult(difference, "losses")
    if _can_be_rounding(difference, alignment, distances, decides):
        return NumbersResult(difference, "growth")
    return NumbersResult(difference, None)


def _first_step(steps: NDArray[np.int64], exceeds: NDArray[np.bool_]) -> int | None:
    found = steps[np.logical_or.reduce(exceeds, axis=0)]
    return int(found[0]) if found.size else None


def _deciding_tensors(alignment: Alignment, distances: RunDistances) -> NDArray[np.bool_]:
    """Tell which tensors decide whether the runs differ.

    Weights decide, biases do not: an optimizer like Adam moves a bias without effect on the loss by
    whole steps of rounding. Gradients decide only without common weights and
    losses.
    """
    is_weight = alignment.is_weight
    if not is_weight.any() and not distances.losses.size:
        return np.ones(is_weight.shape, np.bool_)
    return is_weight & ~_is_bias(alignment)


def _is_bias(alignment: Alignment) -> NDArray[np.bool_]:
    return np.array([is_bias(pair.a) for pair in alignment.names.pairs], np.bool_)


def _deciding_biases(alignment: Alignment, decides: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return alignment.is_weight & ~decides


def _weights_move(alignment: Alignment, decides: NDArray[np.bool_], step: int) -> bool:
    """Tell whether weights were recorded at ``step`` or later, and do change."""
    columns = alignment.tensors.steps >= step
    values = alignment.tensors.values[:, decides]
    if not columns.any() or values.shape[2] < 2:
        return False
    moves = np.diff(values, axis=2) != 0
    return bool((moves & ~np.isnan(np.diff(values, axis=2))).any())


def _at(
    step: int, alignment: Alignment, distances: RunDistances, agreed_steps: list[int]
) -> FirstDifference:
    """Describe a step: its loss, its tensors beyond tolerance, the last equal step."""
    tensors = []
    column = alignment.column(step)
    if column is not None:
        is_weight = alignment.is_weight
        counts = is_weight if is_weight.any() or distances.losses.size else ~is_weight
        beyond = distances.tensors_exceed[:, column] & counts
        for index in np.flatnonzero(beyond).tolist():
            pair = alignment.names.pairs[index]
            distance = float(distances.tensors[index, column])
            tensors.append(TensorDistance(pair.a, pair.b, distance))
    tensors.sort(key=lambda tensor: -tensor.distance)
    loss = alignment.loss_at(step, distances.losses)
    recorded = [*alignment.tensors.steps.tolist(), *alignment.losses.steps.tolist()]
    last = last_before(step, [*recorded, *agreed_steps])
    return FirstDifference(step, None, loss, tuple(tensors), last)


def last_before(step: int, recorded: Iterable[int]) -> int | None:
    """Return the last recorded step before a step, or ``None``."""
    return max((each for each in recorded if each < step), default=None)


def _can_be_rounding(
    difference: FirstDifference,
    alignment: Alignment,
    distances: RunDistances,
    decides: NDArray[np.bool_],
) -> bool:
    """Tell whether a difference can have grown by rounding from earlier differences.

    A repeat that differs from the baseline decides without it.
    """
    if distances.repeat is not None and distances.repeat.differs:
        return False
    step = difference.step
    earlier = alignment.tensors.steps < step
    before = _largest(distances.tensors[decides][:, earlier])
    before = max(before, _largest(distances.losses[alignment.losses.steps < step]))
    last = difference.last_equal_step
    is_behind_gap = last is not None and step - last > 1
    if is_behind_gap or _largest(distances.tensors[:, earlier]) > 0:
        before = max(before, UNRECORDED_ROUNDING)
    here = difference.loss_distance or 0.0
    column = alignment.column(step)
    if column is not None:
        here = max(here, _largest(distances.tensors[decides, column]))
        if np.isinf(distances.tensors[:, column]).any():  # non-finite elements
            return False
    return here <= MAX_ROUNDING_GROWTH * before


def _largest(distances: Floats) -> float:
    return float(np.nan_to_num(distances, nan=0.0, posinf=np.inf).max(initial=0.0))


def whole_difference(distances: WholeDistances, tolerance: float) -> FirstDifference | None:
    """Find the first step at which tensors recorded whole differ beyond rounding.

    Args:
        distances: of the tensors that both runs recorded whole.
        tolerance: the tolerance of tensors.
    """
    limit = max(float(WHOLE_TENSOR), tolerance)
    steps: set[int] = set()
    exceeding: set[int] = set()
    for by_step in distances.values():
        for step, distance in by_step.items():
            steps.add(step)
            if distance > limit:
                exceeding.add(step)
    if not exceeding:
        return None
    step = min(exceeding)
    tensors = []
    for (name_a, name_b), by_step in distances.items():
        if by_step.get(step, 0.0) > limit:
            tensors.append(TensorDistance(name_a, name_b, by_step[step]))
    tensors.sort(key=lambda tensor: -tensor.distance)
    return FirstDifference(step, None, None, tuple(tensors), last_before(step, steps))
