"""Convert the lineage of runs to flat rows: a row per run, a column per field.

Rows are the runs that ``filter_summary_lineage`` finds, in its order. The data pipeline is left
out; runs with the same pipeline have the same ``dataset_mark``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from mindsummary_lightning.errors import imported
from mindsummary_lightning.lineage.column_names import METRIC, setting_column
from mindsummary_lightning.lineage.json_values import JsonValue
from mindsummary_lightning.lineage.merge import FIELDS
from mindsummary_lightning.lineage.query import filter_summary_lineage
from mindsummary_lightning.reading.run_names import names_of_ids

if TYPE_CHECKING:
    import pandas

Cell: TypeAlias = "bool | int | float | str | None"

_FIELDS = frozenset(("run", "dataset_mark", *FIELDS))


def lineage_records(
    summary_base_dir: str | os.PathLike[str],
    search_condition: Mapping[str, Any] | None = None,
    *,
    recursive: bool = True,
) -> list[dict[str, Cell]]:
    """Return the lineage (settings and results) of runs as flat dicts, a dict per run.

    Args:
        summary_base_dir: as for :func:`~mindsummary_lightning.filter_summary_lineage`.
        search_condition: as for :func:`~mindsummary_lightning.filter_summary_lineage`.
        recursive: take runs at any depth; ``False``: the directory itself and its direct children,
            as MindInsight.

    Returns:
        Dicts with the same keys in the same order, which are ``run`` (the run's name, as in every
        table), the fields of lineage, ``dataset_mark``, then ``metric/<name>`` and settings of any
        of the runs, nested ones as ``<a>/<b>``. A setting with the name of another column is
        ``user_defined/<name>``. A value that was not recorded is ``None``; a list is its JSON text.

    Raises:
        LineageSearchConditionParamError: and the other errors of
            :func:`~mindsummary_lightning.filter_summary_lineage`.

    Example:
        >>> [
        ...     row["metric/accuracy"] for row in lineage_records("/runs", {"sorted_name": "loss"})
        ... ]  # doctest: +SKIP
        [0.97, 0.91, None]
    """
    answer = filter_summary_lineage(summary_base_dir, search_condition, recursive=recursive)
    return flat_records(answer["object"], os.fspath(summary_base_dir))


def flat_records(runs: Iterable[Mapping[str, Any]], base: str) -> list[dict[str, Cell]]:
    """Convert the runs of a query's answer to flat dicts, see :func:`lineage_records`.

    ``base`` is the directory of the runs.
    """
    answered = list(runs)
    names = names_of_ids([str(run.get("summary_dir", "./")) for run in answered], base)
    rows = [flat_record(run, name) for run, name in zip(answered, names, strict=True)]
    names_of_columns: dict[str, None] = {}
    for row in rows:
        names_of_columns.update(dict.fromkeys(row))
    columns = sorted(names_of_columns, key=_group)
    records = []
    for row in rows:
        records.append({column: row.get(column) for column in columns})
    return records


def lineage_to_pandas(
    summary_base_dir: str | os.PathLike[str],
    search_condition: Mapping[str, Any] | None = None,
    *,
    recursive: bool = True,
) -> pandas.DataFrame:
    """Return the lineage (settings and results) of runs as a pandas DataFrame.

    Args:
        summary_base_dir: as for :func:`~mindsummary_lightning.filter_summary_lineage`.
        search_condition: as for :func:`~mindsummary_lightning.filter_summary_lineage`.
        recursive: take runs at any depth; ``False``: the directory itself and its direct children,
            as MindInsight.

    Raises:
        ImportError: pandas is not installed.
        LineageSearchConditionParamError: and the other errors of
            :func:`~mindsummary_lightning.filter_summary_lineage`.
    """
    pandas = imported("pandas", "a table of lineage")
    return pandas.DataFrame.from_records(
        lineage_records(summary_base_dir, search_condition, recursive=recursive)
    )


def flat_record(run: Mapping[str, Any], name: str) -> dict[str, Cell]:
    """Convert a run of a query's answer to a flat dict, in the order of the answer.

    See :func:`lineage_records`.
    """
    model = dict(run.get("model_lineage", {}))  # a condition may ask for the other part only
    settings = flat_values(model.pop("user_defined", {}))
    metrics = flat_values(model.pop("metric", {}), METRIC)
    own = {setting_column(setting): cell for setting, cell in settings.items()}
    return {"run": name, **flat_values(model), **metrics, **own}


def flat_values(values: Mapping[str, JsonValue], prefix: str = "") -> dict[str, Cell]:
    """Flatten nested dicts: join the keys with ``/``, and convert lists to JSON text."""
    row: dict[str, Cell] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            row.update(flat_values(value, f"{prefix}{key}/"))
        elif isinstance(value, list):
            row[prefix + key] = json.dumps(value, ensure_ascii=False)
        else:
            row[prefix + key] = value
    return row


def _group(column: str) -> int:
    """Return the rank of a column: 0 for a field of lineage, 1 a metric, 2 a setting."""
    if column in _FIELDS:
        return 0
    return 1 if column.startswith(METRIC) else 2
