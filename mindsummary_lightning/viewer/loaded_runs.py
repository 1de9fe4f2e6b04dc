"""Runs in a directory, read while they grow, within a memory limit.

The samples of the runs viewed least recently are forgotten when memory is short.

There is no background thread. A request lists the directories again, at most once a second, and
reads new values of the run that it asks for. If another request is reading the run, it waits.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from mindsummary_lightning.reading.kept_results import KeptResults
from mindsummary_lightning.reading.run_tree import (
    ListedRun,
    RunDirectory,
    RunTree,
    with_lineage_files,
)
from mindsummary_lightning.viewer.page_tags import plugin_tags

if TYPE_CHECKING:
    from mindsummary_lightning.reading.followed_run import FollowedRun

# as many runs of a million points as are overlaid, and room
DEFAULT_MEMORY_BYTES = 480 * 10**6
_SCAN_EVERY_S = 1.0
_SCAN_SHARE = 10  # a tree that takes long to scan is scanned for a tenth of the time at most
_SUMMARIES = 10**6, 64 * 10**6  # and their bytes: 20,000 with 40 tags each
# answers, each of which refers to what the lineage cache holds, and bytes beside that
_LINEAGES = 4, 10**6
_SUMMARY_BYTES, _TAG_BYTES = 200, 60  # of a summary and of a tag beside its characters, measured


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Tags and completeness of a run, kept in memory when its samples are not."""

    # by MindInsight's plugin name, as the pages name and order them
    tags: Mapping[str, Sequence[str]]
    # the file written last ends with a complete record and none of its records was damaged
    is_complete: bool

    @property
    def nbytes(self) -> int:
        """Estimated memory of this summary, bytes."""
        return _SUMMARY_BYTES + sum(
            _TAG_BYTES + len(tag) for tags in self.tags.values() for tag in tags
        )


