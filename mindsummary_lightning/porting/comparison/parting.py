"""The first difference of two runs that are followed step by step, and what the records prove of it.

A class is said where it is proven: ``weights`` if tensors are apart after the first step by far
more than updates lead, and the others began alike; ``forward`` if the loss of a step differs and
the weights before it do not; ``update`` if tensors differ after a step and its loss does not. Where
rounding can have grown to the difference, there is none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.porting.comparison.alignment import Alignment
from mindsummary_lightning.porting.comparison.beginning import Beginning, update_shares
from mindsummary_lightning.porting.comparison.chain_parts import DifferenceKind
from mindsummary_lightning.porting.comparison.distances import (
    TOLERANCES,
    Distances,
    Floats,
    largest,
)
from mindsummary_lightning.porting.comparison.hints import loss_ratio, update_ratio
from mindsummary_lightning.porting.comparison.name_blocks import GRADIENT, is_bias
from mindsummary_lightning.porting.comparison.result import FirstDifference, TensorDistance
from mindsummary_lightning.porting.comparison.sides import LOSS, Side
from mindsummary_lightning.values.text import Phrase, listed

_SAME_LOSS = 3e-6  # of losses of one forward pass on the same weights
_ROUNDING = 1e-7  # of one number
_FEW = 0.25  # of the tensors
# distances of most tensors that rounding alone makes in one step are between these
_CLEAN, _LEAP = 3e-7, 0.1
# By how much rounding was seen to grow in a step and in the four that follow (ResNets, with and
# without mkldnn): what a difference makes jumps higher, or grows by the number of steps.
_FASTEST, _SLOW, _GROWS_ON, _LATER = 3e3, 10.0, 12.0, 4
_OTHER_UPDATES = 0.02  # of the updates: more than rounding makes of most of them in a step
_OTHER_BATCH = 0.3  # of the updates: more than weights do that have just parted
_OTHER_BEGINNING = 2.1  # of the updates: two steps of equal length may point apart, no more
_EQUAL_UPDATES = 1e-3  # of the updates
# of the distance of the losses: if most updates agree better, they are not of these losses
_SHARE, _MOST = 0.01, 0.8
_NEARLY = 4.0  # times the tolerance that rounding in small biases reaches by and by
_WITNESSES = 2  # later steps
_WALK = 0.1  # of its updates: a tensor that walks freely


def losses_of_shares(alignment: Alignment, found: Distances) -> tuple[int, float, float] | None:
    """A step whose losses differ while its updates do not, and how far both are apart, or ``None``."""
    are_near = found.far[alignment.is_weight].sum(axis=0) <= (1 - _MOST) * alignment.is_weight.sum()
    agreeing = alignment.steps[1:][are_near[1:]]  # of the first step the whole update is not known
    counts = (
        np.isfinite(found.losses)
        & (found.losses > found.loss_limits)
        & np.isin(alignment.loss_steps, agreeing)
    )
    if not counts.any():
        return None
    place = int(np.where(counts, found.losses, 0.0).argmax())
    step, distance = int(alignment.loss_steps[place]), float(found.losses[place])
    shares = update_shares(alignment, alignment.at(step))
    update = float(np.quantile(shares, _MOST)) if shares.size else np.inf
    is_often = (found.losses > found.loss_limits).mean() > 0.5
    return (
        (step, distance, update)
        if (update > 0 or is_often) and update <= _SHARE * distance
        else None
    )


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
    others = (found.tensors > _NEARLY * found.tensor_limits)[alignment.is_weight & ~walking].any(
        axis=0
    )
    until = min(parted, np.append(alignment.steps[others], np.inf)[0])
    first = alignment.steps[far.argmax(axis=1)] if far.size else np.zeros(len(far))
    walking &= ((alignment.steps > first[:, None]) & (alignment.steps < until)).sum(
        axis=1
    ) >= _WITNESSES
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
    # or gradients
    counting = ~walking & (are_weights if are_weights.any() or found.losses.size else True)
    tensors = np.where(counting[:, None], np.nan_to_num(found.tensors, posinf=np.inf), 0.0)
    far, far_losses = tensors > found.tensor_limits, found.losses > found.loss_limits
    differing = np.union1d(alignment.steps[far.any(axis=0)], alignment.loss_steps[far_losses])
    if not differing.size:
        return None, ""
    step = int(differing[0])
    at = _Parting(sides, alignment, found, tensors, counting, step)
    if at.may_be_rounding:
        if not far_losses.any() and not (tensors > _NEARLY * found.tensor_limits).any():
            return None, ""
        if found.tolerance.name in TOLERANCES:
            return None, Phrase(
                "Up to {:.1e} apart at step {} ({}); whether rounding or a difference led there is not to be seen. A "
                "second run of a shows how far rounding leads: --same.",
                at.distance, step, found.tolerances,
            )  # fmt: skip
    if at.after is not None and at.is_of_tensors_alone():
        text = Phrase(
            "The runs differ from step {} on, first in the update of tensors that one run alone recorded: its loss and "
            "the compared tensors are the same, the losses of step {} are {:.1e} apart, and most updates of that step "
            "agree ({}).",
            at.after, step, at.distance, found.tolerances,
        )  # fmt: skip
        return FirstDifference(
            at.after, "update", alignment.loss_at(at.after, found.losses), (), None
        ), text
    is_weights = at.after is None and bool(beginning.apart.size)
    apart = beginning.apart.tolist() if is_weights else []
    indices = [] if at.column is None else np.flatnonzero(far[:, at.column]).tolist()
    indices.sort(key=lambda index: (index not in apart, -tensors[index, at.column]))
    pairs = alignment.names.pairs
    distances = tuple(
        TensorDistance(pairs[i].a, pairs[i].b, float(tensors[i, at.column])) for i in indices
    )
    seen = [each for each in (at.after, *agreed) if each is not None and each < step]
    kind = "weights" if is_weights else at.kind()
    first = FirstDifference(step, kind, at.loss, distances, max(seen, default=None))
    return first, Phrase(
        "{} ({}).", _sentence(first, [pairs[i].a for i in apart], at.is_forward), found.tolerances
    )


class _Parting:
    """The first step at which runs are apart, and what the records prove of it.

    Attributes:
        after: the last step before it of which anything is known, or ``None``.
        column: the place of its tensors, or ``None``.
        loss: how far its losses are apart, or ``None``.
        distance: how far losses and tensors are apart at most.
        is_forward: whether its losses are.
        may_be_rounding: whether it may be what an earlier difference, below the tolerance, has
            become.
    """

    def __init__(
        self, sides: tuple[Side, Side], alignment: Alignment, found: Distances, tensors: Floats,
        counting: NDArray[np.bool_], step: int,
    ) -> None:  # fmt: skip
        self._sides, self._alignment, self._found, self._tensors, self._step = (
            sides,
            alignment,
            found,
            tensors,
            step,
        )
        steps, losses = alignment.steps, alignment.loss_steps
        self.after = after = max(
            (x for x in (*steps.tolist(), *losses.tolist()) if x < step), default=None
        )
        self.column, self.loss = alignment.at(step), alignment.loss_at(step, found.losses)
        self._before = max(
            largest(x) or 0.0 for x in (tensors[:, steps < step], found.losses[losses < step])
        )
        here = 0.0 if self.column is None else float(tensors[:, self.column].max(initial=0.0))
        self.distance = max(self.loss or 0.0, here)
        self._same_loss = _SAME_LOSS if after is None else 3 * max(self._before, _ROUNDING)
        rises = (
            self.loss is not None
            and after is not None
            and self._before == 0 < self._same_loss < self.loss
        )
        self.is_forward = rises or bool((found.losses > found.loss_limits)[losses == step].any())
        self._parameters = [side.parameters for side in sides]
        self._has_unmatched = any(
            not name.endswith(GRADIENT) for names in alignment.names[1:] for name in names
        )
        self._shares = update_shares(alignment, self.column)  # how far its updates are apart
        self.may_be_rounding = self._may_be_rounding(tensors[counting])

    def kind(self) -> DifferenceKind | None:
        """The class of the difference, if it is proven, for runs that began with equal weights."""
        alignment, after, is_forward = self._alignment, self.after, self.is_forward
        may_come_earlier = alignment.loss_tag != LOSS or any(
            side.may_update_before_its_loss for side in self._sides
        )
        if self.may_be_rounding or (is_forward and may_come_earlier):
            return None
        if not is_forward:
            is_new = after is None and bool(np.isinf(self._shares).any())
            return (
                "update"
                if not is_new and self.loss is not None and self.loss <= self._same_loss
                else None
            )
        is_all = not self._has_unmatched and {*self._parameters} <= {
            None,
            int(alignment.is_weight.sum()),
        }
        if after is None:
            shares = update_shares(alignment, 0) * np.diff(alignment.steps[:2])
            began_equal = loss_ratio(alignment) or (
                shares.size and np.median(shares) < _OTHER_BEGINNING
            )
            return "forward" if began_equal and self._step <= 1 and is_all else None
        if after != self._step - 1 or alignment.at(after) is None:
            return None
        before_it = update_shares(alignment, alignment.at(after))
        is_equal = not (before_it.size and np.median(before_it) > _EQUAL_UPDATES)
        return "forward" if is_equal and (is_all or self._is_of_another_batch) else None

    @property
    def _is_of_another_batch(self) -> bool:
        return bool(self._shares.size and np.median(self._shares) >= _OTHER_BATCH)

    def is_of_tensors_alone(self) -> bool:
        """Whether nothing compared parted in the first step, though the second, of the same data, moves other tensors.

        What is left was not compared.
        """
        may_be = self._parameters[0] != self._parameters[1] or self._parameters[0] is None
        is_second = (
            self.is_forward
            and self.column == 1
            and self._shares.size
            and not self._is_of_another_batch
        )
        names = zip(self._sides, self._alignment.names[1:], strict=True)
        tensors = [
            side.tensors[name]
            for side, alone in names
            for name in alone
            if not name.endswith(GRADIENT)
        ]
        columns = [column for x in tensors for column in (x.minimum, x.maximum, x.mean)]
        return bool(
            may_be and is_second and any((column[:1] != column[1:2]).any() for column in columns)
        )

    def _may_be_rounding(self, tensors: Floats) -> bool:
        alignment, found, column, before = self._alignment, self._found, self.column, self._before
        shares, is_forward = self._shares, self.is_forward
        # whose rounding makes most updates differ
        is_coarse = found.tolerance.name in ("bfloat16", "float16")
        if update_ratio(alignment, column) or (
            not is_coarse and shares.size and np.median(shares) >= _OTHER_UPDATES
        ):
            return False
        if column:
            moves = (np.diff(alignment.tensors[:, :, column - 1 : column + 1], axis=2) != 0).any(
                axis=(2, 3)
            )
            if ((moves[0] != moves[1]) & (self._tensors > found.tensor_limits)[:, column]).any():
                return False  # a tensor moves in one run alone
        middle = np.median(tensors, axis=0) if len(tensors) else np.zeros(alignment.steps.size)
        if column is not None and not is_forward and middle[column] > 0 and not self._has_unmatched:
            apart = np.flatnonzero((self._tensors > found.tensor_limits)[:, column])
            if all(is_bias(alignment.names.pairs[index].a) for index in apart.tolist()):
                # their gradient may be nothing but rounding, as in attention and before a
                # normalization
                return True
        if self.after is None:  # nearly all tensors are a little apart after the first step
            few = (
                0.0
                if is_forward or column is None
                else float(np.quantile(tensors[:, column], _FEW))
            )
            return _CLEAN < few < _LEAP
        # steps of which nothing is known
        gap = 0 if column is not None else min(self._step - self.after - 1, _LATER)
        # which a loss shows later than weights do
        before = max(before, _ROUNDING) if gap else before
        if before == 0 or self.distance > max(
            _FASTEST * before, min(_LEAP, _FASTEST * before * _SLOW**gap)
        ):
            return False
        begin = middle.size if column is None else column + is_forward
        jump = self.distance / before
        if column and not is_forward:
            jump = min(jump, middle[column] / max(middle[column - 1], 1e-12))
        is_at_end = jump <= _SLOW or begin + _LATER >= middle.size
        return is_at_end or bool(middle[begin + _LATER] >= _GROWS_ON * middle[begin])


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
        return Phrase(
            "{}, first in the forward pass, its data or the loss function{}: {}",
            where,
            begun,
            losses,
        )
    if first.kind == "update":
        return Phrase(
            "{}, first in the update{}: {} up to {:.1e} apart, the loss is the same",
            where,
            begun,
            names,
            far,
        )
    if not is_forward:
        losses = Phrase("{} up to {:.1e} apart, {}", names, far, losses)
    return Phrase(
        "{}: {}; what was recorded does not show which part of the training differs", where, losses
    )
