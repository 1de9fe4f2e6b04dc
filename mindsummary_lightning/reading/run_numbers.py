"""Every scalar of a run and the statistics of its histograms, read in one pass that decodes no bucket."""

from __future__ import annotations

from dataclasses import dataclass

from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.histogram_statistics import HistogramStatistics, read_statistics
from mindsummary_lightning.reading.series import ScalarSeries


@dataclass(frozen=True, slots=True, eq=False)
class RunNumbers:
    """Scalars and histograms of a run by their tags.

    Attributes:
        scalars: in the order of the files.
        histograms: in the order of the files.
    """

    scalars: dict[str, ScalarSeries]
    histograms: dict[str, HistogramStatistics]


def read_numbers(run_dir: str) -> RunNumbers:
    """Read a run's scalars and histograms.

    Raises:
        DamagedFileError: a file is damaged.
        OSError: a file cannot be read.
    """
    run = FollowedRun(run_dir, on_damage="raise")
    run.refresh()
    return RunNumbers(
        {tag: run.scalars(tag) for tag in run.tags_in_order("scalar")},
        {tag: read_statistics(run, tag) for tag in run.tags_in_order("histogram")},
    )
