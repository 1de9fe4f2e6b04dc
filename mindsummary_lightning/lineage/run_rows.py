"""Table of runs with a row per run: status, metrics, settings and scalars.

The columns have the same names in every table:

* ``status``, ``diverged``, ``started``, ``duration``, ``steps`` and ``written``
* ``metric/<name>`` for each metric of an evaluation
* fields of lineage and settings by their own names; a setting that has the same name as another
  column is ``user_defined/<name>``
* ``last:<tag>``, ``min:<tag>``, ``max:<tag>`` and ``best_step:<tag>`` for each scalar
"""

from __future__ import annotations

import datetime
import itertools
import logging
import math
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mindsummary_lightning.lineage.cell_values import in_order
from mindsummary_lightning.lineage.column_names import (
    FIRST,
    METRIC,
    USER_DEFINED,
    is_of_files,
    setting_column,
)
from mindsummary_lightning.lineage.conditions import NUMBER_FIELDS
from mindsummary_lightning.lineage.field_names import QueryError, field_of
from mindsummary_lightning.lineage.merge import FIELDS, MergedLineage
from mindsummary_lightning.lineage.query_conditions import Conditions
from mindsummary_lightning.lineage.query_language import parse_conditions
from mindsummary_lightning.lineage.scalar_statistics import facts_of
from mindsummary_lightning.lineage.search import CACHE, reading
from mindsummary_lightning.lineage.table import Cell, flat_values
from mindsummary_lightning.reading.run_names import names_of_ids
from mindsummary_lightning.reading.run_status import run_status
from mindsummary_lightning.reading.run_tree import ListedRun, RunTree, with_lineage_files
from mindsummary_lightning.reading.scalar_summaries import RunScalars, read_run_scalars
from mindsummary_lightning.values.lineage_info import EXACT_MAX

_LOG = logging.getLogger(__name__)

TIMES = ("started", "written")
"""Columns that hold Unix times in seconds; tables may show them as dates."""
# MindInsight's texts of such numbers
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(slots=True)
class RunRow:
    """A run as a row of a table: name, directory, and values by column.

    Attributes:
        run: its name, the same in every table.
        path: its directory.
        cells: values by column; a column without a value is missing.
    """

    run: str
    path: str
    cells: dict[str, Cell] = field(default_factory=dict)

    def value(self, name: str) -> Cell:
        """Return the value of a field that a query names; ``None`` if there is no value."""
        if name in ("run", "summary_dir"):
            return self.run
        found = self.cells.get(name)
        if found is None:
            return self.cells.get(name.removeprefix(USER_DEFINED))
        return found

    def queried(self, fields: Iterable[str]) -> dict[str, Cell]:
        """Return all values by column, and the values of the fields that a query names.

        A query may spell a column ``user_defined/<name>``.
        """
        values: dict[str, Cell] = {"run": self.run, **self.cells}
        for name in fields:
            values[name] = self.value(name)
        return values


