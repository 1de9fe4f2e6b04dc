"""Collect the contents of the report about many runs: ranking, settings, curves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mindsummary_lightning.errors import LineageSearchConditionParamError, closest
from mindsummary_lightning.export.report.contents import (
    ReportRun,
    colour_of,
    common_directory,
    open_runs,
)
from mindsummary_lightning.export.report.coordinates import parallel_coordinates
from mindsummary_lightning.lineage.ranking import (
    Ranking,
    cell_text,
    rank,
    ranked_columns,
    status_text,
)
from mindsummary_lightning.lineage.run_rows import RunRow, RunRows
from mindsummary_lightning.reading.run_names import run_names

MANY = 8
"""Largest number of runs that a page shows as columns, each in its colour; more are rows."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The contents of the report about many runs.

    Attributes:
        ranking: all runs, the best first.
        columns: columns of the table.
        lines: the table's cells, a row for each run.
        coordinates: SVG of the settings that differ and of the column that runs are compared by;
            ``""`` if no setting differs.
        drawn: the runs whose curves are drawn.
        problems: why runs cannot be read, by name of the run.
        groups: colour by value of the setting that curves are grouped by.
    """

    ranking: Ranking
    columns: list[str]
    lines: list[list[str]]
    coordinates: str
    drawn: list[ReportRun]
    problems: dict[str, str]
    groups: dict[str, str]


def make_sweep(
    run_dirs: Sequence[str],
    by: str | None,
    best: int | None,
    group: str | None,
    say: Callable[..., str],
) -> Sweep:
    """Read many runs, rank them, and collect the contents of the report.

    Args:
        run_dirs: the runs.
        by: how runs are compared, as for :func:`~mindsummary_lightning.lineage.ranking.rank`.
            ``None`` takes a scalar of a validation, or else a loss, that most runs have.
        best: number of runs whose curves are drawn, from the best run on; ``None`` draws all runs
            with ``group``, and eight without it.
        group: name of a setting; runs with the same value of it have the same colour.
        say: returns a text in the page's language.

    Raises:
        LineageSearchConditionParamError: no run has ``by`` or ``group``.
    """
    base = common_directory(run_dirs)
    names = run_names(run_dirs, base)
    paths = dict(zip(names.values(), names, strict=True))
    table = RunRows(base, only=set(names.values()))
    table.read_scalars()
    ranking = rank(table, by or _usual_scalar(table.rows))
    if group is not None and group not in table.columns():
        hint = closest(group, table.columns())
        raise LineageSearchConditionParamError(f"no run has a setting {group!r}{hint}")
    count = best or (len(ranking.rows) if group else MANY)
    chosen = [row for row in ranking.rows if row.run not in table.problems][:count]
    runs, problems = open_runs([paths[row.run] for row in chosen], base)
    groups = _groups(chosen, group)
    if group:
        colours = {row.run: groups[_value(row, group)] for row in chosen}
        runs = [replace(run, own_colour=colours.get(run.name, "")) for run in runs]
    columns = ranked_columns(ranking.rows, ranking)
    return Sweep(
        ranking,
        columns,
        [_cells(row, columns) for row in ranking.rows],
        parallel_coordinates(ranking.rows, columns, ranking.column, say("parallel coordinates")),
        runs,
        {**table.problems, **problems},
        groups,
    )


def _cells(row: RunRow, columns: Sequence[str]) -> list[str]:
    return [row.run, status_text(row), *(cell_text(row.cells.get(name)) for name in columns)]


def _usual_scalar(rows: Sequence[RunRow]) -> str:
    """Choose the scalar by which the runs are most likely to be compared.

    Tags of a validation come first, then losses, then the tags that most runs have.
    """
    tags: Counter[str] = Counter()
    for row in rows:
        for name in row.cells:
            if name.startswith("last:"):
                tags[name.removeprefix("last:")] += 1
    if not tags:
        raise LineageSearchConditionParamError(
            "no run has a scalar to compare by. Name a column: --by COLUMN"
        )

    def likelihood(tag: str) -> tuple[bool, bool, int]:
        return tag.lower().startswith("val"), "loss" in tag.lower(), tags[tag]

    return max(tags, key=likelihood)


def _groups(rows: Sequence[RunRow], group: str | None) -> dict[str, str]:
    """Assign a colour to every value of a setting, in the order of the values."""
    if group is None:
        return {}
    values = sorted({_value(row, group) for row in rows}, key=lambda text: (len(text), text))
    return {value: colour_of(at) for at, value in enumerate(values)}


def _value(row: RunRow, group: str | None) -> str:
    return cell_text(row.cells.get(group or ""))
