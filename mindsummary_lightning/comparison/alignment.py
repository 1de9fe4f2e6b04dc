"""Two runs laid side by side: the steps and tensors that both recorded, and the settings in which they differ."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.comparison.distances import Floats, largest_first
from mindsummary_lightning.comparison.names import AUTO, GRADIENT, NameMatch, Pair, TensorName, equal_names, match_names
from mindsummary_lightning.comparison.recorded_tensors import read_tensors, rows_of
from mindsummary_lightning.reading.histogram_statistics import HistogramStatistics
from mindsummary_lightning.reading.parameter_tables import ParameterTable
from mindsummary_lightning.reading.run_numbers import RunNumbers, read_numbers
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.values import TrainInfo
from mindsummary_lightning.values.text import shortest_float32

_LOSS = "loss/auto"
_NOT_SETTINGS = ("loss", "model_path", "model_size", "train_dataset_path", "status")


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """What a run says, for a comparison.

    Attributes:
        run_dir: its directory.
        numbers: its scalars and histograms.
        tensors: its histograms by the tensors' names.
        whole: tensors that it recorded whole, by name.
        table: its statistics of parameters, or ``None``.
        settings: lineage and what the user added to it, by name; without results.
    """

    run_dir: str
    numbers: RunNumbers
    tensors: dict[str, HistogramStatistics]
    whole: dict[str, HistogramStatistics]
    table: ParameterTable | None
    settings: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Two runs by common steps.

    Attributes:
        loss_tag: the scalar that is compared as loss, or ``None``; also where tensors can be compared and the runs had
            other numbers of processes.
        loss_steps: int64, shape ``(l,)``.
        losses: float64, shape ``(2, l)``.
        names: tensors, matched.
        elements: how many each matched tensor has; int64, shape ``(pairs,)``.
        steps: steps at which any matched tensor was recorded by both; int64, shape ``(s,)``.
        tensors: minimum, maximum and mean; float64, shape ``(2, pairs, s, 3)``, NaN where one did not record it.
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
    def has_weights(self) -> bool:
        """Whether any matched tensor is a weight; otherwise what one run has says nothing of the other."""
        return not all(pair.a.endswith(GRADIENT) for pair in self.names.pairs)

    def has_weights_before(self, step: int) -> bool:
        """Whether both recorded a weight at the step before; otherwise a loss may show an update, not its own step."""
        weights = [not pair.a.endswith(GRADIENT) for pair in self.names.pairs]
        return not np.isnan(self.tensors[:, weights][:, :, self.steps == step - 1]).all()


def read_side(run_dir: str | os.PathLike[str]) -> Side:
    """Read a run.

    Raises:
        NotADirectoryError: it is not a directory.
        FileNotFoundError: it holds no event file.
        DamagedFileError: a file is damaged.
    """
    reader = SummaryReader(run_dir)
    numbers = read_numbers(reader.run_dir)
    if not numbers.scalars and not numbers.histograms:
        raise FileNotFoundError(f"{reader.run_dir} holds no scalar and no histogram; give the directory of one run")
    tensors = {tag.removesuffix(AUTO): statistics for tag, statistics in numbers.histograms.items()}
    return Side(reader.run_dir, numbers, tensors, *read_tensors(reader), _settings(reader))


def align(a: Side, b: Side, names: Mapping[str, str] | None = None) -> Alignment:
    """Lay two runs side by side.

    Raises:
        ValueError: ``names`` does not fit the runs; see :func:`match_names`.
    """
    match = match_names(_tensor_names(a.tensors), _tensor_names(b.tensors), names)
    others = rows_of(a.table, a.tensors), rows_of(b.table, b.tensors)
    # Only what both have: what one run alone recorded so says nothing of the other's optimizer.
    of_both = (Pair(one, other, "equal") for one, other in equal_names(*others))
    match = match._replace(pairs=(*match.pairs, *of_both))
    tag = None if match.pairs and have_other_shares(a, b) else _loss_tag(a.numbers.scalars, b.numbers.scalars)
    loss_steps, losses = _common_series(a, b, tag) if tag else (np.empty(0, np.int64), np.empty((2, 0)))
    known = {**a.tensors, **others[0]}, {**b.tensors, **others[1]}
    pairs = [(known[0][pair.a], known[1][pair.b]) for pair in match.pairs]
    common = [np.intersect1d(one.steps, other.steps, assume_unique=True) for one, other in pairs]
    steps = np.unique(np.concatenate(common)) if common else np.empty(0, np.int64)
    tensors = np.full((2, len(pairs), steps.size, 3), np.nan)
    nonfinite = np.zeros((2, len(pairs), steps.size, 3), np.int64)
    for index, (pair, shared) in enumerate(zip(pairs, common, strict=True)):
        at = _places(shared, steps)
        for side, statistics in enumerate(pair):
            chosen = _places(shared, statistics.steps)
            for column, name in enumerate(("minimum", "maximum", "mean")):
                tensors[side, index, at, column] = getattr(statistics, name)[chosen]
            for column, name in enumerate(("nan_count", "pos_inf_count", "neg_inf_count")):
                counts = getattr(statistics, name)[chosen]
                if counts.any():  # memory that is never written to costs nothing
                    nonfinite[side, index, at, column] = counts
    elements = np.array([one.count[0] for one, _ in pairs], np.int64)
    return Alignment(tag, loss_steps, losses, match, elements, steps, tensors, nonfinite)


def _places(shared: NDArray[np.int64], steps: NDArray[np.int64]) -> slice | NDArray[np.intp]:
    """Where the steps that are shared stand among all, both ascending."""
    return slice(None) if shared.size == steps.size else np.searchsorted(steps, shared)


def have_other_shares(a: Side, b: Side) -> bool:
    """Whether the runs had other numbers of processes: each recorded the loss of its own share of a batch."""
    one, other = a.settings.get("device_num"), b.settings.get("device_num")
    return one is not None and other is not None and one != other


def setting_differences(a: Side, b: Side) -> dict[str, tuple[Any, Any]]:
    """Settings that both runs state and state differently."""
    return {
        name: (value, b.settings[name])
        for name, value in a.settings.items()
        if name in b.settings and not _same(value, b.settings[name])
    }


def largest_scalar_differences(a: Side, b: Side) -> dict[str, float]:
    """For every other scalar of both runs the largest difference over its range, the greatest first."""
    differences = {}
    for tag in a.numbers.scalars.keys() & b.numbers.scalars.keys() - {_LOSS}:
        _, (one, other) = _common_series(a, b, tag)
        finite = np.isfinite(one) & np.isfinite(other)
        if finite.any():
            scale = max(float(np.abs(one[finite]).max()), float(np.abs(other[finite]).max())) or 1.0
            differences[tag] = float(np.abs(one[finite] - other[finite]).max()) / scale
    return largest_first(differences)


def _tensor_names(tensors: Mapping[str, HistogramStatistics]) -> list[TensorName]:
    return [TensorName(name, int(statistics.count[0])) for name, statistics in tensors.items()]


def _loss_tag(a: Mapping[str, object], b: Mapping[str, object]) -> str | None:
    common = [tag for tag in a if tag in b]
    return next(iter([tag for tag in common if tag == _LOSS] or [tag for tag in common if "loss" in tag.lower()]), None)


def _common_series(a: Side, b: Side, tag: str) -> tuple[NDArray[np.int64], Floats]:
    one, other = a.numbers.scalars[tag], b.numbers.scalars[tag]
    steps, at_one, at_other = np.intersect1d(one.steps, other.steps, assume_unique=True, return_indices=True)
    return steps, np.stack([one.values[at_one], other.values[at_other]]).astype(np.float64)


def _settings(reader: SummaryReader) -> dict[str, Any]:
    lineage = reader.lineage()
    settings: dict[str, Any] = {}
    if lineage.custom is not None:
        settings.update(lineage.custom.values)
    if lineage.train is not None:
        recorded = {field.name: getattr(lineage.train, field.name) for field in fields(TrainInfo)}
        rate = recorded["learning_rate"]
        settings.update(recorded, learning_rate=None if rate is None else shortest_float32(rate))
    return {name: value for name, value in settings.items() if value is not None and name not in _NOT_SETTINGS}


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        try:
            return bool(np.float32(one) == np.float32(other))
        except (TypeError, ValueError):
            return False
    return bool(one == other)
