"""``RunData``: the recorded values of a run that can be compared."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mindsummary_lightning.conversion.histograms import finite_part
from mindsummary_lightning.conversion.hyperparameters import flatten
from mindsummary_lightning.reading.output_statistics import OutputStatistics
from mindsummary_lightning.reading.parameter_tables import ParameterTable
from mindsummary_lightning.reading.run_directory import files_size
from mindsummary_lightning.reading.run_numbers import HistogramStatistics
from mindsummary_lightning.reading.series import ScalarSeries
from mindsummary_lightning.reading.summary_reader import SummaryReader, table_of
from mindsummary_lightning.values.statistics_columns import COLUMNS, STATISTICS_TAG
from mindsummary_lightning.values.step_chain import OUTPUT_STATISTICS_TAG
from mindsummary_lightning.values.text import shortest_float32

AUTO = "/auto"
"""What the collector adds to a tag."""
LOSS = "loss/auto"
"""Tag of the loss that the collector records."""
STATISTICS = " (statistics)"
"""What is added to the name of a parameter that is compared by its statistics."""

_NOT_SETTINGS = (
    "loss",
    "model_path",
    "model_size",
    "train_dataset_path",
    "status",
    "final_learning_rate",
)
_HALF_PRECISIONS = ("bfloat16", "float16")


@dataclass(frozen=True, slots=True, eq=False)
class RunData:
    """The recorded values of a run that can be compared.

    Attributes:
        run_dir: its directory.
        scalars: scalars by tag.
        tensors: numbers of histograms by the tensors' names.
        whole: numbers of tensors that were recorded whole, by name.
        parameters: statistics of parameters, or ``None``.
        output_statistics: output statistics of steps, or ``None``.
        settings: lineage and what the user added to it, by name; without results.
    """

    run_dir: str
    scalars: dict[str, ScalarSeries]
    tensors: dict[str, HistogramStatistics]
    whole: dict[str, HistogramStatistics]
    parameters: ParameterTable | None
    output_statistics: OutputStatistics | None
    settings: dict[str, Any]

    @property
    def precision(self) -> str:
        """The precision setting, plus half precisions of at least a quarter of outputs."""
        types = []
        if self.output_statistics is not None:
            for row in self.output_statistics.rows:
                if row.port == "output":
                    types.append(row.dtype)
        stated = [str(self.settings.get("precision", ""))]
        for name in _HALF_PRECISIONS:
            if types and 4 * types.count(name) >= len(types):
                stated.append(name)
        return " ".join(stated)

    @property
    def elements(self) -> dict[str, int]:
        """The number of elements of every tensor with a histogram, and of every weight."""
        elements = {}
        if self.output_statistics is not None:
            for row in self.output_statistics.rows:
                if row.link == "weights":
                    elements[row.name] = math.prod(row.shape)
        for name, tensor in self.tensors.items():
            elements[name] = int(tensor.count[0])
        return elements

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every weight in the output statistics, by name."""
        if self.output_statistics is None:
            return {}
        return {row.name: row.shape for row in self.output_statistics.rows if row.link == "weights"}

    def steps_without(self, other: RunData) -> int:
        """Count the recorded steps that another run does not have.

        These are the steps of the loss, the histograms and the output statistics. If neither run
        has any, the steps of scalars are counted.
        """
        own, theirs = self._recorded_steps(), other._recorded_steps()
        if not own and not theirs:  # scripts count differently what they log
            own = _steps_of(self.scalars.values())
            theirs = _steps_of(other.scalars.values())
        return len(own - theirs) if theirs else 0

    def _recorded_steps(self) -> set[int]:
        series: list[Any] = [self.scalars.get(LOSS), *self.tensors.values(), self.output_statistics]
        return _steps_of(series)


def _steps_of(series: Any) -> set[int]:
    steps: set[int] = set()
    for each in series:
        if each is not None:
            steps.update(each.steps.tolist())
    return steps


