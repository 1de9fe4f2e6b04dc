"""Two runs laid side by side: the steps and tensors that both recorded, and the settings in which they differ."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.porting.comparison.distances import (
    Floats,
    largest_first,
    loss_distances,
    tensor_distances,
)
from mindsummary_lightning.porting.comparison.name_blocks import GRADIENT, Pair, TensorName
from mindsummary_lightning.porting.comparison.names import (
    NameMatch,
    check_names,
    equal_names,
    match_names,
)
from mindsummary_lightning.porting.comparison.sides import LOSS, STATISTICS, Side, magnitudes
from mindsummary_lightning.reading.run_numbers import HistogramStatistics

# the first losses, by which steps that are counted otherwise are found
_WITNESSES, _SAME_LOSS = 2, 1e-5
_NO_LOSS = re.compile(r"val|test|eval|epoch")


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Two runs by common steps.

    Attributes:
        loss_tag: the scalar that is compared as loss, two tags if they are not equal; ``None``
            without one, where one may hold means over epochs, and where tensors can be compared and
            the runs had other numbers of processes.
        loss_steps: int64, shape ``(l,)``.
        losses: float64, shape ``(2, l)``.
        names: tensors, matched.
        elements: how many each matched tensor has; int64, shape ``(pairs,)``.
        steps: steps at which any matched tensor was recorded by both; int64, shape ``(s,)``.
        tensors: minimum, maximum and mean; float64, shape ``(2, pairs, s, 3)``, NaN where one did
            not record it.
        nonfinite: counts of NaN, +inf and -inf; int64, shape ``(2, pairs, s, 3)``.
    """

    loss_tag: str | None
    loss_steps: NDArray[np.int64]
    losses: Floats
    names: NameMatch
    elements: NDArray[np.int64]
    steps: NDArray[np.int64]
    tensors: Floats
    nonfinite: NDArray[np.int64]

    @property
    def is_weight(self) -> NDArray[np.bool_]:
        """Of each matched tensor whether it is no gradient."""
        return np.array([not pair.a.endswith(GRADIENT) for pair in self.names.pairs], np.bool_)

    def at(self, step: int) -> int | None:
        """The place of a step among those of the tensors."""
        place = int(np.searchsorted(self.steps, step))
        return place if place < self.steps.size and self.steps[place] == step else None

    def loss_at(self, step: int, distances: Floats) -> float | None:
        """The distance of the losses at a step."""
        found = distances[self.loss_steps == step]
        return float(found[0]) if found.size else None


def counted_alike(a: Side, b: Side) -> tuple[tuple[Side, Side], int]:
    """The runs, the steps of the second moved by one if only so its first losses are those of the first, and by what.

    Some programs count steps from zero, some from one; what a run recorded with other counts is not
    moved.
    """
    tags = _loss_tags(a.scalars, b.scalars)
    for shift in (0, 1, -1) if tags else ():
        tensors, starts = (
            b.tensors,
            [min((int(one.steps[0]) for one in x.tensors.values()), default=0) for x in (a, b)],
        )
        if shift and starts[0] - starts[1] == shift:
            tensors = {name: replace(one, steps=one.steps + shift) for name, one in tensors.items()}
        loss = b.scalars[tags[1]]
        moved = replace(
            b,
            tensors=tensors,
            scalars=b.scalars | {tags[1]: replace(loss, steps=loss.steps + shift)},
        )
        losses = _common_series(a, moved, *tags)[1][:, :_WITNESSES]
        agree = loss_distances(*losses) <= _SAME_LOSS
        if agree.size == _WITNESSES and (agree.all() if shift else agree.any()):
            return (a, moved), shift
    return (a, b), 0


def align(a: Side, b: Side, names: Mapping[str, str] | None = None) -> Alignment:
    """Lay two runs side by side.

    Raises:
        ValueError: ``names`` does not fit the runs.
    """
    check_names(names or {}, a.elements, b.elements)
    begin = max(
        (int(one.steps[0]) for side in (a, b) for one in [*side.tensors.values()][:1]), default=0
    )
    match = match_names(_tensor_names(a.tensors, begin), _tensor_names(b.tensors, begin), names)
    done = {pair.a for pair in match.pairs}, {pair.b for pair in match.pairs}
    others = [magnitudes(side.table, names) for side, names in zip((a, b), done, strict=True)]
    # Only what both have: what one run alone recorded so says nothing of the other's optimizer.
    of_both = [
        Pair(x, y, "equal")
        for x, y in equal_names(*others)
        if others[0][x].count[0] == others[1][y].count[0]
    ]
    shown = {pair.a for pair in of_both}, {pair.b for pair in of_both}
    left = (
        (x for x in ones if x + STATISTICS not in there)
        for ones, there in zip(match[1:], shown, strict=True)
    )
    match = NameMatch((*match.pairs, *of_both), *map(tuple, left))
    tags = () if match.pairs and have_other_shares(a, b) else _loss_tags(a.scalars, b.scalars)
    loss_steps, losses = (
        _common_series(a, b, *tags) if tags else (np.empty(0, np.int64), np.empty((2, 0)))
    )
    gaps = {
        np.diff(x.scalars[tag].steps).min(initial=2**31)
        for x, tag in zip((a, b), tags, strict=False)
    }
    if (
        len(gaps) > 1
        and {*tags} != {LOSS}
        and not (loss_distances(*losses)[:1] <= _SAME_LOSS).any()
    ):
        # of which one may be means over epochs
        tags, loss_steps, losses = (), loss_steps[:0], losses[:, :0]
    known = {**a.tensors, **others[0]}, {**b.tensors, **others[1]}
    pairs = [(known[0][pair.a], known[1][pair.b]) for pair in match.pairs]
    elements = np.array([one.count[0] for one, _ in pairs], np.int64)
    tag = " = ".join(dict.fromkeys(tags)) or None
    return Alignment(tag, loss_steps, losses, match, elements, *_side_by_side(pairs))


