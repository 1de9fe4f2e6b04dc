"""``FollowedRun``: reads a run directory, again when its files have grown.

Every refresh reads the records that were added since the last refresh.

Over the files samples are merged by MindInsight's rule for resumed runs: from the first step of a
tag in a later file on, samples of that tag in older files are dropped; of two samples of one tag,
kind and step the later one counts.

A pass over the files gives tags, scalars as arrays, and the locations of everything else; nothing
is read again for the next tag. It is safe to use from several threads, and no file stays open.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.errors import closest
from mindsummary_lightning.fileformat.file_names import is_summary_name, read_order, timestamp_of
from mindsummary_lightning.fileformat.scalar_columns import ScalarDecoder
from mindsummary_lightning.reading.followed_file import (
    FollowedFile,
    GraphLocation,
    LocatedSample,
    Location,
    ScalarPart,
    joined_parts,
)
from mindsummary_lightning.reading.kept_results import KeptResults
from mindsummary_lightning.reading.series import ScalarSeries
from mindsummary_lightning.values.text import listed
from mindsummary_lightning.warn_once import WarnOnce

KINDS = ("scalar", "image", "tensor", "histogram", "loss_landscape")
_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")
# results; of a run that is watched for days the oldest are forgotten
_MAX_CACHED, _MAX_CACHED_BYTES = 4096, 1 << 24
_RUN_BYTES = 2000  # of a run, beside what it holds, measured


class FollowedRun:
    """Reads the summary files and graphs of a run directory, as the files grow.

    Args:
        run_dir: the directory with the summary files.
        on_damage: ``"skip"`` leaves out damaged records, with a warning; ``"raise"`` makes it an
            error of every :meth:`refresh`.
        decoder: what decodes scalars; runs of one training script that share it are read faster.

    Attributes:
        run_dir: the directory.
        is_complete: whether the file written last ended with a complete record then, and none was
            damaged.
        state: a new object after every refresh that found a change.
    """

    def __init__(
        self,
        run_dir: str,
        *,
        on_damage: Literal["skip", "raise"] = "skip",
        decoder: ScalarDecoder | None = None,
    ) -> None:
        self.run_dir = run_dir
        self._raises = on_damage == "raise"
        self._lock = threading.RLock()
        self._warnings = WarnOnce(_LOG)
        self._decoder = decoder or ScalarDecoder()
        self._files: list[FollowedFile] = []
        self._models: list[GraphLocation] = []
        self._has_news = False  # since the tags were listed
        self._tags = _tags_by_kind(())
        self._listed: list[tuple[FollowedFile, int]] = []  # when the tags were listed
        # of files that are read to their ends
        self._states: dict[str, tuple[int, int, int, int]] = {}
        self._kept = KeptResults(_MAX_CACHED, _MAX_CACHED_BYTES)
        self.state: object = None
        self.is_complete: bool = True

    def refresh(self) -> bool:
        """Read the records that were added since the last call.

        If a file was removed or rewritten, everything is read again.

        Returns:
            Whether anything changed.

        Raises:
            DamagedFileError: a record is damaged, and ``on_damage`` is ``"raise"``.
            OSError: the directory cannot be listed. A file that cannot be read is skipped with a
                warning, or raises.
        """
        with self._lock:
            stats = _files_by_name(self.run_dir, self._states, self._warnings)
            states = {name: _file_state(stat) for name, stat in stats.items()}
            if states and states == self._states:
                return False
            names = read_order(name for name in stats if is_summary_name(name))
            known = self._known_files(stats)
            self._files = [known.get(name) or self._file(name) for name in names]
            is_all_read = True
            for name, file in zip(names, self._files, strict=True):
                is_all_read &= self._read_file(file, stats[name])
            models = _models(self.run_dir, stats)
            changed = self._has_news or models != self._models
            self._models, self._has_news = models, False
            listed = [(file, len(file.tags)) for file in self._files]
            if listed != self._listed:
                self._tags, self._listed = _tags_by_kind(self._files), listed
            self.is_complete = _is_complete(self._files)
            if changed:
                self.state = object()
            if is_all_read:
                self._states = states
            return changed

    def _known_files(self, stats: Mapping[str, os.stat_result]) -> dict[str, FollowedFile]:
        """Return the files read before; an empty dict if one file is gone or rewritten."""
        known = {os.path.basename(file.path): file for file in self._files}
        for name, file in known.items():
            if name not in stats or file.was_rewritten(stats[name]):
                self._kept = KeptResults(_MAX_CACHED, _MAX_CACHED_BYTES)
                self._has_news = True
                return {}
        return known

    def _file(self, name: str) -> FollowedFile:
        return FollowedFile(os.path.join(self.run_dir, name), self._decoder, self._raises)

    def _read_file(self, file: FollowedFile, stat: os.stat_result) -> bool:
        before = file.offset
        try:
            file.refresh(stat)
            return True
        except OSError as error:
            if self._raises:
                raise
            self._warnings.warn(file.path, "skipped a file that cannot be read: %s", error)
            return False
        finally:
            self._has_news |= file.offset > before

    def tags(self) -> dict[str, list[str]]:
        """Return the sorted tags of each kind, as :meth:`SummaryReader.tags` does."""
        with self._lock:
            return dict(self._tags)

    def scalars(self, tag: str) -> ScalarSeries:
        """Return all samples of a scalar.

        Raises:
            LookupError: the run has no scalar of this tag.
        """
        with self._lock:
            parts = _merged_scalars(self._files_with("scalar", tag), tag)
        steps, wall_times, values = parts[0] if len(parts) == 1 else joined_parts(parts)
        return ScalarSeries(steps.astype(np.int64), wall_times, values)

    def scalar_parts(self, tag: str, size: int = 1 << 15) -> Iterator[ScalarSeries]:
        """Yield the result of :meth:`scalars` in parts of at most ``size`` samples.

        No second copy of all samples is made.

        Raises:
            LookupError: the run has no scalar of this tag.
        """
        with self._lock:
            parts = _merged_scalars(self._files_with("scalar", tag), tag)
        for steps, wall_times, values in parts:
            for begin in range(0, steps.size, size):
                some = slice(begin, begin + size)
                yield ScalarSeries(steps[some].astype(np.int64), wall_times[some], values[some])

    def time_spans(self) -> list[tuple[float, float]]:
        """Return the first and last wall time of scalars in each file that has scalars.

        They are seconds since the epoch.
        """
        with self._lock:
            spans = [file.time_span() for file in self._files]
        return list(filter(None, spans))

    def samples(
        self,
        kind: str,
        tag: str,
        select: Callable[[NDArray[np.int64]], NDArray[np.intp]] | None = None,
    ) -> list[LocatedSample]:
        """Return the places of a non-scalar tag's samples in the files, ordered by step.

        ``select`` chooses among them: it returns indices for the ascending steps; ``None`` takes
        all.

        Raises:
            LookupError: the run has no such tag.
        """
        paths, owners, rows = self.rows(kind, tag)
        if select is not None:
            chosen = select(rows["step"])
            owners, rows = owners[chosen], rows[chosen]
        found = []
        for owner, row in zip(owners.tolist(), rows.tolist(), strict=True):
            step, wall_time, start, end, record, width, height, _ = row
            location = Location(paths[owner], start, end, record)
            found.append(LocatedSample(step, wall_time, location, width, height))
        return found

    def rows(self, kind: str, tag: str) -> tuple[list[str], NDArray[np.intp], NDArray[np.void]]:
        """Return the same samples as :meth:`samples`, in the form of a table.

        Returns:
            Paths of files; of each sample the index of its path, shape ``(n,)``; and the samples by
            step, shape ``(n,)``, with the columns of
            :data:`~mindsummary_lightning.reading.followed_file.SAMPLE`.

        Raises:
            LookupError: the run has no such tag.
        """
        with self._lock:
            return _merged_samples(self._files_with(kind, tag), kind, tag)

    def tags_in_order(self, kind: str) -> list[str]:
        """Return the tags of a kind in the order in which they appear in the files."""
        with self._lock:
            tags: dict[str, None] = {}
            for file in self._files:
                tags.update(dict.fromkeys(file.tags_in_order(kind)))
            return list(tags)

    def _files_with(self, kind: str, tag: str) -> list[FollowedFile]:
        files = [file for file in self._files if (kind, tag) in file.tags]
        if not files:
            raise self._lacking_tag(kind, tag)
        return files

    def _lacking_tag(self, kind: str, tag: str) -> LookupError:
        """Make the error for a missing tag; it suggests the closest kind or name."""
        others = [other for other, tags in self._tags.items() if tag in tags]
        if others and others[0] != "loss_landscape":
            call = f"reader.{others[0]}s({tag!r})"
            return LookupError(
                f"{self.run_dir} has no {kind} {tag!r}, but a {others[0]} with this tag. Use {call}"
            )
        tags = self._tags[kind]
        known = listed(list(map(repr, tags)), 10) or "none"
        plain = str(tag).removesuffix(f"/{kind}")
        advice = closest(tag, tags)
        if plain in tags:
            advice = f"; the suffix /{kind} is added by MindInsight's pages, so use {plain!r}"
        return LookupError(f"{self.run_dir} has no {kind} {tag!r}{advice}; it has {known}")

    def cached(self, key: Hashable, compute: Callable[[], _T], state: object = None) -> _T:
        """Return ``compute()``, cached; the result must depend on the files only.

        It is kept until a file is rewritten, or ``state`` differs from its state.
        """
        return self._kept.of(key, compute, state)

    @property
    def nbytes(self) -> int:
        """Estimate how many bytes of memory this object takes."""
        of_files = sum(file.nbytes for file in self._files)
        return _RUN_BYTES + self._decoder.nbytes + self._kept.nbytes + of_files

    def graphs(self) -> list[GraphLocation]:
        """Return the newest graph in the summary files, if any, and all ``.pb`` files.

        The ``.pb`` files are in the order of their times.
        """
        with self._lock:
            graphs = [file.graph for file in self._files if file.graph is not None]
            return graphs[-1:] + self._models


def _file_state(stat: os.stat_result) -> tuple[int, int, int, int]:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _is_complete(files: Sequence[FollowedFile]) -> bool:
    """Tell whether the last non-empty file ends with a complete record."""
    for file in reversed(files):
        if not file.is_empty:
            return file.is_complete
    return True


def _tags_by_kind(files: Iterable[FollowedFile]) -> dict[str, list[str]]:
    """Return for each kind the sorted tags in a run's files."""
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for kind, tag in sorted(set().union(*(file.tags for file in files))):
        found[kind].append(tag)
    return found


