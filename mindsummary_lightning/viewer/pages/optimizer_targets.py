"""Endpoint that ranks hyper-parameters by their correlation with results of runs.

MindInsight shows the ranking in a panel next to the model lineage. The rules are those of
MindInsight 2.3.1 on pandas 1.5 (``optimizer/utils`` of its wheel), in NumPy.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.viewer.api import ApiRequest
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages.lineages import search_runs

NOT_ALL_NUMBERS, TOO_FEW_RUNS, UNDEFINED = 1, 2, 3  # the pages' reasons for a missing importance

_BUCKETS = 5
_MIN_RUNS = 3  # two points always lie on a line
_METRIC, _USER_DEFINED = "[M]", "[U]"
_NO_HYPER_PARAMETERS = (
    "loss",
    "device_num",
    "model_size",
    "test_dataset_count",
    "train_dataset_count",
)

Column = NDArray[Any]  # of integers, or of floats with NaN where a run has no value


class LineageTable(NamedTuple):
    """Numbers in the lineage of runs: a column per setting, metric or other field."""

    # a number per run, by name: a field, [M] and a metric, or [U] and a custom value
    columns: Mapping[str, Column]
    dropped: Sequence[str]  # custom values that are not numbers in every run that has them

    def targets(self) -> list[str]:
        """List the metrics and the loss, columns with the fewest missing values first.

        The page opens on the first name.
        """
        names = [name for name in self.columns if name == "loss" or name.startswith(_METRIC)]
        return sorted(
            names, key=lambda name: (np.count_nonzero(np.isnan(self.columns[name])), name)
        )

    def hyper_parameters(self) -> list[str]:
        """List the columns that may be hyper-parameters, in column order."""
        return [
            name
            for name in self.columns
            if not name.startswith(_METRIC) and name not in _NO_HYPER_PARAMETERS
        ]


def targets(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with the metrics and the loss, and the settings that correlate with them."""
    listed = search_runs(runs, request)["object"]
    table = lineage_table(run.get("model_lineage", {}) for run in listed)
    # once: there may be as many metrics as a run has tags
    hyper_parameters = table.hyper_parameters()
    return {
        "metadata": {
            "train_ids": [run.get("summary_dir") for run in listed],
            "possible_hyper_parameters": [
                {"name": name, "data": _data(table, name)} for name in hyper_parameters
            ],
            "unrecognized_params": [
                {"name": name, "unselected": True, "reason_code": NOT_ALL_NUMBERS}
                for name in table.dropped
            ],
        },
        "targets": [
            {
                "name": target,
                "buckets": buckets(table.columns[target]),
                "hyper_parameters": _ranked(table, target, hyper_parameters),
                "data": _data(table, target),
            }
            for target in table.targets()
        ],
    }


def lineage_table(models: Iterable[Mapping[str, Any]]) -> LineageTable:
    """Collect the numbers of ``model_lineage`` dicts, one dict per run, in columns."""
    rows = [dict(_named_values(model)) for model in models]
    names = dict.fromkeys(name for row in rows for name in row)
    cells: dict[str, list[Any]] = {}
    for name in names:
        cells[name] = [row.get(name) for row in rows]
    all_columns = {name: _column(values) for name, values in cells.items()}
    columns = {name: column for name, column in all_columns.items() if column is not None}
    dropped = [name for name in cells if name not in columns and name.startswith(_USER_DEFINED)]
    return LineageTable(columns, dropped)


def importance(hyper_parameter: Column, target: Column) -> tuple[float, int | None]:
    """Compute the absolute Pearson correlation over the runs that have both values.

    Returns:
        The correlation, 0 to 1, and ``None``; or 0 and the reason for its absence,
        :data:`TOO_FEW_RUNS` or :data:`UNDEFINED`.
    """
    has_both = ~(np.isnan(hyper_parameter) | np.isnan(target))
    if np.count_nonzero(has_both) < _MIN_RUNS:
        return 0, TOO_FEW_RUNS
    with np.errstate(all="ignore"):
        correlation = float(np.corrcoef(hyper_parameter[has_both], target[has_both])[0, 1])
    return (0, UNDEFINED) if math.isnan(correlation) else (abs(correlation), None)


def buckets(column: Column) -> list[list[float]]:
    """Count the finite numbers of a column in five buckets of equal width.

    Returns:
        Left edge, width and count of every bucket.
    """
    finite = column[np.isfinite(column)]
    low, high = (finite.min(), finite.max()) if finite.size else (0, 0)
    if low >= high:
        low, high = low - 0.5, high + 0.5
    with np.errstate(all="ignore"):
        counts, edges = np.histogram(finite, bins=_BUCKETS, range=(low, high))
    return [
        [float(left), float(right - left), float(count)]
        for left, right, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]


def _ranked(
    table: LineageTable, target: str, hyper_parameters: Sequence[str]
) -> list[dict[str, Any]]:
    """List the hyper-parameters by their correlation with ``target``, strongest first.

    Among equal correlations, settings that users defined come last.
    """
    ranked = []
    for name in hyper_parameters:
        value, reason = importance(table.columns[name], table.columns[target])
        ranked.append(
            {"name": name, "importance": value}
            | ({} if reason is None else {"reason_code": reason})
        )
    return sorted(
        ranked,
        key=lambda entry: (-entry["importance"], entry["name"].startswith("["), entry["name"]),
    )


def _data(table: LineageTable, name: str) -> list[float | None]:
    return [None if math.isnan(value) else value for value in table.columns[name].tolist()]


def _named_values(model: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    for name, value in model.items():
        prefix = {"metric": _METRIC, "user_defined": _USER_DEFINED}.get(name)
        if prefix is None:
            yield name, value
        else:
            yield from ((prefix + key, element) for key, element in value.items())


def _column(values: Sequence[Any]) -> Column | None:
    """Convert values to an array; return ``None`` if any value is not a number.

    Without values it is ``None``, too.
    """
    numbers = [
        math.nan if isinstance(value, str) and value.lower() in ("nan", "inf") else value
        for value in values
    ]
    if set(map(type, numbers)) == {int}:
        column = np.array(numbers)
        if column.dtype.kind in "iu":
            return column
    has_number = any(value is not None for value in numbers)
    if has_number and all(value is None or type(value) in (int, float) for value in numbers):
        with contextlib.suppress(OverflowError):  # an integer beyond all floats
            return np.array(numbers, np.float64)
    return None
