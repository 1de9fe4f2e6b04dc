"""The one live summary file and the one lineage file of a run directory, shared by everybody in the process.

The reader follows only the newest summary file of a directory, so whoever records into a directory gets the same
:class:`RunWriter` from :func:`writer_of`. It knows when to begin a file, what is written already and how lineage stays
whole; it raises what goes wrong and leaves the policy to ``record.py``.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
import shutil
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mindsummary_lightning.errors import DamagedFileError, RecordTooLargeError, WriterLostError
from mindsummary_lightning.fileformat.file_names import (
    LARGEST_TIMESTAMP,
    LINEAGE_SUFFIX,
    file_name,
    is_lineage_name,
    is_summary_name,
    read_order,
    timestamp_of,
)
from mindsummary_lightning.fileformat.framing import OVERHEAD, Buffer, frame
from mindsummary_lightning.fileformat.lineage_codec import decode_lineage_event, encode_lineage_event
from mindsummary_lightning.fileformat.summary_codec import VERSION, encode_event
from mindsummary_lightning.fileio.append import RecordFile
from mindsummary_lightning.fileio.replace import replace_file
from mindsummary_lightning.fileio.scan import RecordScanner, cut_torn_tail
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationLineage,
    Event,
    Graph,
    Histogram,
    Image,
    LineageEvent,
    LossLandscape,
    SummaryValue,
    Tensor,
    TrainLineage,
    UserDefinedInfo,
    kind_of,
)
from mindsummary_lightning.values.events import LineageValue
from mindsummary_lightning.values.lineage import CustomValue

_Entry: TypeAlias = tuple[str, SummaryValue, tuple[str, str], object]

__all__ = ["LARGEST_EVENT", "FileOptions", "RunWriter", "writer_of"]

_LOG = logging.getLogger(__name__)

LARGEST_EVENT = 500_000_000  # bytes; MindInsight reads a larger event and drops it
_DELETION_CHECK_S = 5.0
_GUARD_FROM = 1 << 16  # bytes; below it a full disk is met by the write itself, which is safe
_CLOSED_WRITERS_KEPT = 64


@dataclass(frozen=True, slots=True)
class FileOptions:
    """How a run's files are made.

    Attributes:
        prefix: first part of the file names.
        suffix: last part of the summary file's name.
        max_file_size: bytes after which a new summary file is begun, or ``None``.
        mode: permission bits of every file.
        fsync_secs: seconds after which appended records are forced to the disk, or ``None`` to leave it to the system.
        free_space_factor: a record is refused when the disk has less than this many times its size free; 0 never.
        rank: the process's rank, part of the names.
    """

    prefix: str = "events"
    suffix: str = "_MS"
    max_file_size: int | None = None
    mode: int = 0o600
    fsync_secs: float | None = None
    free_space_factor: int = 32
    rank: int = 0


class RunWriter:
    """Writes the events of one directory. Safe to call from several threads; see :func:`writer_of` for sharing."""

    def __init__(self, directory: str, options: FileOptions, clock: Callable[[], float] = time.time) -> None:
        self.directory = directory
        self.options = options
        self.users = 0
        self.is_lost = False
        self._clock = clock
        self._lock = threading.RLock()
        self._file: RecordFile | None = None
        self._is_open = False
        self._stem_second: int | None = None
        self._prepared = False
        self._last: dict[tuple[str, str], tuple[int, object]] = {}
        self._warned: set[str] = set()
        self._next_check = 0.0
        self._next_sync = math.inf
        self._lineage_path: str | None = None
        self._lineage: list[LineageEvent] = []

    # ---- summary file

    @property
    def summary_path(self) -> str:
        """Full path of the live summary file; the name it will get if there is none yet."""
        with self._lock:
            if self._file is not None:
                return self._file.path
            return os.path.join(self.directory, self._name(self._second(), self.options.suffix))

    def write_values(self, step: int, values: Sequence[tuple[str, SummaryValue]]) -> None:
        """Write a step's values: scalars, images and histograms in one event, every other value in its own.

        A value that stands in the file already is skipped.

        Raises:
            OSError: nothing of the failing event is in the file.
            RecordTooLargeError: an event is larger than the reader takes; the others are written.
        """
        with self._lock:
            wall_time = self._clock()
            together: list[_Entry] = []
            alone: list[_Entry] = []
            for tag, value in values:
                key = ("scalar" if type(value) is float else kind_of(value), tag)
                print_ = value if type(value) is float else _fingerprint(value)
                last = self._last.get(key)
                if last is not None and last[0] == step and not self._is_news(key, last[1], print_, step):
                    continue
                # A viewer with numpy 2 drops every event that holds a tensor or a landscape, so these travel alone.
                (alone if isinstance(value, (Tensor, LossLandscape)) else together).append((tag, value, key, print_))
            for group in ([together] if together else []) + [[entry] for entry in alone]:
                pairs = tuple((tag, value) for tag, value, _, _ in group)
                self._append(encode_event(Event(wall_time, step, pairs)), wall_time)
                for _, _, key, print_ in group:
                    self._last[key] = (step, print_)

    def write_graph(self, graph: Graph) -> None:
        """Write a computational graph in an event of its own.

        Raises:
            OSError: it is not in the file.
            RecordTooLargeError: it is larger than the reader takes.
        """
        with self._lock:
            wall_time = self._clock()
            self._append(encode_event(Event(wall_time, 0, graph)), wall_time)

    def _is_news(self, key: tuple[str, str], old: object, new: object, step: int) -> bool:
        same = old == new or (old != old and new != new)
        if new is not None and same:
            return False
        self._warn_once(
            "repeat",
            "%s %r is recorded again at step %d with another value; MindInsight shows one of the two. Give a later "
            "step or another tag. Later repeats are not reported.",
            *key,
            step,
        )
        return True

    def _append(self, payload: list[Buffer], wall_time: float) -> None:
        self._check_ours()
        size = sum(map(len, payload)) + OVERHEAD
        if size - OVERHEAD > LARGEST_EVENT:
            raise RecordTooLargeError(
                f"an event of {size - OVERHEAD} bytes is larger than the {LARGEST_EVENT} that MindInsight takes"
            )
        self._guard_space(size)
        file = self._live_file(size, wall_time)
        file.append(payload)
        if wall_time >= self._next_sync:
            file.sync()
            self._next_sync = wall_time + (self.options.fsync_secs or math.inf)

    def _live_file(self, size: int, wall_time: float) -> RecordFile:
        file = self._file
        if file is not None and not self._is_open:
            self._is_open = file.reopen()
            if not self._is_open:
                file = None
        if file is not None and wall_time >= self._next_check:
            self._next_check = wall_time + _DELETION_CHECK_S
            if file.is_deleted():
                self._warn_once("deleted", "%s was deleted while it was being written; a new file is begun", file.path)
                file.close()
                file = None
        limit = self.options.max_file_size
        if file is not None and limit is not None and file.size + size > limit:
            file.close()
            file = None
        return file if file is not None else self._new_file(wall_time)

    def _new_file(self, wall_time: float) -> RecordFile:
        self._prepare()
        previous, self._file, self._is_open = self._file, None, False
        if previous is not None:
            self._stem_second = None  # the next file needs a later second: the reader never goes back to an older one
        while self._file is None:
            second = self._second()
            path = os.path.join(self.directory, self._name(second, self.options.suffix))
            try:
                self._file = RecordFile(path, self.options.mode)
            except FileExistsError:
                self._stem_second = second + 1
        self._is_open = True
        self._next_check = wall_time + _DELETION_CHECK_S
        self._next_sync = wall_time + self.options.fsync_secs if self.options.fsync_secs else math.inf
        self._file.append(encode_event(Event(wall_time, 0, VERSION)))
        return self._file

    # ---- lineage file

    def write_lineage(self, value: LineageValue) -> None:
        """Add an event to the lineage file, which is replaced as a whole; an exact repeat is skipped.

        Raises:
            OSError: the file is as it was before.
        """
        with self._lock:
            self._check_ours()
            self._prepare()
            if self._lineage_path is None:
                self._lineage = _newest_of_each_kind(self._earlier_lineage())
            if self._is_written(value):
                return
            if isinstance(value, UserDefinedInfo) and not self._has_anchor():
                # The reader ignores a lineage file that holds custom data alone.
                self._lineage.append(LineageEvent(self._clock(), TrainLineage()))
            self._lineage.append(LineageEvent(self._clock(), value))
            try:
                self._replace_lineage()
            except BaseException:
                self._lineage.pop()
                raise

    def _replace_lineage(self) -> None:
        if self._lineage_path is None:
            self._lineage_path = self._claim_lineage_name()
        records = b"".join(b"".join(frame([encode_lineage_event(event)])) for event in self._lineage)
        replace_file(self._lineage_path, records, self.options.mode)

    def _claim_lineage_name(self) -> str:
        while True:
            second = self._second()
            path = os.path.join(self.directory, self._name(second, self.options.suffix, is_lineage=True))
            try:
                RecordFile(path, self.options.mode).close()
                return path
            except FileExistsError:
                self._stem_second = second + 1

    def _is_written(self, value: LineageValue) -> bool:
        if isinstance(value, UserDefinedInfo):  # the reader merges all custom data, key by key
            merged = _merged_custom(self._lineage)
            return all(key in merged and merged[key] == entry for key, entry in value.values.items())
        newest = next((event.what for event in reversed(self._lineage) if type(event.what) is type(value)), None)
        return value == newest

    def _has_anchor(self) -> bool:
        anchors = (TrainLineage, EvaluationLineage, DatasetGraph)
        return any(isinstance(event.what, anchors) for event in self._lineage)

    def _earlier_lineage(self) -> Iterator[LineageEvent]:
        # A later file with training lineage wipes what the reader gathered before it, so what earlier processes wrote
        # into this directory (a run being resumed or evaluated) is carried over.
        for name in read_order(filter(is_lineage_name, os.listdir(self.directory))):
            path = os.path.join(self.directory, name)
            try:
                yield from map(decode_lineage_event, RecordScanner(path))
            except (DamagedFileError, ValueError, OSError) as error:
                _LOG.warning("what %s holds of this run's lineage is not carried over: %s", path, error)

    # ---- the directory

    def _prepare(self) -> None:
        os.makedirs(self.directory, exist_ok=True)
        if self._prepared:
            return
        self._prepared = True
        for name in os.listdir(self.directory):
            if not (is_summary_name(name) or is_lineage_name(name)):
                continue
            path = os.path.join(self.directory, name)
            with contextlib.suppress(OSError):
                cut = cut_torn_tail(path) if os.path.isfile(path) else 0
                if cut:
                    # A torn tail keeps MindInsight from reading any newer file of the run for ten minutes.
                    _LOG.warning("cut %d bytes of an unfinished record off the end of %s", cut, path)

    def _second(self) -> int:
        """Second of the next file's name: later than every other file's here, so that the reader moves on to it."""
        if self._stem_second is None:
            self._stem_second = int(self._clock())
            with contextlib.suppress(FileNotFoundError):
                taken = [timestamp_of(name) or 0 for name in os.listdir(self.directory)]
                latest = max((second for second in taken if second < LARGEST_TIMESTAMP), default=0)
                self._stem_second = max(self._stem_second, latest + 1)
        return self._stem_second

    def _name(self, second: int, suffix: str, is_lineage: bool = False) -> str:
        host = socket.gethostname()
        return file_name(self.options.prefix, second, self.options.rank, host, LINEAGE_SUFFIX if is_lineage else suffix)

    def _guard_space(self, size: int) -> None:
        if size < _GUARD_FROM or not self.options.free_space_factor:
            return
        needed = size * self.options.free_space_factor
        with contextlib.suppress(FileNotFoundError):
            free = shutil.disk_usage(self.directory).free
            if free < needed:
                raise OSError(
                    errno.ENOSPC,
                    f"a record of {size} bytes is not written because only {free} bytes are free; "
                    f"{self.options.free_space_factor} times its size must be",
                    self.directory,
                )

    def _check_ours(self) -> None:
        if self.is_lost:
            raise WriterLostError(
                errno.EPERM,
                "this process was forked from the one that records the run; it must not write the same files",
                self.directory,
            )

    def _warn_once(self, reason: str, text: str, *facts: object) -> None:
        if reason not in self._warned:
            self._warned.add(reason)
            _LOG.warning(text, *facts)

    # ---- life

    def sync(self) -> None:
        """Force what is written to the disk.

        Raises:
            OSError: the disk refused it.
        """
        with self._lock:
            if self._file is not None and self._is_open:
                self._file.sync()

    def release(self) -> None:
        """One user less; the last one lets go of the file. Writing again later opens it again."""
        with self._lock:
            self.users -= 1
            if self.users <= 0 and self._file is not None and self._is_open:
                self._is_open = False
                self._file.close()

    def lose(self) -> None:
        """In a forked child: give up the parent's files, without touching them."""
        self._lock = threading.RLock()  # another thread of the parent may have held it
        if self._file is not None or self._lineage_path is not None:
            self.is_lost = True
            if self._file is not None and self._is_open:
                self._file.close()


