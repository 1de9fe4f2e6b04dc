"""Which of many runs is best: by which column, and in which direction."""

from __future__ import annotations

from dataclasses import dataclass

from mindsummary_lightning.errors import LineageSearchConditionParamError, closest
from mindsummary_lightning.lineage.cell_values import in_order
from mindsummary_lightning.lineage.column_names import is_statistic
from mindsummary_lightning.lineage.run_rows import RunRow, RunRows
from mindsummary_lightning.reading.scalar_summaries import is_lower_better
from mindsummary_lightning.values.text import listed


@dataclass(frozen=True, slots=True)
class Ranking:
    """Runs from the best to the worst; those without a value come last.

    Attributes:
        rows: the runs.
        column: what they are compared by.
        tag: the scalar whose statistic that is; ``""`` of another column.
    """

    rows: list[RunRow]
    column: str
    tag: str = ""


def rank(table: RunRows, name: str, where: list[str] | None = None) -> Ranking:
    """Put runs in order, the best first.

    Args:
        table: the runs; their scalars are read.
        name: a scalar such as ``val/loss``, by its best value; ``last:val/loss``, by its last one; or another column,
            such as ``metric/test/acc``. A loss or an error is better the lower it is, everything else the higher.
        where: conditions that the runs must meet.

    Raises:
        LineageSearchConditionParamError: no run has the scalar or column, several end in the name, or a condition is
            refused.
    """
    table.read_scalars()
    found = table.found(where or None)
    column = _column(name, table.columns())
    tag = column.partition(":")[2] if is_statistic(column) else ""
    is_descending = not is_lower_better(tag or column)
    return Ranking(in_order(found, lambda row: row.value(column), is_descending=is_descending), column, tag)


def _column(name: str, columns: list[str]) -> str:
    if name in columns:
        return name
    tags = [column.removeprefix("last:") for column in columns if column.startswith("last:")]
    ending = [tag for tag in tags if tag == name] or [tag for tag in tags if tag.endswith(f"/{name}")]
    if len(ending) == 1:
        return f"{'min' if is_lower_better(ending[0]) else 'max'}:{ending[0]}"
    metrics = [column for column in columns if column.endswith(f"/{name}")]
    if not ending and len(metrics) == 1:
        return metrics[0]
    several = ending or metrics
    hint = f"; which of {listed(sorted(several), 5)}?" if several else closest(name, [*tags, *columns])
    raise LineageSearchConditionParamError(f"no run has a scalar {name!r}{hint}")
