"""What runs hold of tensors beside their histograms, in the same form: whole tensors, and statistics of parameters."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from mindsummary_lightning.comparison.names import AUTO
from mindsummary_lightning.conversion.histograms import finite_part
from mindsummary_lightning.reading.parameter_tables import ParameterTable
from mindsummary_lightning.reading.run_numbers import HistogramStatistics
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.values.statistics_columns import COLUMNS, STATISTICS_TAG
from mindsummary_lightning.values.step_chain import MODULES_TAG


def whole_tensors(reader: SummaryReader) -> dict[str, HistogramStatistics]:
    """Numbers of the tensors that a run recorded whole, by name; raises ``DamagedFileError``."""
    tags = [tag for tag in reader.tags()["tensor"] if tag not in (STATISTICS_TAG, MODULES_TAG)]
    return {tag.removesuffix(AUTO): _numbers(reader, tag) for tag in tags}


def _numbers(reader: SummaryReader, tag: str) -> HistogramStatistics:
    rows = []
    for step, _, tensor in reader.tensors(tag):
        _, of = finite_part(tensor.data.astype(np.float64).ravel())
        known = (of.low, of.high, of.total / of.finite) if of.finite else (np.nan,) * 3
        rows.append((step, *known, of.count, of.nan_count, of.pos_inf_count, of.neg_inf_count))
    steps, *numbers = (np.array(column) for column in zip(*rows, strict=True))
    low, high, mean = (column.astype(np.float64) for column in numbers[:3])
    counts = (column.astype(np.int64) for column in numbers[3:])
    return HistogramStatistics(steps.astype(np.int64), low, high, mean, *counts)


def magnitudes(table: ParameterTable | None, known: Collection[str]) -> dict[str, HistogramStatistics]:
    """Root mean square and largest magnitude of the parameters that have no histogram, as ``known`` do."""
    rows: dict[str, HistogramStatistics] = {}
    if table is None:
        return rows
    columns = [COLUMNS.index(name) for name in ("weight_rms", "weight_max", "elements", "weight_non_finite")]
    for index, name in enumerate(table.parameters):
        there = np.flatnonzero(np.isfinite(table.values[:, index, columns[2]]))
        if name not in known and there.size:
            size, greatest, *counts = table.values[there, index][:, columns].T
            count, bad = (np.nan_to_num(column).astype(np.int64) for column in counts)
            none, steps = np.zeros(there.size, np.int64), table.steps[there].astype(np.int64)
            rows[f"{name} (statistics)"] = HistogramStatistics(steps, size, greatest, size, count, bad, none, none)
    return rows
