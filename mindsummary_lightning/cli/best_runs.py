"""``mindsummary list DIR --best SCALAR``: runs ranked from best to worst.

The table shows the settings that differ between the runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from mindsummary_lightning.cli import output
from mindsummary_lightning.cli.output import Answer, UsageError
from mindsummary_lightning.cli.runs import runs_in
from mindsummary_lightning.errors import LineageSearchConditionParamError
from mindsummary_lightning.lineage.ranking import (
    Ranking,
    cell_text,
    rank,
    ranked_columns,
    status_text,
)
from mindsummary_lightning.lineage.run_rows import RunRow, RunRows
from mindsummary_lightning.reading.run_directory import local_path


def best_runs(arguments: argparse.Namespace) -> Answer:
    """List the best runs as a table or JSON; exit 1 if a run cannot be read."""
    if len(arguments.directories) != 1:
        raise UsageError(
            "--best needs exactly one directory. Give only the directory with the runs to rank"
        )
    (directory,) = arguments.directories
    runs_in([directory])  # refuses a directory without runs
    table = RunRows(local_path("DIR", directory))
    try:
        ranking = rank(table, arguments.best, arguments.where)
    except LineageSearchConditionParamError as error:
        raise UsageError(str(error)) from error
    rows = ranking.rows[: arguments.limit]
    problems = [
        f"the scalars of {run} are left out: {problem}" for run, problem in table.problems.items()
    ]
    runs = [{"run": row.run, "path": row.path, **row.cells} for row in rows]
    answer: dict[str, Any] = {"by": ranking.column, "runs": runs}
    return Answer(answer, _lines(rows, ranking), int(bool(problems)), problems)


def _lines(rows: list[RunRow], ranking: Ranking) -> Iterator[str]:
    shown = ranked_columns(rows, ranking)
    lines = [["run", "status", *shown]]
    for row in rows:
        lines.append([row.run, status_text(row)])
        lines[-1] += [cell_text(row.cells.get(name)) for name in shown]
    numbers = []
    for index, name in enumerate(shown, 2):
        if not any(isinstance(row.cells.get(name), str) for row in rows):
            numbers.append(index)
    return output.table_lines(lines, numbers)
