"""The first difference of two runs that are followed step by step, and what the records prove of it.

A class is said where it is proven: ``weights`` if tensors are apart after the first step by far more than updates lead,
and the others began alike; ``forward`` if the loss of a step differs and the weights before it do not; ``update`` if
tensors differ after a step and its loss does not. Where rounding can have grown to the difference, there is none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.comparison.alignment import Alignment
from mindsummary_lightning.comparison.beginning import Beginning, update_shares
from mindsummary_lightning.comparison.chain_parts import DifferenceKind
from mindsummary_lightning.comparison.distances import TOLERANCES, Distances, Floats, largest
from mindsummary_lightning.comparison.hints import loss_ratio, update_ratio
from mindsummary_lightning.comparison.name_blocks import GRADIENT, is_bias
from mindsummary_lightning.comparison.result import FirstDifference, TensorDistance
from mindsummary_lightning.comparison.sides import LOSS, Side
from mindsummary_lightning.values.text import Phrase, listed

_SAME_LOSS = 3e-6  # of losses of one forward pass on the same weights
_ROUNDING = 1e-7  # of one number
_FEW = 0.25  # of the tensors
_CLEAN, _LEAP = 3e-7, 0.1  # distances of most tensors that rounding alone makes in one step are between these
# By how much rounding was seen to grow in a step and in the four that follow (ResNets, with and without mkldnn): what a
# difference makes jumps higher, or grows by the number of steps.
_FASTEST, _SLOW, _GROWS_ON, _LATER = 3e3, 10.0, 12.0, 4
_OTHER_UPDATES = 0.02  # of the updates: more than rounding makes of most of them in a step
_OTHER_BATCH = 0.3  # of the updates: more than weights do that have just parted
_OTHER_BEGINNING = 2.1  # of the updates: two steps of equal length may point apart, no more
_EQUAL_UPDATES = 1e-3  # of the updates
_SHARE, _MOST = 0.01, 0.8  # of the distance of the losses: if most updates agree better, they are not of these losses
_NEARLY = 4.0  # times the tolerance that rounding in small biases reaches by and by
_WITNESSES = 2  # later steps
_WALK = 0.1  # of its updates: a tensor that walks freely


def losses_of_shares(alignment: Alignment, found: Distances) -> tuple[int, float, float] | None:
    """A step whose losses differ while its updates do not, and how far both are apart, or ``None``."""
    are_near = found.far[alignment.is_weight].sum(axis=0) <= (1 - _MOST) * alignment.is_weight.sum()
    agreeing = alignment.steps[1:][are_near[1:]]  # of the first step the whole update is not known
    counts = np.isfinite(found.losses) & (found.losses > found.loss_limits) & np.isin(alignment.loss_steps, agreeing)
    if not counts.any():
        return None
    place = int(np.where(counts, found.losses, 0.0).argmax())
    step, distance = int(alignment.loss_steps[place]), float(found.losses[place])
    shares = update_shares(alignment, alignment.at(step))
    update = float(np.quantile(shares, _MOST)) if shares.size else np.inf
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
    walking = np.logical_and(far.any(axis=1), ~np.isinf(found.tensors).any(axis=1))
    for index in np.flatnonzero(walking).tolist():
        numbers = alignment.tensors[:, index, alignment.steps < parted]
        walking[index] = is_bias(alignment.names.pairs[index].a) and _walks(numbers)
    others = (found.tensors > _NEARLY * found.tensor_limits)[alignment.is_weight & ~walking].any(axis=0)
    until = min(parted, np.append(alignment.steps[others], np.inf)[0])
    first = alignment.steps[far.argmax(axis=1)] if far.size else np.zeros(len(far))
    walking &= ((alignment.steps > first[:, None]) & (alignment.steps < until)).sum(axis=1) >= _WITNESSES
    return (np.zeros_like(walking) if walking.all() else walking), until


def _walks(numbers: Floats) -> bool:
    """Whether the updates of a tensor are apart by more than a share of their usual size, and both runs move it."""
    one, other = np.diff(numbers[:, np.isfinite(numbers).all(axis=(0, 2))], axis=1)
    apart, usual = (np.abs(updates).max(axis=1) for updates in (one - other, one))
    return bool(other.any() and np.median(apart) > _WALK * np.median(usual) > 0)


def parting(
    sides: tuple[Side, Side], alignment: Alignment, found: Distances, beginning: Beginning, walking: NDArray[np.bool_],
    agreed: Sequence[int],
) -> tuple[FirstDifference | None, str]:  # fmt: skip
    """Where the runs part, if they do, and the sentence about it; a sentence alone if it may be rounding.

    Of the steps ``agreed`` it is known from elsewhere that they agree.
    """
    are_weights = alignment.is_weight
    counting = ~walking & (are_weights if are_weights.any() or found.losses.size else True)  # or gradients
    tensors = np.where(counting[:, None], np.nan_to_num(found.tensors, posinf=np.inf), 0.0)
    far, far_losses = tensors > found.tensor_limits, found.losses > found.loss_limits
    differing = np.union1d(alignment.steps[far.any(axis=0)], alignment.loss_steps[far_losses])
    if not differing.size:
        return None, ""
    step = int(differing[0])
    after = max((x for x in (*alignment.steps.tolist(), *alignment.loss_steps.tolist()) if x < step), default=None)
    column, loss = alignment.at(step), alignment.loss_at(step, found.losses)
    before = max(largest(tensors[:, alignment.steps < step]) or 0.0,
                 largest(found.losses[alignment.loss_steps < step]) or 0.0)  # fmt: skip
    now = max(loss or 0.0, 0.0 if column is None else float(tensors[:, column].max(initial=0.0)))
    same_loss = _SAME_LOSS if after is None else 3 * max(before, _ROUNDING)
    is_forward = bool(far_losses[alignment.loss_steps == step].any())
    is_forward |= loss is not None and after is not None and before == 0 < same_loss < loss
    may_be_rounding = _may_be_rounding(alignment, found, tensors, counting, after, step, is_forward, before, now)
    if may_be_rounding:
        if not far_losses.any() and not (tensors > _NEARLY * found.tensor_limits).any():
            return None, ""
        if found.tolerance.name in TOLERANCES:
            return None, Phrase(
                "Up to {:.1e} apart at step {} ({}); whether rounding or a difference led there is not to be seen. A "
                "second run of a shows how far rounding leads: --same.",
                now, step, found.tolerances,
            )  # fmt: skip
    parameters = [side.parameters for side in sides]
    shares = update_shares(alignment, column)
    first_shares = update_shares(alignment, 0) * np.diff(alignment.steps[:2])
    began_equal = loss_ratio(alignment) or (first_shares.size and np.median(first_shares) < _OTHER_BEGINNING)
    is_other = bool(shares.size and np.median(shares) >= _OTHER_BATCH)
    # Nothing compared parted in the first step, and the second is of the same data: what is left was not compared.
    may_be_alone = (parameters[0] != parameters[1] or parameters[0] is None) and _moves_alone(sides, alignment)
    if may_be_alone and is_forward and after is not None and column == 1 and shares.size and not is_other:
        text = Phrase(
            "The runs differ from step {} on, first in the update of tensors that one run alone recorded: its loss and "
            "the compared tensors are the same, the losses of step {} are {:.1e} apart, and most updates of that step "
            "agree ({}).",
            after, step, now, found.tolerances,
        )  # fmt: skip
        return FirstDifference(after, "update", alignment.loss_at(after, found.losses), (), None), text
    is_all = not _has_unmatched(alignment) and {*parameters} <= {None, int(alignment.is_weight.sum())}
    kind: DifferenceKind | None = None
    if after is None and beginning.apart.size:
        kind = "weights"
    elif (
        may_be_rounding  # or an update may have come before the loss
        or (is_forward and (alignment.loss_tag != LOSS or any(side.may_update_before_its_loss for side in sides)))
        or (after is None and (not began_equal if is_forward else np.isinf(shares).any()))
    ):
        kind = None
    elif is_forward and after is None:
        kind = "forward" if step <= 1 and is_all else None
    elif is_forward and after == step - 1 and alignment.at(after) is not None:
        before_it = update_shares(alignment, alignment.at(after))
        is_equal = not (before_it.size and np.median(before_it) > _EQUAL_UPDATES)
        kind = "forward" if is_equal and (is_all or is_other) else None
    elif not is_forward and loss is not None and loss <= same_loss:
        kind = "update"
    apart = beginning.apart.tolist() if kind == "weights" else []
    indices = [] if column is None else np.flatnonzero(far[:, column]).tolist()
    indices.sort(key=lambda index: (index not in apart, -tensors[index, column]))
    pairs = alignment.names.pairs
    distances = tuple(TensorDistance(pairs[i].a, pairs[i].b, float(tensors[i, column])) for i in indices)
    seen = [each for each in (after, *agreed) if each is not None and each < step]
    first = FirstDifference(step, kind, loss, distances, max(seen, default=None))
    return first, Phrase("{} ({}).", _sentence(first, [pairs[i].a for i in apart], is_forward), found.tolerances)


def _moves_alone(sides: tuple[Side, Side], alignment: Alignment) -> bool:
    """Whether the second step moves tensors that one run alone recorded."""
    names = zip(sides, alignment.names[1:], strict=True)
    tensors = [side.tensors[name] for side, alone in names for name in alone if not name.endswith(GRADIENT)]
    return any((column[:1] != column[1:2]).any() for x in tensors for column in (x.minimum, x.maximum, x.mean))


def _has_unmatched(alignment: Alignment) -> bool:
    """Whether one run alone recorded a tensor that is not a gradient."""
    return any(not name.endswith(GRADIENT) for names in alignment.names[1:] for name in names)


def _may_be_rounding(
    alignment: Alignment, found: Distances, distances: Floats, counting: NDArray[np.bool_], after: int | None,
    step: int, is_forward: bool, before: float, now: float,
) -> bool:  # fmt: skip
    """Whether a difference may be what an earlier one, below the tolerance, has become by rounding's growth."""
    column, tensors = alignment.at(step), distances[counting]
    shares = update_shares(alignment, column)
    is_coarse = found.tolerance.name in ("bfloat16", "float16")  # whose rounding makes most updates differ
    if update_ratio(alignment, column) or (not is_coarse and shares.size and np.median(shares) >= _OTHER_UPDATES):
        return False
    middle = np.median(tensors, axis=0) if len(tensors) else np.zeros(alignment.steps.size)
    if column is not None and not is_forward and middle[column] > 0 and not _has_unmatched(alignment):
        apart = np.flatnonzero((distances > found.tensor_limits)[:, column])
        if all(is_bias(alignment.names.pairs[index].a) for index in apart.tolist()):
            return True  # their gradient may be nothing but rounding, as in attention and before a normalization
    if after is None:  # nearly all tensors are a little apart after the first step
        return not is_forward and column is not None and bool(_CLEAN < np.quantile(tensors[:, column], _FEW) < _LEAP)
    gap = 0 if column is not None else min(step - after - 1, _LATER)  # steps of which nothing is known
    before = max(before, _ROUNDING) if gap else before  # which a loss shows later than weights do
    if before == 0 or now > max(_FASTEST * before, min(_LEAP, _FASTEST * before * _SLOW**gap)):
        return False
    begin = middle.size if column is None else column + is_forward
    jump = now / before
    if column and not is_forward:
        jump = min(jump, middle[column] / max(middle[column - 1], 1e-12))
    return jump <= _SLOW or begin + _LATER >= middle.size or bool(middle[begin + _LATER] >= _GROWS_ON * middle[begin])


