"""Rank runs from best to worst by a scalar or another column of their table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mindsummary_lightning.errors import LineageSearchConditionParamError, closest, printable
from mindsummary_lightning.lineage.cell_values import in_order
from mindsummary_lightning.lineage.column_names import FIRST, METRIC, is_of_files, is_statistic
from mindsummary_lightning.lineage.run_rows import RunRow, RunRows, ordered_columns
from mindsummary_lightning.lineage.table import Cell
from mindsummary_lightning.reading.scalar_summaries import is_lower_better
from mindsummary_lightning.values.text import Phrase, listed

_RESULTS = ("loss", "epoch", "model_size")  # fields of lineage that a training brings about


@dataclass(frozen=True, slots=True)
class Ranking:
    """Runs from best to worst by a column; runs without a value come last.

    Attributes:
        rows: the runs.
        column: the column that the runs are compared by.
        tag: the scalar whose statistic ``column`` is; ``""`` for another column.
    """

    rows: list[RunRow]
    column: str
    tag: str = ""


def rank(table: RunRows, name: str, where: list[str] | None = None) -> Ranking:
    """Sort runs from best to worst by a scalar or another column.

    Args:
        table: the runs; their scalars are read.
        name: a scalar such as ``val/loss``, compared by its best value; ``last:val/loss``, compared
            by its last value; or another column, such as ``metric/test/acc``. A loss or an error is
            better if it is lower, everything else if it is higher. ``min:`` or ``max:`` before the
            name overrides this rule.
        where: conditions that the runs must meet.

    Raises:
        LineageSearchConditionParamError: no run has the scalar or column, several end in the name,
            or a condition is refused.
    """
    table.read_scalars()
    found = table.found(where or None)
    column = _column(name, table.columns())
    statistic, _, tag = column.partition(":") if is_statistic(column) else ("", "", "")
    is_descending = not is_lower_better(tag or column)
    if statistic in ("min", "max"):
        is_descending = statistic == "max"
    rows = in_order(found, lambda row: row.value(column), is_descending=is_descending)
    return Ranking(rows, column, tag)


def ranked_columns(rows: Sequence[RunRow], ranking: Ranking) -> list[str]:
    """List the columns to show in a table of ranked runs.

    They are the column of the ranking, settings that differ, and metrics.
    """
    extreme = "min" if is_lower_better(ranking.tag) else "max"
    names = [ranking.column]
    if ranking.tag:
        names += [f"{statistic}:{ranking.tag}" for statistic in (extreme, "last", "best_step")]
    settings = []
    metrics = []
    for name in ordered_columns(rows, differing=True):
        if name.startswith(METRIC):
            metrics.append(name)
        elif name not in FIRST and not is_of_files(name):
            settings.append(name)
    names += _without_repetition(rows, settings) + metrics
    recorded: list[str] = []
    for name in dict.fromkeys(names):
        if any(row.cells.get(name) is not None for row in rows):
            recorded.append(name)
    return recorded


def status_text(row: RunRow) -> str:
    """Return a text of a run's status and divergence; ``-`` if both are unknown."""
    words = []
    if row.cells.get("status"):
        words.append(str(row.cells["status"]))
    if row.cells.get("diverged"):
        words.append("diverged")
    if not words:
        return "-"
    return Phrase(", ".join(["{}"] * len(words)), *map(Phrase, words))


def cell_text(cell: Cell) -> str:
    """Format a table cell: a number with six digits, ``-`` for no value."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.6g}"
    return printable(str(cell))


def _without_repetition(rows: Sequence[RunRow], settings: Sequence[str]) -> list[str]:
    """Leave results and repeated nested settings out of a list of settings.

    A nested setting is repeated if a plain setting has the same values in all runs, such as the
    optimizer's ``optimizer_groups/0/lr`` if ``lr`` is a setting.
    """
    cells = {}
    for name in settings:
        if name not in _RESULTS:
            cells[name] = [row.cells.get(name) for row in rows]
    plain = [column for name, column in cells.items() if "/" not in name]
    return [name for name, column in cells.items() if "/" not in name or column not in plain]


def _ending_in(paths: Sequence[str], name: str) -> list[str]:
    return [path for path in paths if path.endswith(f"/{name}")]


def _column(name: str, columns: list[str]) -> str:
    if name in columns:
        return name
    tags = [column.removeprefix("last:") for column in columns if column.startswith("last:")]
    ending = [name] if name in tags else _ending_in(tags, name)
    if len(ending) == 1:
        return f"{'min' if is_lower_better(ending[0]) else 'max'}:{ending[0]}"
    metrics = _ending_in(columns, name)
    if not ending and len(metrics) == 1:
        return metrics[0]
    several = ending or metrics
    hint = closest(name, [*tags, *columns])
    if several:
        hint = f" itself. Name one of {listed(sorted(several), 5)}"
    raise LineageSearchConditionParamError(f"no run has a scalar {name!r}{hint}")
