"""Last, smallest and largest values of scalars, for queries over runs.

They are read from the summary files only if a query needs them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.lineage.column_names import STATISTICS
from mindsummary_lightning.lineage.conditions import SCALAR
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.run_directory import summary_files
from mindsummary_lightning.reading.scalar_summaries import RunScalars, run_scalars, tag_summary
from mindsummary_lightning.reading.series import ScalarSeries
from mindsummary_lightning.reading.tag_survey import TagSurvey

if TYPE_CHECKING:
    from mindsummary_lightning.reading.run_tree import RunDirectory

RUN_FACTS = ("diverged", "started", "duration", "steps")
"""Fields about a whole run that are read from its summary files."""


def statistics_of(tag: str, series: ScalarSeries) -> list[float | None]:
    """Compute last, smallest, largest value and best step of a scalar of a run.

    The order is the order of :data:`~mindsummary_lightning.lineage.column_names.STATISTICS`.

    The last value may be NaN or infinite. The smallest and the largest value are finite, or
    ``None``.
    """
    found = tag_summary(series)
    least = None if math.isnan(found.min) else found.min
    greatest = None if math.isnan(found.max) else found.max
    return [found.last, least, greatest, found.best_step(tag)]


def scalar_tags(directories: Iterable[RunDirectory]) -> set[str]:
    """Collect the scalar tags of runs from the beginning and end of their files.

    A run that cannot be read has no tags.
    """
    survey = TagSurvey()
    found: set[str] = set()
    for directory in directories:
        try:
            tags, _ = survey.tags(summary_files(directory.path))
        except (DamagedFileError, OSError):
            continue
        found.update(tag for kind, tag in tags if kind == "scalar")
    return found


class ScalarStatistics:
    """Statistics of scalars, and facts such as ``steps``, that queries over runs need.

    A run is read once, when it is first asked for.

    Args:
        fields: the fields to read, such as ``last:loss``, ``min:loss`` and ``diverged``; fields
            that are not in summary files are ignored.

    Attributes:
        tags: tags of all scalars of the runs that were read.
    """

    def __init__(self, fields: Iterable[str]) -> None:
        self.tags: set[str] = set()
        names = set(fields)
        asked = (SCALAR.fullmatch(name) for name in names)
        self._asked = {found["tag"] for found in asked if found}
        self._has_facts = not names.isdisjoint(RUN_FACTS)
        self._known: dict[str, dict[str, list[float | None]]] = {}
        self._facts: dict[str, dict[str, float | None]] = {}

    def value(self, run_dir: str, field: str) -> float | None:
        """Return the value of a field, such as ``min:loss``, for a run directory.

        It is ``None`` if the run lacks the scalar or cannot be read.
        """
        found = SCALAR.fullmatch(field)
        if found is None and field not in RUN_FACTS:
            return None
        if run_dir not in self._known:
            self._known[run_dir] = self._read(run_dir)
        if found is None:
            return self._facts.get(run_dir, {}).get(field)
        statistics = self._known[run_dir].get(found["tag"])
        if statistics is None:
            return None
        return statistics[STATISTICS.index(found["statistic"])]

    def _read(self, run_dir: str) -> dict[str, list[float | None]]:
        run = FollowedRun(run_dir)
        try:
            run.refresh()
        except OSError:  # it vanished since it was listed
            return {}
        tags = run.tags()["scalar"]
        self.tags.update(tags)
        if self._has_facts:
            self._facts[run_dir] = facts_of(run_scalars(run))
        return {tag: statistics_of(tag, run.scalars(tag)) for tag in tags if tag in self._asked}


def facts_of(scalars: RunScalars) -> dict[str, float | None]:
    """Return ``diverged``, ``started``, ``duration`` and ``steps`` of a run."""
    return {
        "diverged": scalars.is_diverged,
        "started": scalars.started_s,
        "duration": scalars.duration_s,
        "steps": scalars.last_step,
    }
