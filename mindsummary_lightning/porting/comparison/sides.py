"""What a run holds that can be compared with another one: scalars, numbers of tensors, chains of steps and settings."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mindsummary_lightning.conversion.histograms import finite_part
from mindsummary_lightning.conversion.hyperparameters import flatten
from mindsummary_lightning.porting.comparison.names import AUTO
from mindsummary_lightning.reading.output_statistics import OutputStatistics
from mindsummary_lightning.reading.parameter_tables import ParameterTable
from mindsummary_lightning.reading.run_directory import files_size
from mindsummary_lightning.reading.run_numbers import HistogramStatistics
from mindsummary_lightning.reading.series import ScalarSeries
from mindsummary_lightning.reading.summary_reader import SummaryReader, table_of
from mindsummary_lightning.values.statistics_columns import COLUMNS, STATISTICS_TAG
from mindsummary_lightning.values.step_chain import OUTPUT_STATISTICS_TAG
from mindsummary_lightning.values.text import shortest_float32

LOSS, STATISTICS = "loss/auto", " (statistics)"  # a tag, and what is added to names
_GROUP_SIZE = re.compile(r"optimizer_groups/\d+/parameters")
_NOT_SETTINGS = (
    "loss",
    "model_path",
    "model_size",
    "train_dataset_path",
    "status",
    "final_learning_rate",
)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """What a run says, for a comparison.

    Attributes:
        run_dir: its directory.
        scalars: by tag.
        tensors: its histograms by the tensors' names.
        whole: tensors that it recorded whole, by name.
        table: its statistics of parameters, or ``None``.
        modules: the chains of its steps, or ``None``.
        settings: lineage and what the user added to it, by name; without results.
    """

    run_dir: str
    scalars: dict[str, ScalarSeries]
    tensors: dict[str, HistogramStatistics]
    whole: dict[str, HistogramStatistics]
    table: ParameterTable | None
    modules: OutputStatistics | None
    settings: dict[str, Any]

    @property
    def parameters(self) -> int | None:
        """How many parameters its optimizers hold, those that they got later if statistics show them, or ``None``."""
        counts = [count for name, count in self.settings.items() if _GROUP_SIZE.fullmatch(name)]
        return max(sum(counts), len(self.table.parameters) if self.table else 0) if counts else None

    @property
    def precision(self) -> str:
        """What it states, or the type of a quarter of its modules' outputs, if that is a short one."""
        types = [
            row.dtype for row in (self.modules.rows if self.modules else ()) if row.port == "output"
        ]
        short = [
            name for name in ("bfloat16", "float16") if 4 * types.count(name) >= max(len(types), 1)
        ]
        return " ".join([str(self.settings.get("precision", "")), *short])

    @property
    def may_update_before_its_loss(self) -> bool:
        """Whether its module, LBFGS or several optimizers may update several times in a step."""
        stated = str(self.settings.get("optimizer", ""))
        return ", " in stated or "LBFGS" in stated or "manual_optimization" in self.settings

    @property
    def elements(self) -> dict[str, int]:
        """How many elements the tensors of its histograms have, and the weights of its chains."""
        rows = self.modules.rows if self.modules else ()
        weights = {row.name: math.prod(row.shape) for row in rows if row.link == "weights"}
        return weights | {name: int(tensor.count[0]) for name, tensor in self.tensors.items()}

    def steps_without(self, other: Side) -> int:
        """How many steps of its loss, histograms or chains another run has not; if neither has any, of scalars."""
        both = [
            [side.scalars.get(LOSS), *side.tensors.values(), side.modules] for side in (self, other)
        ]
        if not any(map(any, both)):  # scripts count otherwise what they log
            both = [[*side.scalars.values()] for side in (self, other)]
        ours, theirs = (
            np.concatenate([np.empty(0, np.int64), *(x.steps for x in own if x)]) for own in both
        )
        return int(np.setdiff1d(ours, theirs).size) if theirs.size else 0


def read_side(
    run_dir: str | os.PathLike[str], progress: Callable[[int], object] = lambda count: None
) -> Side:
    """Read a run; ``progress`` is called with the bytes of its files.

    Raises:
        NotADirectoryError: it is not a directory.
        FileNotFoundError: it holds no event file.
        DamagedFileError: a file is damaged.
    """
    reader = SummaryReader(run_dir)
    run, histograms = table_of(reader), reader.histogram_statistics()
    scalars = {tag: run.scalars(tag) for tag in run.tags_in_order("scalar")}
    progress(files_size(reader.run_dir))
    modules = reader.output_statistics()
    if not scalars and not histograms and modules is None:
        raise FileNotFoundError(
            f"{reader.run_dir} holds no scalar, no histogram and no chain of a step"
        )
    tensors = {tag.removesuffix(AUTO): statistics for tag, statistics in histograms.items()}
    of_tensors = tensors, _whole_tensors(reader), reader.parameter_statistics(), modules
    return Side(reader.run_dir, scalars, *of_tensors, _settings(reader))


def _whole_tensors(reader: SummaryReader) -> dict[str, HistogramStatistics]:
    """Numbers of the tensors that a run recorded whole, by name; raises ``DamagedFileError``."""
    tags = [
        tag for tag in reader.tags()["tensor"] if tag not in (STATISTICS_TAG, OUTPUT_STATISTICS_TAG)
    ]
    return {tag.removesuffix(AUTO): _numbers(reader, tag) for tag in tags}


def _numbers(reader: SummaryReader, tag: str) -> HistogramStatistics:
    rows = []
    for step, _, tensor in reader.tensors(tag):
        _, of = finite_part(tensor.data.astype(np.float64).ravel())
        counts = of.count, of.nan_count, of.pos_inf_count, of.neg_inf_count
        rows.append((step, of.low, of.high, of.total / max(of.finite, 1), *counts))
    steps, low, high, mean, *numbers = (np.array(column) for column in zip(*rows, strict=True))
    return HistogramStatistics(
        steps.astype(np.int64), low, high, mean, *(x.astype(np.int64) for x in numbers)
    )


def magnitudes(
    table: ParameterTable | None, known: Collection[str]
) -> dict[str, HistogramStatistics]:
    """Root mean square and largest magnitude of the parameters that have no histogram, as ``known`` do."""
    rows: dict[str, HistogramStatistics] = {}
    if table is None:
        return rows
    columns = [
        COLUMNS.index(name)
        for name in ("weight_rms", "weight_max", "elements", "weight_non_finite")
    ]
    for index, name in enumerate(table.parameters):
        there = np.flatnonzero(np.isfinite(table.values[:, index, columns[2]]))
        if name not in known and there.size:
            size, greatest, *counts = table.values[there, index][:, columns].T
            count, bad = (np.nan_to_num(column).astype(np.int64) for column in counts)
            none, steps = np.zeros(there.size, np.int64), table.steps[there].astype(np.int64)
            rows[name + STATISTICS] = HistogramStatistics(
                steps, size, greatest, size, count, bad, none, none
            )
    return rows


def _settings(reader: SummaryReader) -> dict[str, Any]:
    lineage = reader.lineage()
    settings: dict[str, Any] = {} if lineage.custom is None else flatten(lineage.custom.values)
    if lineage.train is not None:
        settings |= asdict(lineage.train)
        rate = lineage.train.learning_rate
        settings["learning_rate"] = None if rate is None else shortest_float32(rate)
    return {
        name: value
        for name, value in settings.items()
        if value is not None and name not in _NOT_SETTINGS
    }
