"""What departs by rounding alone: tensors without an effect, small departures, and those that grow slowly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.comparison.alignment import Alignment
from mindsummary_lightning.comparison.distances import Floats, Tolerance

_LATE = 30  # recorded steps after which a slow departure is rounding that has grown
_FEW_STEPS, _NEARLY = 8, 4.0  # times the tolerance that rounding in small biases reaches by and by
_JUMP = 5.0  # times the distance of the step before
_OTHER_UPDATE = 0.1  # share of its updates by which a tensor that walks freely differs
_ENOUGH_LOSSES = 2


def wandering_tensors(alignment: Alignment, losses: Floats, distances: Floats, limits: Tolerance) -> NDArray[np.bool_]:
    """Which tensors walk freely: far apart at once, both moving, while no later loss shows any of it.

    A parameter whose true gradient is zero gets rounding noise as gradient, which Adam scales to whole steps. Without
    losses the other tensors have to show it.
    """
    witnesses = alignment.loss_steps if alignment.loss_steps.size else alignment.steps
    wandering = np.zeros(len(distances), np.bool_)
    parted = alignment.loss_steps[losses > limits.loss]
    equal_until = parted[0] if parted.size else np.inf
    for index, row in enumerate(distances):
        far = np.flatnonzero(row > limits.tensor)
        if not far.size or not np.isfinite(row[far]).all():
            continue
        first = alignment.steps[far[0]]
        later = (witnesses > first) & (witnesses < equal_until)
        wandering[index] = later.sum() >= _ENOUGH_LOSSES and _walks(alignment.tensors[:, index])
    others = (distances[~wandering] > limits.tensor).any() if len(distances) else False
    # A loss that parts while nothing else does may be what these tensors do to it.
    if alignment.loss_steps.size:
        is_shown = not parted.size or others
    else:
        is_shown = not others and not wandering.all()
    return wandering if is_shown else np.zeros_like(wandering)


def _walks(tensor: Floats) -> bool:
    """Whether two recordings of a tensor change by amounts that have little to do with each other, step by step."""
    known = np.isfinite(tensor[:, :, 0]).all(axis=0)
    one, other = np.diff(tensor[:, known], axis=1)
    if not len(one) or not one.any() or not other.any():
        return False
    updates, differences = (float(np.median(np.abs(changes).max(axis=1))) for changes in (one, one - other))
    return differences > _OTHER_UPDATE * updates


def stays_small(alignment: Alignment, losses: Floats, distances: Floats, step: int, limits: Tolerance) -> bool:
    """Whether no loss shows a difference, and tensors hardly leave the tolerance, and not before some steps."""
    is_early = int(np.searchsorted(alignment.steps, step)) < _FEW_STEPS
    within = bool((losses <= limits.loss).all()) and float(np.nanmax(distances, initial=0.0)) <= _NEARLY * limits.tensor
    return within and not is_early


def has_grown_slowly(alignment: Alignment, losses: Floats, distances: Floats, step: int) -> bool:
    """Whether the distances at a late step continue those before it, which began at rounding level."""
    for steps, series in ((alignment.steps, np.nanmax(distances, axis=0, initial=0.0)), (alignment.loss_steps, losses)):
        until = series[steps <= step]
        if until.size <= _LATE or not np.isfinite(until).all():
            if series.size:
                return False
            continue
        recent = float(until[-_LATE // 3 : -1].max())
        if until[-1] > _JUMP * recent:
            return False
    return True
