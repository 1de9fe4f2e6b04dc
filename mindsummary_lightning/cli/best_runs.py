"""``mindsummary list DIR --best SCALAR``: the runs from the best to the worst, with what tells them apart."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import Any

from mindsummary_lightning.cli import output
from mindsummary_lightning.cli.output import Answer, UsageError, short_number
from mindsummary_lightning.cli.runs import runs_in
from mindsummary_lightning.errors import LineageSearchConditionParamError, printable
from mindsummary_lightning.lineage.column_names import FIRST, METRIC, is_of_files
from mindsummary_lightning.lineage.ranking import Ranking, rank
from mindsummary_lightning.lineage.run_rows import RunRow, RunRows, ordered_columns
from mindsummary_lightning.lineage.table import Cell
from mindsummary_lightning.reading.run_directory import local_path
from mindsummary_lightning.reading.scalar_summaries import is_lower_better


def best_runs(arguments: argparse.Namespace) -> Answer:
    """The runs as a table or JSON; 1 if the scalars of a run cannot be read."""
    if len(arguments.directories) != 1:
        raise UsageError("--best compares the runs in one directory: give one")
    (directory,) = arguments.directories
    runs_in([directory])  # refuses a directory without runs
    table = RunRows(local_path("DIR", directory))
    try:
        ranking = rank(table, arguments.best, arguments.where)
    except LineageSearchConditionParamError as error:
        raise UsageError(str(error)) from error
    rows = ranking.rows[: arguments.limit]
    problems = [f"the scalars of {run} are left out: {problem}" for run, problem in table.problems.items()]
    runs = [{"run": row.run, "path": row.path, **row.cells} for row in rows]
    answer: dict[str, Any] = {"by": ranking.column, "runs": runs}
    return Answer(answer, _lines(rows, ranking), int(bool(problems)), problems)


def _lines(rows: list[RunRow], ranking: Ranking) -> Iterator[str]:
    columns = ordered_columns(rows, differing=True)
    extreme = "min" if is_lower_better(ranking.tag) else "max"
    of_tag = [f"{statistic}:{ranking.tag}" for statistic in (extreme, "last", "best_step")] if ranking.tag else []
    asked = [ranking.column, *of_tag]
    settings = [name for name in columns if not (name in FIRST or name.startswith(METRIC) or is_of_files(name))]
    metrics = [name for name in columns if name.startswith(METRIC)]
    names = dict.fromkeys([*asked, *settings, *metrics])
    shown = [name for name in names if any(row.cells.get(name) is not None for row in rows)]
    lines = [["run", "status", *shown]]
    lines += [[row.run, _status(row), *(_text(row.cells.get(name)) for name in shown)] for row in rows]
    numbers = [at for at, name in enumerate(shown, 2) if not any(isinstance(row.cells.get(name), str) for row in rows)]
    return output.table_lines(lines, numbers)


def _status(row: RunRow) -> str:
    words = [str(row.cells["status"])] if row.cells.get("status") else []
    return ", ".join([*words, *(["diverged"] if row.cells.get("diverged") else [])]) or "-"


def _text(cell: Cell) -> str:
    if isinstance(cell, float) and not math.isfinite(cell):
        return str(cell)
    return short_number(cell) if cell is None or isinstance(cell, float) else printable(str(cell))