def _merged_scalars(files: Iterable[FollowedFile], tag: str) -> list[ScalarPart]:
    """Merge the parts of a scalar from all files of a run, ordered by step.

    ``files`` are in the reader's order, and at least one of them holds the scalar.
    """
    parts_of: dict[str, list[ScalarPart]] = {}
    for file in files:
        if ("scalar", tag) in file.tags:
            parts_of[file.path] = file.scalar_parts(tag)
    parts = list(itertools.chain.from_iterable(parts_of.values()))
    if _ascend([steps for steps, _, _ in parts]):
        return parts
    steps_of = []
    for path, of_file in parts_of.items():
        if of_file:
            steps_of.append((path, np.concatenate([steps for steps, _, _ in of_file])))
    kept = selected_samples(steps_of)
    steps, wall_times, values = joined_parts(parts)
    return [(steps[kept], wall_times[kept], values[kept])]


def _ascend(steps_of_parts: Sequence[NDArray[np.int64]]) -> bool:
    """Tell whether steps ascend within all parts and from part to part."""
    if not all(map(_ascends, steps_of_parts)):
        return False
    neighbours = itertools.pairwise(steps_of_parts)
    return all(before[-1] < after[0] for before, after in neighbours)


def _merged_samples(
    files: Iterable[FollowedFile], kind: str, tag: str
) -> tuple[list[str], NDArray[np.intp], NDArray[np.void]]:
    """Merge the samples of a non-scalar tag from all files, ordered by step.

    The result has the paths, for every sample the index of its path, and its row.
    """
    paths = []
    parts = []
    for file in files:
        if (kind, tag) in file.tags:
            paths.append(file.path)
            parts.append(file.samples(kind, tag))
    rows = np.concatenate(parts)
    owners = np.repeat(np.arange(len(parts)), list(map(len, parts)))
    if _ascends(rows["step"]):
        return paths, owners, rows
    steps_of_parts = [part["step"] for part in parts]
    kept = selected_samples(list(zip(paths, steps_of_parts, strict=True)))
    return paths, owners[kept], rows[kept]


