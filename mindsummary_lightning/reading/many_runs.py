"""The runs below a directory, and their scalars as one table."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from mindsummary_lightning.reading.run_directory import local_path
from mindsummary_lightning.reading.run_tree import find_run_directories
from mindsummary_lightning.reading.series import ScalarSeries, scalar_table
from mindsummary_lightning.reading.summary_reader import SummaryReader

if TYPE_CHECKING:
    import pandas


def find_runs(runs_dir: str | os.PathLike[str]) -> list[str]:
    """The run directories at or below a directory, at any depth, in order of their paths; links are not followed.

    Args:
        runs_dir: the directory, or a run itself.

    Returns:
        Paths that begin with ``runs_dir``; whatever takes a run here takes them.

    Raises:
        OSError: ``runs_dir`` is missing, or cannot be listed.

    Example:
        >>> find_runs("runs")  # doctest: +SKIP
        ['runs/digits/version_0', 'runs/digits/version_1']
    """
    return find_run_directories(local_path("runs_dir", runs_dir))


def read_scalars(
    runs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], tags: Collection[str] | None = None
) -> pandas.DataFrame:
    """Scalars of many runs as one table.

    Args:
        runs: run directories or readers; or one directory, whose runs at any depth are read.
        tags: the tags to read, of the runs that have them; ``None``: all.

    Returns:
        A row per sample, with ``run`` (categorical; the path below ``runs``, or as it was given), ``tag``
        (categorical), ``step``, ``wall_time`` (seconds since the epoch) and ``value`` (float32).

    Raises:
        ImportError: pandas is not installed.
        TypeError: ``runs`` is neither a path nor an iterable, or ``tags`` is a str.
        OSError: a directory is missing, or is not a run but holds some.
        DamagedFileError: a file is damaged.

    Example:
        >>> table = read_scalars("runs", tags=["loss"])  # doctest: +SKIP
        >>> table.pivot_table(index="step", columns="run", values="value", observed=True)  # doctest: +SKIP
    """
    if isinstance(tags, str):
        raise TypeError(f"tags must be a collection of names, not {tags!r}; write [{tags!r}]")
    if isinstance(runs, (str, os.PathLike)) or not isinstance(runs, Iterable):
        base = local_path("runs", runs)
        named = {os.path.relpath(run, base): run for run in find_runs(base)}
    else:
        named = {os.fspath(run): os.fspath(run) for run in runs}
    found: list[tuple[str, str, ScalarSeries]] = []
    for name, path in named.items():
        reader = SummaryReader(path)
        scalars = reader.all_scalars()
        found += [(name, tag, series) for tag, series in scalars.items() if tags is None or tag in tags]
    labels = {"run": [name for name, _, _ in found], "tag": [tag for _, tag, _ in found]}
    return scalar_table(labels, [series for _, _, series in found])
