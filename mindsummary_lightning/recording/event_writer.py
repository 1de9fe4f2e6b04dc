"""Write the summary file and the lineage file of a run directory.

MindInsight follows only the newest summary file of a directory, so all recorders of a directory
share one :class:`EventWriter`, which :func:`shared_event_writer` returns. The writer decides when a
new file starts, and skips values that are already in the file. It raises errors: ``run_recorder``
catches them, and ``failure_policy`` decides whether they are logged or raised.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import math
import os
import shutil
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Any, Concatenate, ParamSpec, cast

from mindsummary_lightning.errors import ForkedWriterError, RecordTooLargeError
from mindsummary_lightning.fileformat.framing import OVERHEAD, Buffer, frame, total_length
from mindsummary_lightning.fileformat.summary_codec import VERSION, encode_event, encode_step
from mindsummary_lightning.fileio.append import MissingRecords
from mindsummary_lightning.recording.duplicate_filter import DuplicateFilter
from mindsummary_lightning.recording.event_files import EventFiles, FileOptions
from mindsummary_lightning.recording.lineage_file import LineageFileWriter
from mindsummary_lightning.recording.live_file import LiveFile
from mindsummary_lightning.recording.serialized_calls import SerializedCalls
from mindsummary_lightning.values import Event, Graph, SummaryValue
from mindsummary_lightning.values.events import LineageValue
from mindsummary_lightning.values.limits import MAX_EVENT

_LOG = logging.getLogger(__name__)

_SMALL = 1 << 16  # bytes of a record; below it a full disk fails the write itself, which is safe
_MAX_WITH_VALUES = 64  # writers used last, whose values stay in memory when they are closed
_P = ParamSpec("_P")


def _serialized(
    method: Callable[Concatenate[EventWriter, _P], None],
) -> Callable[Concatenate[EventWriter, _P], bool]:
    """Wrap a method of a writer so that only one call runs at a time.

    The wrapper returns whether the call was made; it returns False for a queued call.
    """

    @functools.wraps(method)
    # keywords would cost a dict at each call
    def call(self: EventWriter, /, *arguments: Any) -> bool:
        return self._turns.call(method, self, *arguments)

    return cast("Callable[Concatenate[EventWriter, _P], bool]", call)


class EventWriter:
    """A thread-safe writer of the summary and lineage files of a run directory.

    :func:`shared_event_writer` returns the same writer to all recorders of a directory.

    ``clock`` gives the Unix times (seconds) that are written. The monotonic ``timer`` gives the
    seconds for periodic work, because the wall clock may jump back.

    Every method that writes returns False if its call is queued. That happens if the caller is a
    signal handler that interrupted another call to this writer; that other call makes the queued
    call at its end.
    """

    def __init__(
        self,
        directory: str,
        options: FileOptions,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory
        self.options: FileOptions = options
        # appending cannot be interrupted by a signal handler
        self.users: list[weakref.ref[object]] = []
        self.is_owned_by_parent: bool = False
        self._clock = clock
        self._timer = timer
        self._turns = SerializedCalls()
        self._files = EventFiles(directory, options, clock)
        self._lineage = LineageFileWriter(self._files, clock)
        self._live = LiveFile(self._files, timer)
        self._written = DuplicateFilter(directory)
        self._max_bytes = options.max_file_size or math.inf

    @property
    def summary_path(self) -> str:
        """Return the full path of the present summary file, also before it exists."""
        file = self._live.file
        return self._files.expected_path() if file is None else file.path

    def write_values(self, step: int, values: Collection[tuple[str, SummaryValue]]) -> bool:
        """Write the values of a step to the summary file.

        Scalars, images and histograms share one event; every other value has its own.

        A value that is already in the file is skipped.

        Raises:
            OSError: the file contains neither the event that failed nor later events of the step.
                While the file system cannot be reached, the last error is raised again at once.
            UnsyncedError: everything is in the file, but the system cannot promise that it is on
                the disk.
            RecordTooLargeError: an event is larger than MindInsight reads; the other events are
                written.
        """
        return self._turns.call(self._write_values, step, values)  # no decorator: the hot path

    def _write_values(self, step: int, values: Collection[tuple[str, SummaryValue]]) -> None:
        wall_time, now = self._clock(), self._timer()
        live = self._live
        if not live.is_open or now >= live.next_check:
            self._find_file(now)
        new = values
        too_large: RecordTooLargeError | None = None
        try:
            new = self._written.new_values(step, values)
            if not new:
                return
            for payload in encode_step(wall_time, step, new):
                try:
                    self._append(payload, wall_time, now)
                except RecordTooLargeError as error:
                    too_large = error
            if too_large is not None:
                raise too_large
        except BaseException as error:
            # also those that were written: at worst they are written twice
            self._written.forget(new)
            live.note_failure(error, now)
            raise
        if now >= live.next_sync:
            live.sync(now)

    @_serialized
    def write_graph(self, graph: Graph) -> None:
        """Write a computational graph to the summary file, as an event.

        Raises the errors of :meth:`write_values`.
        """
        wall_time, now = self._clock(), self._timer()
        live = self._live
        if not live.is_open or now >= live.next_check:
            self._find_file(now)
        try:
            self._append(encode_event(Event(wall_time, 0, graph)), wall_time, now)
        except BaseException as error:
            live.note_failure(error, now)
            raise
        self._written.count_graph()
        if now >= live.next_sync:
            live.sync(now)

    @_serialized
    def write_lineage(self, *values: LineageValue) -> None:
        """Add values to the lineage file, which is replaced atomically.

        Values that the file already contains are skipped.

        Raises:
            OSError: the file could not be replaced, and is as it was before.
        """
        self._check_process()
        self._lineage.write(*values)

    @_serialized
    def replace_custom(self, replaced: frozenset[str], *values: LineageValue) -> None:
        """Write lineage values, and remove custom lineage data with given names.

        Raises the errors of :meth:`write_lineage`.
        """
        self._check_process()
        self._lineage.write(*values, replaced=replaced)

    def _append(self, payload: list[Buffer], wall_time: float, now: float) -> None:
        record = frame(payload)
        # most records are one chunk, and the call costs 50 ns
        size = len(record[0]) if len(record) == 1 else total_length(record)
        if size >= _SMALL:
            self._check_size(size)
        file = self._live.file
        if file is None or file.size + size > self._max_bytes:
            file = self._live.begin(now)
        if not file.size:
            file.begin(frame(encode_event(Event(wall_time, 0, VERSION))))
        file.append(record)

    def _find_file(self, now: float) -> None:
        self._check_process()
        before = self._live.file
        try:
            self._live.find(now)
        finally:
            if self._live.file is not before or before is None:
                self._written.clear()  # another file has none of it

    def check_soon(self) -> None:
        """Check before the next value whether the summary file still exists."""
        self._live.next_check = 0.0

    def take_losses(self) -> list[MissingRecords]:
        """Return counts of the records that files have lost since the last call.

        They are records of summary files and of the lineage file.
        """
        return [*self._live.take_losses(), *self._lineage.take_losses()]

    @_serialized
    def take_options(self, options: FileOptions) -> None:
        """Start a new summary file that is written with new options."""
        self.options = self._files.options = options
        self._max_bytes = options.max_file_size or math.inf
        self._live.rotate()

    @_serialized
    def begin_file(self, is_new_run: bool = False) -> None:
        """Finish the summary file, so that the next value begins a new file.

        In MindInsight, the steps of the new file replace the steps of older files from its first
        step on.

        Call this method for a run that goes back to a checkpoint in the process that trained it: a
        single file would contain the repeated steps twice. ``is_new_run``: finish the lineage file
        too, and transfer nothing into the next lineage file.
        """
        if is_new_run:
            self._lineage.reset()
        self._live.rotate()

    @_serialized
    def continue_file(self) -> None:
        """Append the next value to the newest summary file, also of another process.

        Does nothing while a summary file is open.

        Call this method for an evaluation, which may run in another process than the training: in a
        separate file, its steps would replace the steps of the training.
        """
        self._check_process()
        self._live.continue_newest()

    def _check_size(self, size: int) -> None:
        if size - OVERHEAD > MAX_EVENT:
            raise RecordTooLargeError(
                f"an event must have at most {MAX_EVENT} bytes for MindInsight, got "
                f"{size - OVERHEAD}. Record a smaller value"
            )
        if not self.options.free_space_factor:
            return
        needed = size * self.options.free_space_factor
        with contextlib.suppress(FileNotFoundError):
            free = shutil.disk_usage(self.directory).free
            if free < needed:
                raise OSError(
                    errno.ENOSPC,
                    f"the free space for a record of {size} bytes must be at least {needed} "
                    f"bytes, got {free}. Free space on the disk",
                    self.directory,
                )

    def _check_process(self) -> None:
        if self.is_owned_by_parent:
            raise ForkedWriterError(
                errno.EPERM,
                "this process was forked from the one that records the run and must not write its "
                "files. Record into a new directory",
                self.directory,
            )

    @_serialized
    def sync(self) -> None:
        """Wait until all written records are on the disk (fsync).

        Raises:
            UnsyncedError: the system could not confirm it.
        """
        self._live.sync(self._timer())

    def release(self, user: object) -> None:
        """Release the writer for an object; close the file if no object uses it any more.

        A later write opens the file again.

        Raises:
            OSError: the file system reports only now that records written earlier are lost.
        """
        self._turns.call(self._remove_user, user)

    def release_when_free(self) -> None:
        """Release the writer for garbage-collected objects, without waiting for a lock.

        Python may collect garbage in the middle of a write.
        """
        try:
            self._turns.call(self._remove_user, None, is_waiting=False)
        except OSError as error:
            _LOG.error(
                "%s could not be closed: %s. Its last records may be lost", self.directory, error
            )

    def _remove_user(self, user: object) -> None:
        # one whose coming was interrupted, too
        for gone in [each for each in self.users if each() in (None, user)]:
            self.users.remove(gone)
        if not self.users:
            self._live.close()

    def forget_content(self) -> None:
        """Free the memory that holds the last values of closed files.

        The paths of the files stay known. Does nothing while the writer has users.
        """
        self._turns.call(self._forget_content, is_waiting=False)

    def _forget_content(self) -> None:
        if not self.users:
            self._written = DuplicateFilter(self.directory)
            self._lineage.forget_content()

    def abandon_after_fork(self) -> None:
        """Close the parent's files in a forked child process, without changing them."""
        # it may be the turn of another thread, which is not in the child
        self._turns = SerializedCalls()
        if self._live.file is not None or self._lineage.has_file:
            self.is_owned_by_parent = True
            self._live.give_up()


