"""The one live summary file and the one lineage file of a run directory, shared by everybody in the process.

The reader follows only the newest summary file of a directory, so whoever records into a directory gets the same
:class:`EventWriter` from :func:`shared_event_writer`. It decides when a new file starts and what is already written; it
raises errors and leaves the failure policy to ``summary_record``.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection

from mindsummary_lightning.errors import ForkedWriterError, RecordTooLargeError
from mindsummary_lightning.fileformat.framing import OVERHEAD, Buffer
from mindsummary_lightning.fileformat.summary_codec import VERSION, encode_event, encode_step
from mindsummary_lightning.fileio.append import RecordFile
from mindsummary_lightning.recording.duplicate_filter import DuplicateFilter
from mindsummary_lightning.recording.event_files import EventFiles, FileOptions
from mindsummary_lightning.recording.lineage_file import LineageFileWriter
from mindsummary_lightning.values import Event, Graph, SummaryValue
from mindsummary_lightning.values.events import LineageValue
from mindsummary_lightning.values.limits import MAX_EVENT
from mindsummary_lightning.warn_once import WarnOnce

__all__ = ["EventWriter", "FileOptions", "shared_event_writer"]

_LOG = logging.getLogger(__name__)

_DELETION_CHECK_S = 5.0
_SMALL = 1 << 16  # bytes of a record; below it a full disk is met by the write itself, which is safe
_CLOSED_WRITERS_KEPT = 64


class EventWriter:
    """Writes the events of one directory; thread-safe. See :func:`shared_event_writer` for sharing.

    Args:
        directory: the run directory; made with the first event.
        options: how files are made.
        clock: seconds since the epoch, for what is written.
        timer: seconds that only grow, for what is done now and then: a clock may be set back.
    """

    def __init__(
        self,
        directory: str,
        options: FileOptions,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory
        self.options = options
        self.users = 0
        self.is_abandoned = False
        self._clock = clock
        self._timer = timer
        self._lock = threading.RLock()
        self._files = EventFiles(directory, options, clock)
        self._lineage = LineageFileWriter(self._files, clock)
        self._file: RecordFile | None = None
        self._is_open = False
        self._written = DuplicateFilter(directory)
        self._warnings = WarnOnce(_LOG)
        self._max_bytes = options.max_file_size or math.inf
        self._next_check = 0.0
        self._next_sync = math.inf

    @property
    def summary_path(self) -> str:
        """Full path of the live summary file; the name it will get if there is none yet."""
        with self._lock:
            return self._files.expected_path() if self._file is None else self._file.path

    def write_values(self, step: int, values: Collection[tuple[str, SummaryValue]]) -> None:
        """Write a step's values: scalars, images and histograms in one event, every other value in its own.

        A value that is already in the file is skipped.

        Raises:
            OSError: nothing of the failing event, nor of those after it, is in the file.
            RecordTooLargeError: an event is larger than the reader takes; the others are written.
        """
        with self._lock:
            wall_time, now = self._clock(), self._timer()
            if not self._is_open or now >= self._next_check:
                self._open_file(now)
            new = self._written.new_values(step, values)
            if not new:
                return
            too_large: RecordTooLargeError | None = None
            try:
                for payload in encode_step(wall_time, step, new):
                    try:
                        self._append(payload, wall_time, now)
                    except RecordTooLargeError as error:
                        too_large = error
                if too_large is not None:
                    raise too_large
            except BaseException:
                self._written.forget(new)  # also those that were written: at worst they are written twice
                raise

    def write_graph(self, graph: Graph) -> None:
        """Write a computational graph in an event of its own.

        Raises:
            OSError: it is not in the file.
            RecordTooLargeError: it is larger than the reader takes.
        """
        with self._lock:
            wall_time, now = self._clock(), self._timer()
            if not self._is_open or now >= self._next_check:
                self._open_file(now)
            self._append(encode_event(Event(wall_time, 0, graph)), wall_time, now)

    def write_lineage(self, value: LineageValue) -> None:
        """Add an event to the lineage file, which is replaced as a whole; an exact repeat is skipped.

        Raises:
            OSError: the file is as it was before.
        """
        with self._lock:
            self._check_ours()
            self._lineage.write(value)

    def _append(self, payload: list[Buffer], wall_time: float, now: float) -> None:
        size = sum(map(len, payload)) + OVERHEAD
        if size >= _SMALL:
            self._check_size(size)
        file = self._file
        if file is None or file.size + size > self._max_bytes:
            file = self._new_file(now)
        if not file.size:
            file.append(encode_event(Event(wall_time, 0, VERSION)))
        file.append(payload)
        if now >= self._next_sync:
            self.sync()
            self._next_sync = now + (self.options.fsync_secs or math.inf)

    def _open_file(self, now: float) -> None:
        """Make sure that there is an open file whose name still exists."""
        self._check_ours()
        file = self._file
        if file is not None and not self._is_open:
            self._is_open = file.reopen()
        if file is not None and self._is_open and now >= self._next_check:
            self._next_check = now + _DELETION_CHECK_S
            if file.is_lost():
                self._warnings.warn(
                    "deleted", "%s was deleted while it was being written; starting a new file", file.path
                )
                file.close()
                self._is_open = False
        if not self._is_open:
            self._written.clear()
            self._new_file(now)

    def begin_file(self) -> None:
        """Finish the summary file; the next value goes into a later one, whose steps replace those after the first.

        For a run that goes back to a checkpoint in the process that trained it: in one file, the steps it does again
        would stand beside the old ones.
        """
        with self._lock:
            self._leave_file()

    def _leave_file(self) -> None:
        if self._file is not None:
            if self._is_open:
                self._file.close()
            self._file, self._is_open = None, False
            self._files.begin_anew()  # the reader never goes back to an older file

    def _new_file(self, now: float) -> RecordFile:
        self._leave_file()
        file = self._file = self._files.create()
        self._is_open = True
        self._next_check = now + _DELETION_CHECK_S
        self._next_sync = now + self.options.fsync_secs if self.options.fsync_secs else math.inf
        return file

    def _check_size(self, size: int) -> None:
        if size - OVERHEAD > MAX_EVENT:
            raise RecordTooLargeError(
                f"an event of {size - OVERHEAD} bytes is larger than the {MAX_EVENT} that MindInsight takes"
            )
        if not self.options.free_space_factor:
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
        if self.is_abandoned:
            raise ForkedWriterError(
                errno.EPERM,
                "this process was forked from the one that records the run; it must not write the same files",
                self.directory,
            )

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
            self._count_down()

    def release_when_free(self) -> None:
        """:meth:`release` for the garbage collector, which may run in the middle of a write and must never wait."""
        if self._lock.acquire(blocking=False):
            try:
                self._count_down()
            finally:
                self._lock.release()

    def _count_down(self) -> None:
        self.users -= 1
        if self.users <= 0 and self._file is not None and self._is_open:
            self._is_open = False
            self._file.close()

    def abandon_after_fork(self) -> None:
        """In a forked child: give up the parent's files, without touching them."""
        self._lock = threading.RLock()  # another thread of the parent may have held it
        if self._file is not None or self._lineage.has_file:
            self.is_abandoned = True
            self._is_open = False
            if self._file is not None:
                self._file.close()


_WRITERS: OrderedDict[str, EventWriter] = OrderedDict()
_WRITERS_LOCK = threading.Lock()


def shared_event_writer(directory: str, options: FileOptions) -> EventWriter:
    """The writer of a directory, made if there is none; :meth:`EventWriter.release` it when done.

    Args:
        directory: the run directory; need not exist.
        options: how a new writer makes its files; an existing one keeps its own.
    """
    path = os.path.realpath(directory)
    with _WRITERS_LOCK:
        writer = _WRITERS.get(path)
        if writer is None or writer.is_abandoned:
            writer = _WRITERS[path] = EventWriter(path, options)
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
        writer.abandon_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