def _side_by_side(
    pairs: list[tuple[HistogramStatistics, HistogramStatistics]],
) -> tuple[NDArray[np.int64], Floats, NDArray[np.int64]]:
    """Steps, numbers and counts of what is not finite; see :class:`Alignment`."""
    common = [np.intersect1d(one.steps, other.steps, assume_unique=True) for one, other in pairs]
    steps = np.unique(np.concatenate(common)) if common else np.empty(0, np.int64)
    tensors = np.full((2, len(pairs), steps.size, 3), np.nan)
    nonfinite = np.zeros((2, len(pairs), steps.size, 3), np.int64)
    for index, (pair, shared) in enumerate(zip(pairs, common, strict=True)):
        at = np.searchsorted(steps, shared)
        for side, statistics in enumerate(pair):
            chosen = np.searchsorted(statistics.steps, shared)
            for column, name in enumerate(("minimum", "maximum", "mean")):
                tensors[side, index, at, column] = getattr(statistics, name)[chosen]
            for column, name in enumerate(("nan_count", "pos_inf_count", "neg_inf_count")):
                counts = getattr(statistics, name)[chosen]
                if counts.any():  # memory that is never written to costs nothing
                    nonfinite[side, index, at, column] = counts
    return steps, tensors, nonfinite


def whole_distances(a: Side, b: Side) -> dict[tuple[str, str], dict[int, float]]:
    """Distances of tensors that both recorded whole, by their names and common steps; infinite if sizes differ."""
    found = {}
    for one, other in equal_names(a.whole, b.whole):
        steps, tensors, nonfinite = _side_by_side([(a.whole[one], b.whole[other])])
        if steps.size:
            sizes = [
                side.count[np.searchsorted(side.steps, steps)]
                for side in (a.whole[one], b.whole[other])
            ]
            is_other = (nonfinite[0] != nonfinite[1]).any(axis=2)[0] | (sizes[0] != sizes[1])
            far = np.where(is_other, np.inf, tensor_distances(*tensors)[0])
            found[one, other] = dict(zip(steps.tolist(), far.tolist(), strict=True))
    return found


def have_other_shares(a: Side, b: Side) -> bool:
    """Whether the runs had other numbers of processes: each recorded the loss of its own share of a batch."""
    one, other = a.settings.get("device_num"), b.settings.get("device_num")
    return one is not None and other is not None and one != other


def setting_differences(a: Side, b: Side) -> dict[str, tuple[Any, Any]]:
    """Settings that both runs state and state differently."""
    both = {name: (a.settings[name], b.settings[name]) for name in a.settings if name in b.settings}
    return {name: (one, other) for name, (one, other) in both.items() if not _same(one, other)}


def largest_scalar_differences(a: Side, b: Side) -> dict[str, float]:
    """For every other scalar of both runs the largest difference over its range, the greatest first."""
    differences = {}
    for tag in a.scalars.keys() & b.scalars.keys() - {LOSS}:
        numbers = _common_series(a, b, tag, tag)[1]
        one, other = numbers[:, np.isfinite(numbers).all(axis=0)]
        if one.size:
            differences[tag] = float(np.abs(one - other).max()) / (
                float(np.abs([one, other]).max()) or 1.0
            )
    return largest_first(differences)


def _tensor_names(tensors: Mapping[str, HistogramStatistics], begin: int) -> list[TensorName]:
    names = []
    for name, recorded in tensors.items():
        at = min(int(np.searchsorted(recorded.steps, begin)), len(recorded) - 1)
        first = tuple(
            float(column[at]) for column in (recorded.minimum, recorded.maximum, recorded.mean)
        )
        names.append(TensorName(name, int(recorded.count[0]), first))
    return names


def _loss_tags(*runs: Iterable[str]) -> tuple[str, ...]:
    """The training loss in both: ``loss/auto``, one tag, or the only ones that are equal but for their signs."""
    one, other = (
        [tag for tag in run if "loss" in tag.lower() and not _NO_LOSS.search(tag.lower())]
        for run in runs
    )
    common = sorted((tag for tag in one if tag in other), key=lambda tag: tag != LOSS)
    if common:
        return (common[0],) * 2
    # without signs and the words that say no more than that it is of training
    plain = [
        {re.sub(r"[^a-z]|auto|step|train(ing)?", "", tag.lower()): tag for tag in tags}
        for tags in (one, other)
    ]
    return next(((plain[0][tag], plain[1][tag]) for tag in plain[0] if tag in plain[1]), ())


def _common_series(a: Side, b: Side, tag_a: str, tag_b: str) -> tuple[NDArray[np.int64], Floats]:
    one, other = a.scalars[tag_a], b.scalars[tag_b]
    steps, at_one, at_other = np.intersect1d(
        one.steps, other.steps, assume_unique=True, return_indices=True
    )
    return steps, np.stack([one.values[at_one], other.values[at_other]]).astype(np.float64)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        with contextlib.suppress(TypeError, ValueError):
            return bool(np.float32(one) == np.float32(other))
    return bool(one == other)