class RunRows:
    """Rows of the runs in a directory, at any depth, in order of their paths.

    Args:
        base: the directory, or a run itself.
        now_s: Unix time, seconds, to tell running runs from killed runs; ``None`` is now.
        only: names of the runs to read; ``None`` takes all.

    Attributes:
        rows: a row for each run.
        problems: why scalars of a run are missing, by the run's name.

    Raises:
        OSError: the directory cannot be listed.
    """

    def __init__(
        self, base: str, now_s: float | None = None, only: Collection[str] | None = None
    ) -> None:
        os.scandir(base).close()  # what is below it may be skipped with a warning, but not itself
        self._now_s = time.time() if now_s is None else now_s
        self.problems: dict[str, str] = {}
        self._has_scalars = False
        named = _named_runs(base)
        if only is not None:
            named = {name: run for name, run in named.items() if name in only}
        lineages = _lineages(list(named.values()))
        self.rows: list[RunRow] = []
        for (name, run), lineage in zip(named.items(), lineages, strict=True):
            self.rows.append(RunRow(name, run.path, self._cells(run, lineage)))
        self.rows.sort(key=lambda row: row.path.split(os.sep))
        join_old_metrics([row.cells for row in self.rows])

    def _cells(self, run: ListedRun, lineage: MergedLineage | None) -> dict[str, Cell]:
        cells = lineage_cells(lineage)
        info = {} if lineage is None else lineage.sections["run_info"]
        cells["status"] = run_status(run.path, info, self._now_s)
        cells["written"] = run.update_time_us / 1e6
        return cells

    def found(
        self,
        where: str | Sequence[str] | None = None,
        sort: str | None = None,
        descending: bool = False,
    ) -> list[RunRow]:
        """Return the rows that meet a query, sorted by a column if ``sort`` names it.

        Scalars are read if the query needs them.

        Raises:
            QueryError: the query is refused.
        """
        try:
            conditions, by = self._parsed(where, sort)
        except QueryError as error:
            if error.problem != "unknown" or self._has_scalars:
                raise
            self.read_scalars()  # the name may be that of a scalar
            conditions, by = self._parsed(where, sort)
        asked = list(conditions.fields)
        if by:
            asked.append(by)
        if any(map(is_of_files, asked)):
            self.read_scalars()
        found = [row for row in self.rows if conditions.matches(row.queried(asked))]
        if not by:
            return found
        return in_order(found, lambda row: row.value(by), is_descending=descending)

    def _parsed(
        self, where: str | Sequence[str] | None, sort: str | None
    ) -> tuple[Conditions, str | None]:
        known = {"run", *FIRST, *FIELDS, *self.columns()}
        conditions = Conditions() if where is None else parse_conditions(where, known)
        return conditions, None if sort is None else _sort_field(sort, known)

    def read_scalars(self) -> None:
        """Read the scalars of all runs into the rows; further calls do nothing.

        A warning names each run that cannot be read.
        """
        if self._has_scalars:
            return
        self._has_scalars = True
        rows = {row.path: row for row in self.rows}
        for path, found in read_run_scalars(rows):
            row = rows[path]
            if isinstance(found, RunScalars):
                row.cells.update(scalar_cells(found))
            else:
                self.problems[row.run] = str(found)
                _LOG.warning("the scalars of %s are left out: %s", row.run, found)

    def take_scalars(self, scalars: Mapping[str, RunScalars]) -> None:
        """Fill the rows with scalars that the caller has read, by name of the run."""
        self._has_scalars = True
        for row in self.rows:
            if row.run in scalars:
                row.cells.update(scalar_cells(scalars[row.run]))

    def columns(self) -> list[str]:
        """List the columns in which at least one run has a value, in any order."""
        return _recorded(self.rows)


def _named_runs(base: str) -> dict[str, ListedRun]:
    """List the runs in a directory, at any depth, by name."""
    listed = [run for run in RunTree(base).scan() if run.summary_files or run.lineage_names]
    names = names_of_ids([run.train_id for run in listed], base)
    return dict(zip(names, listed, strict=True))


def lineage_cells(lineage: MergedLineage | None) -> dict[str, Cell]:
    """Convert the lineage of a run to table cells by column, without its status."""
    if lineage is None:
        return {}
    cells: dict[str, Cell] = dict(lineage.fields)
    for name in NUMBER_FIELDS:
        cells[name] = _NOT_FINITE.get(cells[name], cells[name])  # type: ignore[arg-type]
    fields = dict(cells)
    cells.update(flat_values(lineage.sections["metric"], METRIC))
    custom = dict(lineage.sections["run_info"])
    custom.pop("status", None)
    custom.update(lineage.sections["user_defined"])
    for name, cell in flat_values(custom).items():
        if name not in fields or fields[name] != cell:
            cells[setting_column(name)] = cell
    return {name: cell for name, cell in cells.items() if cell is not None}