def selected_samples(files: Sequence[tuple[str, NDArray[np.int64]]]) -> NDArray[np.int64]:
    """Return the indices of the samples that MindInsight keeps, ordered by step.

    Every step occurs once.

    ``files`` are path and steps in file order of each file with samples of the tag, in the reader's
    order; the indices are into the joined samples of all files.
    """
    steps = np.concatenate([file_steps for _, file_steps in files])
    # over all files: a later one takes a step from those before it
    last = _last_of_each_step(steps)
    bounds = _first_dropped_steps(files)
    sizes = [file_steps.size for _, file_steps in files]
    file_of = np.repeat(np.arange(len(files)), sizes)[last]
    is_bound = np.array([bound is not None for bound in bounds])[file_of]
    bound_of = np.array([bound or 0 for bound in bounds], np.int64)[file_of]
    is_stale = is_bound & (steps[last] >= bound_of)
    return last[~is_stale]


def _first_dropped_steps(files: Sequence[tuple[str, NDArray[np.int64]]]) -> list[int | None]:
    """Return for every file the first step that later files replace.

    It is ``None`` for a file that no later file replaces.
    """
    # The reader compares the names' digits as text, and drops larger steps of files with smaller
    # digits only.
    digits = [str(timestamp_of(os.path.basename(path))) for path, _ in files]
    rank = {text: -index for index, text in enumerate(sorted(set(digits)))}
    bounds: list[int | None] = []
    # Of the files behind: negative ranks, ascending, and the smallest first step of those up to
    # each.
    ranks: list[int] = []
    firsts: list[int] = []
    for text, (_, file_steps) in zip(reversed(digits), reversed(files), strict=True):
        at = bisect_left(ranks, rank[text])
        bounds.append(firsts[at - 1] if at else None)
        first = int(file_steps.min())
        if not at or first < firsts[at - 1]:
            _insert_first(ranks, firsts, rank[text], first)
    return bounds[::-1]