def _sentence(first: FirstDifference, began_apart: list[str], is_forward: bool) -> Phrase:
    names = listed([tensor.a for tensor in first.tensors], 3)
    far = first.tensors[0].distance if first.tensors else 0.0
    losses = Phrase("no training loss of that step is compared")
    if first.loss_distance is not None:
        losses = Phrase("the losses are {:.1e} apart", first.loss_distance)
    if first.kind == "weights":
        return Phrase(
            "The runs began with other weights in {}: up to {:.1e} apart after step {}, farther than ten updates "
            "lead; {}", listed(began_apart, 3), far, first.step, losses,
        )  # fmt: skip
    where = Phrase("The runs differ from step {} on", first.step)
    begun = Phrase(" or weights changed after step {}, up to which they agree", first.after)
    if first.after is None:
        begun = Phrase(" or some weights that began otherwise")
        where = Phrase("{} (the first that both recorded)", where)
    elif first.step - first.after > 1:
        where = Phrase("{} (up to step {} they agree)", where, first.after)
    if first.kind == "forward":
        return Phrase("{}, first in the forward pass, its data or the loss function{}: {}", where, begun, losses)
    if first.kind == "update":
        return Phrase(
            "{}, first in the update{}: {} up to {:.1e} apart, the loss is the same", where, begun, names, far
        )
    if not is_forward:
        losses = Phrase("{} up to {:.1e} apart, {}", names, far, losses)
    return Phrase("{}: {}; what was recorded does not show which part of the training differs", where, losses)