def scalar_cells(scalars: RunScalars) -> dict[str, Cell]:
    """Convert the scalars of a run to table cells by column."""
    cells: dict[str, Cell] = {**facts_of(scalars)}
    for tag, summary in scalars.tags.items():
        cells[f"last:{tag}"] = summary.last
        cells[f"min:{tag}"] = None if math.isnan(summary.min) else summary.min
        cells[f"max:{tag}"] = None if math.isnan(summary.max) else summary.max
        cells[f"best_step:{tag}"] = summary.best_step(tag)
    return cells


def join_old_metrics(rows: Sequence[dict[str, Cell]]) -> None:
    """Move metrics that older versions recorded as settings into the metrics' columns.

    Older versions recorded a validation's metrics as settings after the run was tested. If a name
    is a metric in some run, a setting of this name whose value is a float is the same quantity.
    """
    names = set(itertools.chain.from_iterable(rows))  # of ten thousand runs, so in C
    old = []
    for name in names:
        setting = setting_column(name.removeprefix(METRIC))
        if name.startswith(METRIC) and setting in names:
            old.append((setting, name))
    if not old:
        return
    for row in rows:
        for setting, metric in old:
            if isinstance(row.get(setting), float):
                row.setdefault(metric, row[setting])
                del row[setting]


def ordered_columns(rows: Sequence[RunRow], *, differing: bool = False) -> list[str]:
    """List the columns of some rows in the order in which tables show them.

    The order is: :data:`FIRST`, metrics, settings that differ, other settings, scalars.

    ``differing`` leaves out the settings that have the same value in all rows.
    """
    names = _recorded(rows)
    first = [name for name in FIRST if name in names]
    metrics = []
    scalars = []
    settings = []
    for name in names:
        if name in FIRST:
            continue
        if name.startswith(METRIC):
            metrics.append(name)
        elif is_of_files(name):
            scalars.append(name)
        else:
            settings.append(name)
    return first + metrics + _settings(rows, settings, differing=differing) + scalars


def _settings(rows: Sequence[RunRow], names: Sequence[str], *, differing: bool) -> list[str]:
    """List the settings that differ among the rows, then equal settings if wanted."""
    shown = [name for name in names if _differs(rows, name)]
    if not differing or len(rows) == 1:
        shown += [name for name in names if name not in shown]
    return shown


def time_of(seconds: Cell) -> datetime.datetime | None:
    """Convert a Unix time in seconds to a ``datetime`` in UTC.

    The result is ``None`` if no calendar has the time, as after the year 9999.
    """
    if not isinstance(seconds, (int, float)):
        return None
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    except (OSError, OverflowError, ValueError):
        return None


def _recorded(rows: Sequence[RunRow]) -> list[str]:
    """List the columns in which at least one row has a value, without repetition."""
    names: dict[str, None] = {}
    for row in rows:
        for name, cell in row.cells.items():
            if cell is not None:
                names[name] = None
    return list(names)


def has_exact_int(cells: Sequence[Cell]) -> bool:
    """Tell whether pandas would round ints of a column because cells are missing.

    So it is if all values are ints, a cell is missing, and an int of 64 bits is beyond 2**53.
    """
    has_gap = has_inexact = False
    for cell in cells:
        if cell is None:
            has_gap = True
        elif type(cell) is not int:
            return False
        elif EXACT_MAX < abs(cell) < 2**63:
            has_inexact = True
    return has_gap and has_inexact


def _differs(rows: Sequence[RunRow], name: str) -> bool:
    first = rows[0].cells.get(name)
    return any(row.cells.get(name) != first for row in rows)


def _sort_field(name: str, known: Collection[str]) -> str:
    if is_of_files(name):
        return name
    return field_of(name.removeprefix(USER_DEFINED), known)


def _lineages(listed: Sequence[ListedRun]) -> list[MergedLineage | None]:
    directories = [with_lineage_files(run) for run in listed]
    with reading():
        return CACHE.lineages([(directory.path, directory.files) for directory in directories])