def _fingerprint(value: SummaryValue) -> object:
    """Something equal for equal values, or ``None`` where finding out costs more than writing twice."""
    if isinstance(value, Image):
        return hash(value.encoded)
    if isinstance(value, Histogram):
        facts = (value.count, value.nan_count, value.pos_inf_count, value.neg_inf_count, value.sum)
        return hash((value.lefts.tobytes(), value.counts.tobytes(), repr(facts)))
    return None


def _newest_of_each_kind(events: Iterable[LineageEvent]) -> list[LineageEvent]:
    every = [event for event in events if event.what is not None]
    newest = {type(event.what): event for event in every}
    custom = newest.get(UserDefinedInfo)
    if custom is not None:
        newest[UserDefinedInfo] = LineageEvent(custom.wall_time, UserDefinedInfo(_merged_custom(every)))
    return list(newest.values())


def _merged_custom(events: Iterable[LineageEvent]) -> dict[str, CustomValue]:
    merged: dict[str, CustomValue] = {}
    for event in events:
        if isinstance(event.what, UserDefinedInfo):
            merged.update(event.what.values)
    return merged


_WRITERS: OrderedDict[str, RunWriter] = OrderedDict()
_WRITERS_LOCK = threading.Lock()


def writer_of(directory: str, options: FileOptions) -> RunWriter:
    """The writer of a directory, made if there is none; :meth:`RunWriter.release` it when done.

    Args:
        directory: the run directory; need not exist.
        options: how a new writer makes its files; an existing one keeps its own.
    """
    path = os.path.realpath(directory)
    with _WRITERS_LOCK:
        writer = _WRITERS.get(path)
        if writer is None or writer.is_lost:
            writer = _WRITERS[path] = RunWriter(path, options)
        elif writer.options != options:
            _LOG.info("%s is being recorded already; its files keep the settings %s", path, writer.options)
        writer.users += 1
        _WRITERS.move_to_end(path)
        idle = [key for key, kept in _WRITERS.items() if kept.users <= 0]
        for key in idle[: max(0, len(_WRITERS) - _CLOSED_WRITERS_KEPT)]:
            del _WRITERS[key]
    return writer


def _after_fork_in_child() -> None:
    global _WRITERS_LOCK
    _WRITERS_LOCK = threading.Lock()
    for writer in _WRITERS.values():
        writer.lose()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
