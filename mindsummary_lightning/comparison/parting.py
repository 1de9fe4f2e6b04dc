"""The first difference of two runs that are followed step by step, and what the records prove of it.

A class is said where it is proven: ``weights`` if tensors are apart after the first step by far more than updates lead,
and the others began alike; ``forward`` if the loss of a step differs and the weights before it do not; ``update`` if
tensors differ after a step and its loss does not. Where rounding can have grown to the difference, there is none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.comparison.alignment import Alignment, Side
from mindsummary_lightning.comparison.beginning import Beginning, relative_updates
from mindsummary_lightning.comparison.distances import Floats, Tolerance
from mindsummary_lightning.comparison.hints import structure
from mindsummary_lightning.comparison.result import DifferenceKind, FirstDifference, TensorDistance
from mindsummary_lightning.values.text import listed

_SAME_LOSS = 3e-6  # of losses of one forward pass on the same weights
_ROUNDING = 1e-7  # of one number
_CLEAN = 3e-7  # distance of tensors of one step that differ by rounding alone
# By how much rounding was seen to grow in a step and in the four that follow (ResNets, with and without mkldnn): what a
# difference makes jumps higher, or grows by the number of steps.
_FASTEST, _SLOW, _GROWS_ON, _LATER = 3e3, 10.0, 12.0, 4
_OTHER_UPDATES = 0.02  # of the updates: more than rounding makes of most of them in a step
_OTHER_BATCH = 0.3  # of the updates: more than weights do that have just parted
_EQUAL_UPDATES = 1e-3  # of the updates
_SHARE, _MOST = 0.01, 0.8  # of the distance of the losses: if most updates agree better, they are not of these losses
_NEARLY = 4.0  # times the tolerance that rounding in small biases reaches by and by
_WITNESSES = 2  # later losses
_WALK = 0.1  # of its updates: a tensor that walks freely


class Distances(NamedTuple):
    """Distances of two runs, and from which on they count.

    Attributes:
        losses: float64, shape ``(l,)``; zero if the losses of both are not of the same data.
        tensors: float64, shape ``(pairs, s)``; NaN where not recorded.
        loss_limits: as ``losses``.
        tensor_limits: as ``tensors``.
        tolerance: the limits before rounding was measured.
        has_losses: whether the losses of both are of the same data.
    """

    losses: Floats
    tensors: Floats
    loss_limits: Floats
    tensor_limits: Floats
    tolerance: Tolerance
    has_losses: bool = True

    @property
    def tolerances(self) -> str:
        """The limits in words."""
        name, loss, tensor, _ = self.tolerance
        limits = max(loss, self.loss_limits.max(initial=0.0)), max(tensor, self.tensor_limits.max(initial=0.0))
        measured = "" if limits == (loss, tensor) else ", or three times what two runs of a differ by"
        return f"tolerance {name}{measured}: loss {limits[0]:.2g}, tensors {limits[1]:.2g}"

    @property
    def far(self) -> NDArray[np.bool_]:
        """Where tensors are beyond their limits."""
        exceeding: NDArray[np.bool_] = self.tensors > self.tensor_limits
        return exceeding


def losses_of_shares(alignment: Alignment, found: Distances) -> tuple[int, float, float] | None:
    """A step whose losses differ while its updates do not, and how far both are apart, or ``None``."""
    losses = np.where(np.isfinite(found.losses) & (found.losses > found.loss_limits), found.losses, 0.0)
    if not losses.any() or not alignment.is_weight.any():
        return None
    agreeing = alignment.steps[found.far[alignment.is_weight].mean(axis=0) <= 1 - _MOST]
    losses[~np.isin(alignment.loss_steps, agreeing)] = 0.0
    if not losses.any():
        return None
    step, distance = int(alignment.loss_steps[losses.argmax()]), float(losses.max())
    updates = relative_updates(alignment, alignment.at(step))
    update = float(np.quantile(updates[np.isfinite(updates)], _MOST)) if np.isfinite(updates).any() else np.nan
    is_often = (found.losses > found.loss_limits).mean() > 0.5
    return (step, distance, update) if (update > 0 or is_often) and update <= _SHARE * distance else None


def wandering_tensors(alignment: Alignment, found: Distances) -> tuple[NDArray[np.bool_], float]:
    """Tensors that alone are apart, at once and in walks of their own, while losses and other tensors agree.

    A parameter whose true gradient is zero does so: Adam scales its rounding to whole steps.

    Returns:
        A mask of the tensors, and the step at which anything else parts, or infinity.
    """
    far = found.far & alignment.is_weight[:, None]
    parted = np.append(alignment.loss_steps[found.losses > found.loss_limits], np.inf)[0]
    shares = np.array([_share_of_walk(alignment, index, parted) for index in range(len(far))])
    walking: NDArray[np.bool_] = far.any(axis=1) & (shares > _WALK) & ~np.isinf(found.tensors).any(axis=1)
    others = (found.tensors > _NEARLY * found.tensor_limits)[alignment.is_weight & ~walking].any(axis=0)
    until = min(parted, np.append(alignment.steps[others], np.inf)[0])
    witnesses = alignment.loss_steps if found.losses.size and found.has_losses else alignment.steps
    for index in np.flatnonzero(walking).tolist():
        first = alignment.steps[far[index].argmax()]
        walking[index] = ((witnesses > first) & (witnesses < until)).sum() >= _WITNESSES
    return (np.zeros_like(walking) if walking.all() else walking), until


def _share_of_walk(alignment: Alignment, index: int, until: float) -> float:
    """How far the updates of a tensor are apart before a step, by their usual size; 0 if one run does not move it."""
    known = np.isfinite(alignment.tensors[:, index, :, 0]).all(axis=0) & (alignment.steps < until)
    one, other = np.diff(alignment.tensors[:, index, known], axis=1)
    if not one.any() or not other.any():
        return 0.0
    size = float(np.median(np.abs(one).max(axis=1)))
    return float(np.median(np.abs(one - other).max(axis=1))) / size if size else 0.0


def parting(
    a: Side,
    b: Side,
    alignment: Alignment,
    found: Distances,
    beginning: Beginning,
    wandering: NDArray[np.bool_],
    may_be_rounding: bool,
) -> tuple[FirstDifference | None, str]:
    """Where the runs part, if they do, and the sentence about it; a sentence alone if it may be rounding."""
    weights = alignment.is_weight & ~wandering
    counting = weights if alignment.is_weight.any() or found.losses.size else np.ones_like(weights)  # or gradients
    tensors = np.where(counting[:, None], np.nan_to_num(found.tensors, posinf=np.inf), 0.0)
    far, far_losses = tensors > found.tensor_limits, found.losses > found.loss_limits
    steps = np.union1d(alignment.steps[far.any(axis=0)], alignment.loss_steps[far_losses])
    if not steps.size:
        return None, ""
    step = int(steps[0])
    recorded = np.union1d(alignment.steps, alignment.loss_steps)
    after = int(recorded[recorded < step][-1]) if (recorded < step).any() else None
    column, loss = alignment.at(step), alignment.loss_at(step, found.losses) if found.has_losses else None
    before = max(float(tensors[:, alignment.steps < step].max(initial=0.0)),
                 float(found.losses[alignment.loss_steps < step].max(initial=0.0)))  # fmt: skip
    same_loss = _SAME_LOSS if after is None else 3 * max(before, _ROUNDING)
    is_forward = bool(far_losses[alignment.loss_steps == step].any())
    is_forward |= loss is not None and after is not None and before == 0 < same_loss < loss
    now = max(loss or 0.0, 0.0 if column is None else float(tensors[:, column].max(initial=0.0)))
    stays_small = not far_losses.any() and not (tensors > _NEARLY * found.tensor_limits).any()
    is_noise = _may_be_rounding(alignment, tensors[counting], column, after, is_forward, before, now)
    if is_noise and stays_small:
        return None, ""
    if is_noise and may_be_rounding:
        return None, (
            f"Up to {now:.1e} apart at step {step}, at most {before:.1e} before it ({found.tolerances}); whether "
            "rounding or a difference led there is not to be seen. A second run of a shows how far rounding leads: "
            "--same."
        )
    if is_forward and after is not None and _is_of_unmatched(a, b, alignment, column, after):
        text = f"The runs differ from step {after} on, first in the update of tensors that one of them alone recorded: "
        text += f"its loss and the compared tensors are the same, the losses of step {step} are {now:.1e} apart, "
        text += "and most updates of "
        first = FirstDifference(after, "update", alignment.loss_at(after, found.losses), (), None)
        return first, f"{text}that step agree ({found.tolerances})."
    kind: DifferenceKind | None = None
    if after is None and beginning.apart.size:
        kind = "weights"
    elif is_forward:
        kind = "forward" if after is None or _has_same_weights(a, b, alignment, column, step, after) else None
    elif loss is not None and loss <= same_loss:
        kind = "update"
    indices = [] if column is None else np.flatnonzero(found.far[:, column] & ~wandering).tolist()
    began_apart = beginning.apart.tolist() if kind == "weights" else []
    indices.sort(key=lambda index: (index not in began_apart, -found.tensors[index, column]))
    pairs = alignment.names.pairs
    distances = [TensorDistance(pairs[i].a, pairs[i].b, float(found.tensors[i, column])) for i in indices]
    first = FirstDifference(step, kind, loss, tuple(distances), after)
    return first, _sentence(first, found, [pairs[index].a for index in began_apart], is_forward)


def _may_be_rounding(
    alignment: Alignment,
    tensors: Floats,
    column: int | None,
    after: int | None,
    is_forward: bool,
    before: float,
    now: float,
) -> bool:
    """Whether a difference may be what an earlier one, below the tolerance, has become by rounding's growth."""
    if is_forward and after is None:
        return False
    if column is not None and (
        structure(alignment, column) or np.median(_shares_of_updates(alignment, column)) >= _OTHER_UPDATES
    ):
        return False
    middle = np.median(tensors, axis=0) if len(tensors) else np.zeros(alignment.steps.size)
    if after is None:  # most tensors are a little apart after the first step, and in no proportion
        return column is not None and middle[column] > _CLEAN
    if before == 0 or now > _FASTEST * before:
        return False
    begin = middle.size if column is None else column + is_forward
    jump = now / before
    if column and not is_forward:
        jump = min(jump, middle[column] / max(middle[column - 1], 1e-12))
    return jump <= _SLOW or begin + _LATER >= middle.size or bool(middle[begin + _LATER] >= _GROWS_ON * middle[begin])