@dataclass(slots=True)
class LoadedRuns:
    """All runs in a directory, as the viewer reads them; safe for several threads.

    Names of runs are looked up among the runs found in the directory. No text of a request becomes
    part of a path.

    Args:
        base_dir: the directory; runs are found in it at any depth.
        memory_bytes: roughly how much memory the samples of all runs may take. The runs viewed
            least recently are forgotten, and read again when a request asks for them.
        clock: monotonic clock, seconds.
        wall_clock_ns: Unix time as file times have it, nanoseconds.

    Attributes:
        lineages: cached answers of the lineage page.
    """

    base_dir: str
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    clock: Callable[[], float] = time.monotonic
    wall_clock_ns: Callable[[], int] = time.time_ns
    lineages: KeptResults = field(default_factory=lambda: KeptResults(*_LINEAGES), init=False)
    _tree: RunTree = field(init=False)
    _listing: list[ListedRun] = field(default_factory=list, init=False)
    _by_name: dict[str, ListedRun] = field(default_factory=dict, init=False)
    _next_scan_at: float | None = field(default=None, init=False)
    _directories: tuple[float | None, list[RunDirectory]] = field(default=(None, []), init=False)
    _scanning: threading.Lock = field(default_factory=threading.Lock, init=False)
    _asking: threading.Lock = field(default_factory=threading.Lock, init=False)
    _runs: OrderedDict[str, FollowedRun] = field(default_factory=OrderedDict, init=False)
    # of each loaded run when it was last asked for
    _sizes: dict[str, int] = field(default_factory=dict, init=False)
    _nbytes: int = field(default=0, init=False)  # and their sum
    _summaries: KeptResults = field(default_factory=lambda: KeptResults(*_SUMMARIES), init=False)
    _loading: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self.base_dir = os.path.realpath(self.base_dir)
        self._tree = RunTree(self.base_dir, wall_clock_ns=self.wall_clock_ns)

    @property
    def name(self) -> str:
        """Name of the base directory, as the pages show it."""
        return os.path.basename(self.base_dir)

    def listing(self) -> list[ListedRun]:
        """List the runs, last updated first; scan the directory at most once a second.

        Do not change the list.

        After a scan that took long, the next scan waits ten times as long as the scan took.
        """
        if not self._scanning.acquire(blocking=self._next_scan_at is None):
            # another request is scanning; only the first list is worth waiting for
            return self._listing
        try:
            if self._next_scan_at is None or self.clock() >= self._next_scan_at:
                self._scan()
            return self._listing
        finally:
            self._scanning.release()

    def scan_again(self) -> None:
        """Scan the directory for runs now.

        The scan takes long in a large directory tree. A directory that is older than a few seconds
        need not be listed again by later scans.
        """
        with self._scanning:
            self._scan()

    def _scan(self) -> None:
        started = self.clock()
        listing = self._tree.scan()
        if listing is not self._listing:
            before = self._by_name.keys()
            self._listing, self._by_name = listing, {run.train_id: run for run in listing}
            for train_id in before - self._by_name.keys():
                self._forget_all(train_id)
        ended = self.clock()
        self._next_scan_at = ended + max(_SCAN_EVERY_S, _SCAN_SHARE * (ended - started))

    def find(self, train_id: str) -> ListedRun | None:
        """Find a run by name; return ``None`` for an unknown name."""
        self.listing()
        return self._by_name.get(train_id)

    def has_lineage_only(self, train_id: str) -> bool:
        """Tell whether a run has lineage files, but no summary files and no graphs.

        For such a run MindInsight answers that every requested tag has no values.
        """
        run = self.find(train_id)
        return run is not None and not run.summary_files and not run.graph_files

    def run(self, train_id: str) -> FollowedRun | None:
        """Read a run up to its newest value; return ``None`` for an unknown name."""
        # here: a list of runs needs no NumPy
        from mindsummary_lightning.reading.followed_run import FollowedRun

        listed = self.find(train_id)
        if listed is None:
            return None
        with self._loading:
            run = self._runs.setdefault(train_id, FollowedRun(listed.path))
            self._runs.move_to_end(train_id)
        try:
            run.refresh()
        except OSError:  # it vanished since it was listed
            self._forget_all(train_id)
            return None
        state = (run.state, run.is_complete)
        self._summaries.of(train_id, lambda: RunSummary(plugin_tags(run), run.is_complete), state)
        with self._loading:
            if self._runs.get(train_id) is run:
                nbytes = run.nbytes
                self._nbytes += nbytes - self._sizes.get(train_id, 0)
                self._sizes[train_id] = nbytes
            while self._nbytes > self.memory_bytes and len(self._runs) > 1:
                self._forget(next(iter(self._runs)))
        return run

    def _forget(self, train_id: str) -> None:
        self._runs.pop(train_id, None)
        self._nbytes -= self._sizes.pop(train_id, 0)

    def _forget_all(self, train_id: str) -> None:
        with self._loading:
            self._forget(train_id)
        self._summaries.forget(train_id)

    def is_loaded(self, train_id: str) -> bool:
        """Tell whether the samples of a run are in memory."""
        return train_id in self._runs

    def summary(self, train_id: str) -> RunSummary | None:
        """Return tags and completeness of a run from memory, without reading files.

        ``None`` if :meth:`run` has not read the run yet.
        """
        return cast("RunSummary | None", self._summaries.known(train_id))

    def run_directories(self) -> list[RunDirectory]:
        """List the runs that have lineage files, last updated first.

        The list is as old as :meth:`listing`. Do not change it.
        """
        runs, version = self.listing(), self._next_scan_at
        with self._asking:  # one asks the files for their states, and others wait for it
            listed_version, directories = self._directories
            if listed_version != version:
                directories = [with_lineage_files(run) for run in runs if run.lineage_names]
                self._directories = (version, directories)
            return directories

    def run_directory(self, train_id: str) -> RunDirectory | None:
        """Return a run with the present sizes and times of its lineage files.

        ``None`` for an unknown name.
        """
        run = self.find(train_id)
        return None if run is None else with_lineage_files(run)
