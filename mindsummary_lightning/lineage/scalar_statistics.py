"""The last, the least and the greatest value of scalars.

Queries read them from summary files if they ask for them.
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
"""Fields that summary files say of a whole run."""


def statistics_of(tag: str, series: ScalarSeries) -> list[float | None]:
    """The statistics of a scalar of a run.

    Their order is that of :data:`~mindsummary_lightning.lineage.column_names.STATISTICS`.

    The last value may be NaN or infinite; the least and the greatest are finite, or ``None``.
    """
    found = tag_summary(series)
    least = None if math.isnan(found.min) else found.min
    greatest = None if math.isnan(found.max) else found.max
    return [found.last, least, greatest, found.best_step(tag)]


def scalar_tags(directories: Iterable[RunDirectory]) -> set[str]:
    """Tags of the scalars of runs, from both ends of their files.

    A run that cannot be read has none.
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
    """Statistics of some scalars of runs, and :data:`RUN_FACTS`.

    A run is read once, when it is first asked for.

    Args:
        fields: names such as ``last:loss``, ``min:loss`` and ``diverged``; others are passed over.

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
        """The value of a field in a run.

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
    """The values of :data:`RUN_FACTS` of a run."""
    return {
        "diverged": scalars.is_diverged,
        "started": scalars.started_s,
        "duration": scalars.duration_s,
        "steps": scalars.last_step,
    }