def read_run_data(
    run_dir: str | os.PathLike[str], progress: Callable[[int], object] = lambda count: None
) -> RunData:
    """Read a run, and pass the size of its files, in bytes, to ``progress``.

    Raises:
        NotADirectoryError: it is not a directory.
        FileNotFoundError: it holds no event file.
        DamagedFileError: a file is damaged.
    """
    reader = SummaryReader(run_dir)
    run, histograms = table_of(reader), reader.histogram_statistics()
    scalars = {tag: run.scalars(tag) for tag in run.tags_in_order("scalar")}
    progress(files_size(reader.run_dir))
    output_statistics = reader.output_statistics()
    if not scalars and not histograms and output_statistics is None:
        raise FileNotFoundError(
            f"{reader.run_dir} holds no scalar, no histogram and no output statistics"
        )
    return RunData(
        reader.run_dir,
        scalars,
        {tag.removesuffix(AUTO): statistics for tag, statistics in histograms.items()},
        _whole_tensors(reader),
        reader.parameter_statistics(),
        output_statistics,
        _settings(reader),
    )


def _whole_tensors(reader: SummaryReader) -> dict[str, HistogramStatistics]:
    """Return statistics of the tensors that a run recorded whole, by name."""
    tensors = {}
    for tag in reader.tags()["tensor"]:
        if tag not in (STATISTICS_TAG, OUTPUT_STATISTICS_TAG):
            tensors[tag.removesuffix(AUTO)] = _numbers(reader, tag)
    return tensors


def _numbers(reader: SummaryReader, tag: str) -> HistogramStatistics:
    rows = []
    for step, _, tensor in reader.tensors(tag):
        part = finite_part(tensor.data.astype(np.float64).ravel())[1]
        mean = part.total / max(part.finite, 1)
        counts = part.count, part.nan_count, part.pos_inf_count, part.neg_inf_count
        rows.append((step, part.low, part.high, mean, *counts))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    for index in (0, 4, 5, 6, 7):  # steps and counts
        columns[index] = columns[index].astype(np.int64)
    return HistogramStatistics(*columns)


def statistics_tensors(
    table: ParameterTable | None, known: Collection[str]
) -> dict[str, HistogramStatistics]:
    """Return parameter statistics in the form of histogram statistics.

    Root mean square and largest magnitude take the place of minimum, mean and maximum.

    Args:
        table: statistics of a run's parameters.
        known: names that have a histogram, which are left out.
    """
    tensors: dict[str, HistogramStatistics] = {}
    if table is None:
        return tensors
    names = ("weight_rms", "weight_max", "elements", "weight_non_finite")
    columns = [COLUMNS.index(name) for name in names]
    for index, name in enumerate(table.parameters):
        recorded = np.flatnonzero(np.isfinite(table.values[:, index, columns[2]]))
        if name in known or not recorded.size:
            continue
        rms, largest, elements, non_finite = table.values[recorded, index][:, columns].T
        zeros, steps = np.zeros(recorded.size, np.int64), table.steps[recorded].astype(np.int64)
        count = np.nan_to_num(elements).astype(np.int64)
        bad = np.nan_to_num(non_finite).astype(np.int64)
        tensors[name + STATISTICS] = HistogramStatistics(
            steps, rms, largest, rms, count, bad, zeros, zeros
        )
    return tensors


def _settings(reader: SummaryReader) -> dict[str, Any]:
    lineage = reader.lineage()
    settings: dict[str, Any] = {} if lineage.custom is None else flatten(lineage.custom.values)
    if lineage.train is not None:
        settings |= asdict(lineage.train)
        rate = lineage.train.learning_rate
        settings["learning_rate"] = None if rate is None else shortest_float32(rate)
    stated = {}
    for name, value in settings.items():
        if value is not None and name not in _NOT_SETTINGS:
            stated[name] = value
    return stated
