"""``Alignment``: the common steps, losses and tensors of two runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.porting.comparison.distances import Floats, loss_distances
from mindsummary_lightning.porting.comparison.loss_tags import (
    EMPTY_SERIES,
    CommonSeries,
    LossTags,
    common_series,
    loss_tags,
    may_be_an_epoch_mean,
)
from mindsummary_lightning.porting.comparison.matching.given_names import check_names
from mindsummary_lightning.porting.comparison.matching.match import NameMatch, match_names
from mindsummary_lightning.porting.comparison.matching.names import equal_names
from mindsummary_lightning.porting.comparison.matching.tensor_names import (
    GRADIENT,
    Pair,
    TensorName,
    names_in_baseline,
    names_in_candidate,
)
from mindsummary_lightning.porting.comparison.run_data import (
    STATISTICS,
    RunData,
    statistics_tensors,
)
from mindsummary_lightning.porting.comparison.tolerance_table import TOLERANCES
from mindsummary_lightning.reading.run_numbers import HistogramStatistics

_WITNESSES = 2  # first losses that must agree before the steps of a run are moved by one


class TensorSeries(NamedTuple):
    """Statistics of the matched tensors at the steps that both runs recorded.

    Attributes:
        steps: int64, shape ``(s,)``.
        values: minimum, maximum and mean; float64, shape ``(2, pairs, s, 3)``, NaN where a run did
            not record the tensor.
        nonfinite: counts of NaN, +inf and -inf; int64, shape ``(2, pairs, s, 3)``.
    """

    steps: NDArray[np.int64]
    values: Floats
    nonfinite: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """The common steps, losses and tensors of two runs.

    Attributes:
        loss_tag: the scalar that is compared as loss, both tags if they are not equal; ``None``
            without a loss that both recorded for the same steps of training.
        losses: losses at the common steps.
        names: tensors, matched.
        elements: number of elements of each matched tensor; int64, shape ``(pairs,)``.
        tensors: numbers of the matched tensors at the common steps.
    """

    loss_tag: str | None
    losses: CommonSeries
    names: NameMatch
    elements: NDArray[np.int64]
    tensors: TensorSeries

    @property
    def is_weight(self) -> NDArray[np.bool_]:
        """Tell for every matched tensor whether it is a weight, not a gradient."""
        return np.array([not pair.a.endswith(GRADIENT) for pair in self.names.pairs], np.bool_)

    def column(self, step: int) -> int | None:
        """Find a step's index in the tensors' steps; ``None`` if it was not recorded."""
        steps = self.tensors.steps
        index = int(np.searchsorted(steps, step))
        return index if index < steps.size and steps[index] == step else None

    def loss_at(self, step: int, distances: Floats) -> float | None:
        """Return the distance between the two losses at a step; ``None`` without losses."""
        found = distances[self.losses.steps == step]
        return float(found[0]) if found.size else None


class CountedAlike(NamedTuple):
    """The candidate run, with step numbers shifted to match the baseline's.

    ``offset`` is the number of steps by which the candidate's losses were moved.
    """

    candidate: RunData
    offset: int


def align_step_offset(a: RunData, b: RunData) -> CountedAlike:
    """Shift the candidate's step numbers by 1 if the first losses agree only then.

    Some programs count steps from zero, others from one. Tensors are moved with the loss only if
    they begin one step apart, too.
    """
    tags = loss_tags(a.scalars, b.scalars)
    if tags is None:
        return CountedAlike(b, 0)
    for offset in (0, 1, -1):
        moved = _moved(b, tags.b, offset, moves_tensors=_first_step(a) - _first_step(b) == offset)
        losses = common_series(a, moved, tags).values[:, :_WITNESSES]
        agree = loss_distances(*losses) <= TOLERANCES["float32"].loss
        is_enough = agree.all() if offset else agree.any()
        if agree.size == _WITNESSES and is_enough:
            return CountedAlike(moved, offset)
    return CountedAlike(b, 0)


def _first_step(run: RunData) -> int:
    return min((int(tensor.steps[0]) for tensor in run.tensors.values()), default=0)


def _moved(run: RunData, tag: str, offset: int, *, moves_tensors: bool) -> RunData:
    """Return a run with the step numbers of its loss shifted by ``offset``.

    With ``moves_tensors`` the steps of its tensors are moved, too.
    """
    if not offset:
        return run
    loss = run.scalars[tag]
    scalars = run.scalars | {tag: replace(loss, steps=loss.steps + offset)}
    tensors = run.tensors
    if moves_tensors:
        tensors = {}
        for name, tensor in run.tensors.items():
            tensors[name] = replace(tensor, steps=tensor.steps + offset)
    return replace(run, tensors=tensors, scalars=scalars)


def align(a: RunData, b: RunData, names: Mapping[str, str] | None = None) -> Alignment:
    """Align two runs by their common steps and matched tensors.

    Raises:
        ValueError: ``names`` does not fit the runs.
    """
    check_names(names or {}, a.elements, b.elements)
    begin = _first_common_step(a, b)
    histograms = match_names(_tensor_names(a, begin), _tensor_names(b, begin), names)
    statistics_a = statistics_tensors(a.parameters, names_in_baseline(histograms.pairs))
    statistics_b = statistics_tensors(b.parameters, names_in_candidate(histograms.pairs))
    match = _with_statistics(histograms, statistics_a, statistics_b)
    tensors_a, tensors_b = {**a.tensors, **statistics_a}, {**b.tensors, **statistics_b}
    pairs = [(tensors_a[pair.a], tensors_b[pair.b]) for pair in match.pairs]
    elements = np.array([tensor.count[0] for tensor, _ in pairs], np.int64)
    tags = _comparable_loss(a, b, has_tensors=bool(match.pairs))
    losses = common_series(a, b, tags) if tags else EMPTY_SERIES
    tag = " = ".join(dict.fromkeys(tags)) if tags else None
    return Alignment(tag, losses, match, elements, side_by_side(pairs))


def _comparable_loss(a: RunData, b: RunData, *, has_tensors: bool) -> LossTags | None:
    """Find a loss that both runs recorded for the same batches."""
    if has_tensors and have_other_world_sizes(a, b):
        return None
    tags = loss_tags(a.scalars, b.scalars)
    if tags and may_be_an_epoch_mean(a, b, tags, common_series(a, b, tags)):
        return None
    return tags


def have_other_world_sizes(a: RunData, b: RunData) -> bool:
    """Tell whether the runs recorded different numbers of processes.

    Their losses cannot be compared then: a run records the loss of one process only.
    """
    size_a, size_b = a.settings.get("device_num"), b.settings.get("device_num")
    return size_a is not None and size_b is not None and size_a != size_b


def _first_common_step(a: RunData, b: RunData) -> int:
    firsts = [0]
    for run in (a, b):
        for tensor in [*run.tensors.values()][:1]:
            firsts.append(int(tensor.steps[0]))
    return max(firsts)


def _tensor_names(run: RunData, begin: int) -> list[TensorName]:
    names = []
    for name, recorded in run.tensors.items():
        index = min(int(np.searchsorted(recorded.steps, begin)), len(recorded) - 1)
        columns = recorded.minimum, recorded.maximum, recorded.mean
        first = tuple(float(column[index]) for column in columns)
        names.append(TensorName(name, int(recorded.count[0]), first))
    return names


def _with_statistics(
    match: NameMatch,
    statistics_a: Mapping[str, HistogramStatistics],
    statistics_b: Mapping[str, HistogramStatistics],
) -> NameMatch:
    """Match further parameters that both runs recorded, by equal names and sizes.

    Parameters that only one run recorded are left out.
    """
    pairs = list(match.pairs)
    for name_a, name_b in equal_names(statistics_a, statistics_b):
        if statistics_a[name_a].count[0] == statistics_b[name_b].count[0]:
            pairs.append(Pair(name_a, name_b, "name"))
    unmatched_a = _without_statistics(match.unmatched_a, names_in_baseline(pairs))
    unmatched_b = _without_statistics(match.unmatched_b, names_in_candidate(pairs))
    return NameMatch(tuple(pairs), unmatched_a, unmatched_b)


def _without_statistics(names: tuple[str, ...], paired: set[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name + STATISTICS not in paired)


def side_by_side(pairs: list[tuple[HistogramStatistics, HistogramStatistics]]) -> TensorSeries:
    """Collect the statistics of paired tensors at the steps that both runs recorded."""
    common = [np.intersect1d(a.steps, b.steps, assume_unique=True) for a, b in pairs]
    steps = np.unique(np.concatenate(common)) if common else np.empty(0, np.int64)
    values = np.full((2, len(pairs), steps.size, 3), np.nan)
    nonfinite = np.zeros((2, len(pairs), steps.size, 3), np.int64)
    for index, (pair, shared) in enumerate(zip(pairs, common, strict=True)):
        columns = np.searchsorted(steps, shared)
        for side, statistics in enumerate(pair):
            chosen = np.searchsorted(statistics.steps, shared)
            for place, name in enumerate(("minimum", "maximum", "mean")):
                values[side, index, columns, place] = getattr(statistics, name)[chosen]
            for place, name in enumerate(("nan_count", "pos_inf_count", "neg_inf_count")):
                counts = getattr(statistics, name)[chosen]
                if counts.any():  # memory that is never written to costs nothing
                    nonfinite[side, index, columns, place] = counts
    return TensorSeries(steps, values, nonfinite)
