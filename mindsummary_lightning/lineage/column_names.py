"""Names of columns in tables of runs.

A column has the same name in every table, export and query.

``metric/<name>`` is a metric of an evaluation, ``last:<tag>``, ``min:<tag>``, ``max:<tag>`` and
``best_step:<tag>`` are statistics of a scalar. Fields of lineage and settings have their own names;
a setting with the name of another column is ``user_defined/<name>``.
"""

from __future__ import annotations

from mindsummary_lightning.lineage.merge import FIELDS

METRIC = "metric/"
USER_DEFINED = "user_defined/"
OF_FILES = ("diverged", "started", "duration", "steps", "curve", "pace")
"""Columns whose values are read from summary files, like the statistics of scalars."""
STATISTICS = ("last", "min", "max", "best_step")
FIRST = ("status", *OF_FILES, "written")
"""The first columns of a table of runs, in order."""
_TAKEN = frozenset(("run", "summary_dir", "path", "dataset_mark", "tag", "remark", *FIRST, *FIELDS))


def setting_column(name: str) -> str:
    """Return the column of a setting: its name, or ``user_defined/<name>`` if taken."""
    is_taken = name in _TAKEN or name.startswith((METRIC, USER_DEFINED)) or is_statistic(name)
    return USER_DEFINED + name if is_taken else name


def is_statistic(name: str) -> bool:
    """Tell whether a column is a statistic of a scalar, such as ``last:<tag>``."""
    statistic, colon, tag = name.partition(":")
    return bool(colon and tag) and statistic in STATISTICS


def is_of_files(name: str) -> bool:
    """Tell whether the values of a column are read from summary files."""
    return name in OF_FILES or is_statistic(name)
