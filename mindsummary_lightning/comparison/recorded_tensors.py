"""What runs hold of tensors beside their histograms: whole tensors, and the statistics of every parameter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.reading.parameter_tables import ParameterTable
from mindsummary_lightning.reading.run_directory import summary_files
from mindsummary_lightning.reading.run_numbers import HistogramStatistics
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.reading.tag_survey import TagSurvey
from mindsummary_lightning.values.statistics_columns import COLUMNS, STATISTICS_TAG

_AUTO = "/auto"  # what the collector adds to a tag
_STATISTICS = " (statistics)"  # marks magnitudes, which are no minimum and maximum


def read_tensors(reader: SummaryReader) -> tuple[dict[str, HistogramStatistics], ParameterTable | None]:
    """Numbers of the tensors that a run recorded whole, and its table of parameters.

    Large files are searched for tags at both ends only: a run without tensors, as most are, is not read once more.

    Raises:
        DamagedFileError: a file is damaged.
    """
    tags, _ = TagSurvey().tags(summary_files(reader.run_dir))
    tensors = sorted(tag for kind, tag in tags if kind == "tensor")
    table = reader.parameter_statistics() if STATISTICS_TAG in tensors else None
    whole = {
        tag.removesuffix(_AUTO): _numbers([(step, tensor.data) for step, _, tensor in reader.tensors(tag)])
        for tag in tensors
        if tag != STATISTICS_TAG
    }
    return whole, table


def _numbers(samples: Iterable[tuple[int, NDArray[Any]]]) -> HistogramStatistics:
    rows = []
    for step, data in samples:
        flat = data.astype(np.float64).ravel()
        finite = flat[np.isfinite(flat)]
        known = (finite.min(), finite.max(), finite.mean()) if finite.size else (np.nan,) * 3
        counts = (flat.size, np.isnan(flat).sum(), (flat == np.inf).sum(), (flat == -np.inf).sum())
        rows.append((step, known, counts))
    return HistogramStatistics(
        np.array([step for step, _, _ in rows], np.int64),
        *np.array([known for _, known, _ in rows], np.float64).reshape(-1, 3).T,
        *np.array([counts for _, _, counts in rows], np.int64).reshape(-1, 4).T,
    )


def rows_of(table: ParameterTable, known: Iterable[str]) -> dict[str, HistogramStatistics]:
    """Weights by root mean square and largest magnitude, of the parameters that have no histogram, as ``known`` do."""
    rms, largest, non_finite, elements = (
        table.values[:, :, COLUMNS.index(name)]
        for name in ("weight_rms", "weight_max", "weight_non_finite", "elements")
    )
    names = {*known}
    rows = {}
    for index, name in enumerate(table.parameters):
        there = np.flatnonzero(np.isfinite(elements[:, index]))
        if name in names or not there.size:
            continue
        count, bad = (np.nan_to_num(column[there, index]).astype(np.int64) for column in (elements, non_finite))
        none = np.zeros(there.size, np.int64)
        size, greatest = rms[there, index], largest[there, index]
        steps = table.steps[there].astype(np.int64)
        rows[name + _STATISTICS] = HistogramStatistics(steps, size, greatest, size, count, bad, none, none)
    return rows
