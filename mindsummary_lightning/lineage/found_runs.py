"""Find the runs in a directory that meet a query, as paths or as a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mindsummary_lightning.errors import imported
from mindsummary_lightning.lineage.run_rows import (
    TIMES,
    RunRows,
    has_exact_int,
    ordered_columns,
    time_of,
)
from mindsummary_lightning.reading.run_directory import local_path
from mindsummary_lightning.reading.run_names import RunPath, run_names
from mindsummary_lightning.reading.run_tree import find_run_directories

if TYPE_CHECKING:
    import pandas


def find_runs(
    runs_dir: str | os.PathLike[str],
    *,
    where: str | Sequence[str] | None = None,
    sort: str | None = None,
    descending: bool = False,
) -> list[RunPath]:
    """Find the run directories in a directory, at any depth, without following links.

    Args:
        runs_dir: the directory, or a run itself.
        where: which runs, in the language of ``mindsummary lineage --where``, for example
            ``"status=finished lr<0.1"``. A run must meet every text of a list.
        sort: a column of :func:`~mindsummary_lightning.runs_to_pandas` to sort by, for example
            ``"last:val/loss"``, the smallest value first. Runs without a value, and NaN, come last.
            Without it, runs are in order of their paths.
        descending: begin with the largest value instead.

    Returns:
        Paths that begin with ``runs_dir``. You can pass them to every function of this package that
        takes a run. Their attribute ``run`` is the run's name, as in every table.

    Raises:
        LineageSearchConditionParamError: ``where`` or ``sort`` is refused.
        OSError: ``runs_dir`` is missing, or cannot be listed.

    Example:
        >>> find_runs("runs")  # doctest: +SKIP
        ['runs/digits/version_0', 'runs/digits/version_1']
        >>> find_runs("runs", sort="min:val/loss")[0].run  # doctest: +SKIP
        'digits/version_1'
    """
    base = local_path("runs_dir", runs_dir)
    if where is None and sort is None:  # no file needs to be opened
        names = run_names(find_run_directories(base), base)
        return [RunPath(path, name) for path, name in names.items()]
    return [RunPath(row.path, row.run) for row in RunRows(base).found(where, sort, descending)]


def runs_to_pandas(
    runs_dir: str | os.PathLike[str],
    *,
    where: str | Sequence[str] | None = None,
    sort: str | None = None,
    descending: bool = False,
    differing: bool = False,
) -> pandas.DataFrame:
    """Return a pandas table of the runs in a directory, with a row per run.

    Args:
        runs_dir: the directory, or a run itself.
        where: as for :func:`~mindsummary_lightning.find_runs`.
        sort: as for :func:`~mindsummary_lightning.find_runs`.
        descending: as for :func:`~mindsummary_lightning.find_runs`.
        differing: leave out settings that have the same value in all these runs.

    Returns:
        A table whose index ``run`` is the run's name. It has these columns, if a run has a value:

        * ``status``: running, finished, failed, interrupted, killed, pruned, or missing for a run
          that did not record how it ended.
        * ``diverged``: whether a loss ended as NaN or infinite.
        * ``started``, ``written``: times in UTC.
        * ``duration``: seconds of recording.
        * ``steps``: the last step.
        * ``metric/<name>``: metrics of evaluations.
        * settings by their own names, settings that differ first.
        * ``last:<tag>``, ``min:<tag>``, ``max:<tag>`` and ``best_step:<tag>`` of every scalar.
        * ``path``: the run directory.

        A run whose scalars cannot be read has no values in these columns, and a warning names it.

    Raises:
        ImportError: pandas is not installed.
        LineageSearchConditionParamError: ``where`` or ``sort`` is refused.
        OSError: ``runs_dir`` is missing, or cannot be listed.

    Example:
        >>> runs = runs_to_pandas("runs", sort="min:val/loss")  # doctest: +SKIP
        >>> runs[["status", "lr", "min:val/loss", "best_step:val/loss"]].head()  # doctest: +SKIP
    """
    pandas = imported("pandas", "a table of runs")
    table = RunRows(local_path("runs_dir", runs_dir))
    table.read_scalars()
    rows = table.found(where, sort, descending)
    columns: dict[str, Any] = {}
    for name in ordered_columns(rows, differing=differing):
        columns[name] = [row.cells.get(name) for row in rows]
    for name in TIMES:
        if name in columns:
            columns[name] = pandas.to_datetime(list(map(time_of, columns[name])), utc=True)
    for name, cells in columns.items():
        if name not in TIMES and has_exact_int(cells):
            columns[name] = pandas.array(cells, dtype="Int64")  # with gaps they would become floats
    columns["path"] = [row.path for row in rows]
    index = pandas.Index([row.run for row in rows], name="run", dtype=object)
    return pandas.DataFrame(columns, index=index)