def _insert_first(ranks: list[int], firsts: list[int], rank: int, first: int) -> None:
    """Insert a file's first step, and remove the larger first steps after it."""
    at = bisect_left(ranks, rank)
    end = at
    while end < len(firsts) and firsts[end] >= first:
        end += 1
    if end > at or at == len(ranks) or ranks[at] != rank:
        ranks[at:end], firsts[at:end] = [rank], [first]


def _ascends(steps: NDArray[np.int64]) -> bool:
    return bool((steps[1:] > steps[:-1]).all())  # a difference of steps may not fit 64 bits


def _last_of_each_step(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of each step's last sample, ordered by step."""
    if _ascends(steps):
        return np.arange(steps.size)
    _, from_the_end = np.unique(steps[::-1], return_index=True)
    return np.asarray(steps.size - 1 - from_the_end, np.int64)


def _files_by_name(
    run_dir: str, known: Container[str], warnings: WarnOnce
) -> dict[str, os.stat_result]:
    stats = {}
    with os.scandir(run_dir) as entries:
        for entry in entries:
            name = entry.name
            if name not in known and not is_summary_name(name) and not name.endswith(".pb"):
                continue
            if entry.is_symlink():
                message = (
                    "%s is a symbolic link, and was not read: "
                    "below a run directory none is followed"
                )
                warnings.warn(entry.path, message, entry.path)
            elif entry.is_file(follow_symlinks=False):
                try:  # the entry's own answer may be stale on Windows
                    stats[entry.name] = os.stat(entry.path, follow_symlinks=False)
                except FileNotFoundError:  # deleted since the directory was listed
                    continue
    return stats


def _models(run_dir: str, stats: Mapping[str, os.stat_result]) -> list[GraphLocation]:
    """Return the non-empty ``.pb`` files, oldest first."""
    models = []
    for name, stat in stats.items():
        if name.endswith(".pb") and stat.st_size:
            location = Location(os.path.join(run_dir, name), 0, stat.st_size, 0)
            models.append(GraphLocation(name, location, True, stat.st_mtime))
    return sorted(models, key=lambda model: (model.wall_time, model.name))
