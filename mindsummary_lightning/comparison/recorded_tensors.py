"""What runs hold of tensors beside their histograms: whole tensors, and the statistics of every parameter.

A tensor recorded whole may be anything that a script computes, and rounding shows in it before it shows in weights. So
it decides where runs part only if losses and weights agree, and then only by a distance that no rounding explains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.comparison.distances import Floats, tensor_distances
from mindsummary_lightning.comparison.names import AUTO, equal_names
from mindsummary_lightning.conversion.histograms import finite_part
from mindsummary_lightning.reading.parameter_tables import ParameterTable
from mindsummary_lightning.reading.run_numbers import HistogramStatistics
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.values.statistics_columns import COLUMNS, STATISTICS_TAG
from mindsummary_lightning.values.step_chain import MODULES_TAG

_STATISTICS = " (statistics)"  # marks magnitudes, which are no minimum and maximum


class WholeTensor(NamedTuple):
    """A tensor that both runs recorded whole.

    Attributes:
        a: its name in the first run.
        b: its name in the second run.
        steps: int64, shape ``(n,)``, those of both runs.
        distances: float64, shape ``(n,)``; infinite where only one has elements that are not finite.
    """

    a: str
    b: str
    steps: NDArray[np.int64]
    distances: Floats


def read_tensors(reader: SummaryReader) -> tuple[dict[str, HistogramStatistics], ParameterTable | None]:
    """Numbers of the tensors that a run recorded whole, and its table of parameters.

    Raises:
        DamagedFileError: a file is damaged.
    """
    tensors = reader.tags()["tensor"]
    table = reader.parameter_statistics() if STATISTICS_TAG in tensors else None
    whole = {
        tag.removesuffix(AUTO): _numbers([(step, tensor.data) for step, _, tensor in reader.tensors(tag)])
        for tag in tensors
        if tag not in (STATISTICS_TAG, MODULES_TAG)
    }
    return whole, table


def _numbers(samples: Iterable[tuple[int, NDArray[Any]]]) -> HistogramStatistics:
    rows = []
    for step, data in samples:
        _, of = finite_part(data.astype(np.float64).ravel())
        known = (of.low, of.high, of.total / of.finite) if of.finite else (np.nan,) * 3
        rows.append((step, known, (of.count, of.nan_count, of.pos_inf_count, of.neg_inf_count)))
    return HistogramStatistics(
        np.array([step for step, _, _ in rows], np.int64),
        *np.array([known for _, known, _ in rows], np.float64).reshape(-1, 3).T,
        *np.array([counts for _, _, counts in rows], np.int64).reshape(-1, 4).T,
    )


def rows_of(table: ParameterTable | None, known: Iterable[str]) -> dict[str, HistogramStatistics]:
    """Weights by root mean square and largest magnitude, of the parameters that have no histogram, as ``known`` do."""
    if table is None:
        return {}
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


def whole_tensors(a: Mapping[str, HistogramStatistics], b: Mapping[str, HistogramStatistics]) -> list[WholeTensor]:
    """Distances of the tensors that both runs recorded whole at a common step, by their names."""
    compared = (_distances(one, other, a[one], b[other]) for one, other in equal_names(a, b))
    return [tensor for tensor in compared if tensor.steps.size]


def _distances(a: str, b: str, one: HistogramStatistics, other: HistogramStatistics) -> WholeTensor:
    steps, at_one, at_other = np.intersect1d(one.steps, other.steps, return_indices=True)
    numbers, counts = (
        [
            np.stack([getattr(rows, name)[at] for name in names], axis=-1)
            for rows, at in ((one, at_one), (other, at_other))
        ]
        for names in (("minimum", "maximum", "mean"), ("count", "nan_count", "pos_inf_count", "neg_inf_count"))
    )
    distances = tensor_distances(numbers[0][None], numbers[1][None])[0]
    unequal = (counts[0] != counts[1]).any(axis=1)
    return WholeTensor(a, b, steps, np.where(unequal, np.inf, np.nan_to_num(distances)))