def _shares_of_updates(alignment: Alignment, column: int) -> Floats:
    """How far updates of weights are apart, by their size; of the first step, by that of the next ones."""
    shares = relative_updates(alignment, column)
    if column == 0 and alignment.steps.size > 1:
        following = np.abs(alignment.tensors[:, :, 1] - alignment.tensors[:, :, 0]).max(axis=(0, 2))
        apart = np.abs(alignment.tensors[0, :, 0] - alignment.tensors[1, :, 0]).max(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = np.where(alignment.is_weight & (following > 0), apart / following, np.nan)
    known = shares[np.isfinite(shares)]
    return known if known.size else np.zeros(1)


def _has_same_weights(a: Side, b: Side, alignment: Alignment, column: int | None, step: int, after: int) -> bool:
    """Whether the weights before a step were the same: all were compared, or what follows is of other data."""
    before = alignment.at(after)
    if before is None or after != step - 1 or np.median(_shares_of_updates(alignment, before)) > _EQUAL_UPDATES:
        return False
    compared = int(alignment.is_weight.sum())
    if not any(alignment.unmatched_weights) and all(side.parameters in (None, compared) for side in (a, b)):
        return True
    return column is not None and bool(np.median(_shares_of_updates(alignment, column)) >= _OTHER_BATCH)


def _is_of_unmatched(a: Side, b: Side, alignment: Alignment, column: int | None, after: int) -> bool:
    """Whether weights that one run alone recorded parted in the first step: nothing else did, on the same data."""
    one, other = alignment.unmatched_weights
    same_count = a.parameters is not None and a.parameters == b.parameters
    return (
        alignment.at(after) == 0
        and column == 1
        and bool(one) != bool(other)
        and not same_count
        and bool(np.median(_shares_of_updates(alignment, column)) < _OTHER_BATCH)
    )


def _sentence(first: FirstDifference, found: Distances, began_apart: list[str], is_forward: bool) -> str:
    where = f"The runs differ from step {first.step} on"
    if first.after is None:
        where += " (the first that both recorded)"
    elif first.step - first.after > 1:
        where += f" (nothing was recorded between {first.after} and {first.step})"
    names = listed([tensor.a for tensor in first.tensors], 3)
    far = first.tensors[0].distance if first.tensors else 0.0
    losses = (
        f"the losses are {first.loss_distance:.1e} apart" if first.loss_distance is not None else "no loss is compared"
    )
    if first.kind == "weights":
        where = f"The runs began with other weights in {listed(began_apart, 3)}"
        what = (
            f": up to {far:.1e} apart after step {first.step}, farther than ten updates lead; the other large weights "
        )
        what += f"began alike, and {losses}"
    elif first.kind == "forward":
        known = "most large weights began alike" if first.after is None else "the weights before it agree"
        what = f", first in the forward pass, its data or the loss function: {losses}, and {known}"
    elif first.kind == "update":
        what = f", first in the update: {names} are up to {far:.1e} apart, the loss is the same"
    else:
        what = f": {losses}" if is_forward else f": {names} are up to {far:.1e} apart, {losses}"
        if first.loss_distance != np.inf:
            what += "; what was recorded does not show whether the forward pass, its data or an update differs"
    return f"{where}{what} ({found.tolerances})."