_WRITERS: dict[str, EventWriter] = {}  # one for each directory that this process has recorded into
_WITH_VALUES: OrderedDict[str, EventWriter] = OrderedDict()  # in the order of their last use
# a signal handler that records may interrupt the thread that holds it
_WRITERS_LOCK = threading.RLock()


def shared_event_writer(
    directory: str,
    options: FileOptions,
    user: object,
    timer: Callable[[], float] = time.monotonic,
) -> EventWriter:
    """Return the writer that all recorders of a directory share; create it if needed.

    Call :meth:`EventWriter.release` when ``user`` is done.

    A writer that has other users keeps its options and timer.
    """
    path = os.path.realpath(directory)
    with _WRITERS_LOCK:
        # Each line leaves the table valid: between any two of them a signal handler may ask for a
        # writer too.
        writer = _WRITERS.get(path) or _WRITERS.setdefault(
            path, EventWriter(path, options, timer=timer)
        )
        writer.users.append(weakref.ref(user))
        writer.check_soon()  # a new user may have deleted the directory before
        if writer.options != options and all(each() in (None, user) for each in writer.users):
            writer.take_options(options)
        elif writer.options != options:
            _LOG.info(
                "%s is already being recorded. Its files keep the settings %s", path, writer.options
            )
        _WITH_VALUES.pop(path, None)
        _WITH_VALUES[path] = writer
        # two, so that it shrinks after many were used
        for _ in range(min(2, len(_WITH_VALUES) - _MAX_WITH_VALUES)):
            key = next(iter(_WITH_VALUES))
            oldest = _WITH_VALUES.pop(key, None)
            if oldest is not None and oldest.users:
                _WITH_VALUES[key] = oldest
            elif oldest is not None:
                oldest.forget_content()
    return writer


def _after_fork_in_child() -> None:
    global _WRITERS_LOCK
    _WRITERS_LOCK = threading.RLock()
    for path, writer in list(_WRITERS.items()):
        writer.abandon_after_fork()
        if writer.is_owned_by_parent:
            del _WRITERS[path]
            _WITH_VALUES.pop(path, None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
