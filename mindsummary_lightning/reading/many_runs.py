"""Reads the scalars of many runs as a table."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.reading.run_directory import local_path
from mindsummary_lightning.reading.run_names import RunPath, run_names
from mindsummary_lightning.reading.run_tree import find_run_directories
from mindsummary_lightning.reading.series import ScalarSeries, scalar_table
from mindsummary_lightning.reading.summary_reader import SummaryReader

if TYPE_CHECKING:
    import pandas

_LOG = logging.getLogger(__name__)


def read_scalars(
    runs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    tags: Collection[str] | None = None,
) -> pandas.DataFrame:
    """Read the scalars of many runs as a table.

    Args:
        runs: run directories or readers; or one directory, whose runs at any depth are read.
        tags: the tags to read, of the runs that have them; ``None``: all.

    Returns:
        A row per sample, with ``run`` (categorical; the run's name, as in every table, of a path of
        your own the path itself), ``tag`` (categorical), ``step``, ``wall_time`` (seconds since the
        epoch) and ``value`` (float32). A run that is damaged is left out, and a warning names it.

    Raises:
        ImportError: pandas is not installed.
        TypeError: ``runs`` is neither a path nor an iterable, or ``tags`` is a str.
        OSError: a directory is missing, or is not a run but holds some.
        DamagedFileError: every run is damaged.

    Example:
        >>> table = read_scalars("runs", tags=["loss"])  # doctest: +SKIP
        >>> table.pivot_table(
        ...     index="step", columns="run", values="value", observed=True
        ... )  # doctest: +SKIP
    """
    if isinstance(tags, str):
        raise TypeError(f"tags must be a collection of names, not {tags!r}; write [{tags!r}]")
    labels: dict[str, list[str]] = {"run": [], "tag": []}
    found: list[ScalarSeries] = []
    damaged: list[DamagedFileError] = []
    named = _named(runs)
    for path, name in named.items():
        try:
            scalars = SummaryReader(path).all_scalars()
        except DamagedFileError as error:
            damaged.append(error)
            _LOG.warning("%s is left out: %s", name, error)
            continue
        for tag, series in scalars.items():
            if tags is None or tag in tags:
                labels["run"].append(name)
                labels["tag"].append(tag)
                found.append(series)
    if damaged and len(damaged) == len(named):
        raise damaged[0]
    return scalar_table(labels, found)


def _named(runs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> dict[str, str]:
    """Return the paths of runs, in a directory or a list, with the runs' names."""
    if isinstance(runs, (str, os.PathLike)) or not isinstance(runs, Iterable):
        base = local_path("runs", runs)
        return run_names(find_run_directories(base), base)
    names = {}
    for run in runs:
        path = os.fspath(run)
        names[path] = run.run if isinstance(run, RunPath) else path
    return names
