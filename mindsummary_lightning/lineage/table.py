"""The lineage of runs as flat rows, for people and tables: one row per run, one column per field.

Rows are what ``filter_summary_lineage`` finds, in its order; the data pipeline is omitted (runs with the same pipeline
have the same ``dataset_mark``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from mindsummary_lightning.errors import imported
from mindsummary_lightning.lineage.json_values import JsonValue
from mindsummary_lightning.lineage.query import filter_summary_lineage

if TYPE_CHECKING:
    import pandas

Cell: TypeAlias = "bool | int | float | str | None"

_GROUPS = ("metric", "user_defined")  # columns of these stand behind all others, in this order


def lineage_records(
    summary_base_dir: str | os.PathLike[str],
    search_condition: Mapping[str, Any] | None = None,
    *,
    recursive: bool = True,
) -> list[dict[str, Cell]]:
    """One flat dict per run.

    Args:
        summary_base_dir: as for :func:`~mindsummary_lightning.filter_summary_lineage`.
        search_condition: as for :func:`~mindsummary_lightning.filter_summary_lineage`.
        recursive: take runs at any depth; ``False``: the directory itself and its direct children, as MindInsight.

    Returns:
        Dicts with the same keys in the same order, which are ``summary_dir``, the fields of lineage, ``dataset_mark``,
        then ``metric/<name>`` and ``user_defined/<name>`` of any of the runs, nested data as ``user_defined/<a>/<b>``.
        A value that was not recorded is ``None``; a list is its JSON text.

    Raises:
        LineageSearchConditionParamError: and the other errors of :func:`~mindsummary_lightning.filter_summary_lineage`.

    Example:
        >>> [row["metric/accuracy"] for row in lineage_records("/runs", {"sorted_name": "loss"})]  # doctest: +SKIP
        [0.97, 0.91, None]
    """
    return flat_records(filter_summary_lineage(summary_base_dir, search_condition, recursive=recursive)["object"])


def flat_records(runs: Iterable[Mapping[str, Any]]) -> list[dict[str, Cell]]:
    """The ``object`` of a query's answer as rows; see :func:`lineage_records`."""
    rows = [flat_record(run) for run in runs]
    columns = sorted(dict.fromkeys(column for row in rows for column in row), key=_group)
    return [{column: row.get(column) for column in columns} for row in rows]


def lineage_to_pandas(
    summary_base_dir: str | os.PathLike[str],
    search_condition: Mapping[str, Any] | None = None,
    *,
    recursive: bool = True,
) -> pandas.DataFrame:
    """The rows of :func:`lineage_records` as a DataFrame, one column per field; needs pandas.

    Args:
        summary_base_dir: as for :func:`~mindsummary_lightning.filter_summary_lineage`.
        search_condition: as for :func:`~mindsummary_lightning.filter_summary_lineage`.
        recursive: take runs at any depth; ``False``: the directory itself and its direct children, as MindInsight.

    Raises:
        ImportError: pandas is not installed.
        LineageSearchConditionParamError: and the other errors of :func:`~mindsummary_lightning.filter_summary_lineage`.
    """
    pandas = imported("pandas", "a table of lineage")
    return pandas.DataFrame.from_records(lineage_records(summary_base_dir, search_condition, recursive=recursive))


def flat_record(run: Mapping[str, Any]) -> dict[str, Cell]:
    """One run of a query's answer as a row, in the answer's order; see :func:`lineage_records`."""
    row: dict[str, Cell] = {"summary_dir": run.get("summary_dir")}
    _add_cells(row, "", run.get("model_lineage", {}))  # a condition may ask for the other part only
    return row


def _add_cells(row: dict[str, Cell], prefix: str, values: Mapping[str, JsonValue]) -> None:
    for key, value in values.items():
        if isinstance(value, dict):
            _add_cells(row, f"{prefix}{key}/", value)
        else:
            row[prefix + key] = json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value


def _group(column: str) -> int:
    return _GROUPS.index(column.partition("/")[0]) if "/" in column else -1
