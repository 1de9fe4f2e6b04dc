"""Write the summary file and the lineage file of a run directory.

The reader follows only the newest summary file of a directory, so whoever records into a directory
gets the same :class:`EventWriter` from :func:`shared_event_writer`. It decides when a new file
starts and what is already written. It raises errors: ``run_recorder`` catches them, and
``failure_policy`` decides whether they are logged or raised.
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
    """Make calls of a method in turn.

    A call returns whether it was made; a queued call returns False.
    """

    @functools.wraps(method)
    # keywords would cost a dict at each call
    def call(self: EventWriter, /, *arguments: Any) -> bool:
        return self._turns.call(method, self, *arguments)

    return cast("Callable[Concatenate[EventWriter, _P], bool]", call)


class EventWriter:
    """A thread-safe writer of the events of a directory.

    See :func:`shared_event_writer` for sharing.

    ``clock`` is for what is written, the monotonic ``timer`` for periodic duties: the wall clock
    may jump back.

    Every method that writes returns False if the call is queued, because the caller is a signal
    handler that interrupted another call to this writer; that call makes it at its end.
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
        """Return the full path of the live summary file, also before it exists."""
        file = self._live.file
        return self._files.expected_path() if file is None else file.path

    def write_values(self, step: int, values: Collection[tuple[str, SummaryValue]]) -> bool:
        """Write a step's values.

        Scalars, images and histograms share one event; every other value has its own.

        A value that is already in the file is skipped.

        Raises:
            OSError: nothing of the failing event, nor of those after it, is in the file. While the
                place is out of reach, the error of the last attempt, at once.
            UnsyncedError: everything is in the file, and the system cannot promise that it is on
                the disk.
            RecordTooLargeError: an event is larger than the reader takes; the others are written.
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
        """Write a computational graph in its own event.

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

        Values that it has already are skipped.

        After an OSError the file is as it was before.
        """
        self._check_process()
        self._lineage.write(*values)

    @_serialized
    def replace_custom(self, replaced: frozenset[str], *values: LineageValue) -> None:
        """Write lineage values in place of the custom data ``replaced``.

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
        """Let the next value check whether the summary file is still there."""
        self._live.next_check = 0.0

    def take_losses(self) -> list[MissingRecords]:
        """Return the records that files have lost since the last call.

        They are of the summary files and of the lineage file.
        """
        return [*self._live.take_losses(), *self._lineage.take_losses()]

    @_serialized
    def take_options(self, options: FileOptions) -> None:
        """Go on in a new file, with new options."""
        self.options = self._files.options = options
        self._max_bytes = options.max_file_size or math.inf
        self._live.rotate()

    @_serialized
    def begin_file(self, is_new_run: bool = False) -> None:
        """Finish the summary file; the next value begins a later file.

        The later file's steps replace those after its first one.

        For a run that goes back to a checkpoint in the process that trained it: in one file, the
        steps it does again would be beside the old ones. ``is_new_run``: finish the lineage file,
        too, and carry nothing over.
        """
        if is_new_run:
            self._lineage.reset()
        self._live.rotate()

    @_serialized
    def continue_file(self) -> None:
        """Append the next value to the newest summary file, also of another process.

        Does nothing while a file is written.

        For an evaluation, which may come from another process than the fit: in a file of its own
        its steps would replace those of the fit.
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
        """Fsync all written records; raise UnsyncedError."""
        self._live.sync(self._timer())

    def release(self, user: object) -> None:
        """Remove a user; after the last user close the file.

        Writing later opens the file again.

        An OSError is how some file systems report only now that records written earlier are lost.
        """
        self._turns.call(self._remove_user, user)

    def release_when_free(self) -> None:
        """Release users that are gone, without waiting.

        Garbage may be collected in the middle of a write.
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
        """Forget the content of closed files, but not where they are.

        Does nothing while the writer is used.
        """
        self._turns.call(self._forget_content, is_waiting=False)

    def _forget_content(self) -> None:
        if not self.users:
            self._written = DuplicateFilter(self.directory)
            self._lineage.forget_content()

    def abandon_after_fork(self) -> None:
        """Give up the parent's files in a forked child, without touching them."""
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
    """Return the writer of a directory; create it if it does not exist.

    Call :meth:`EventWriter.release` when ``user`` is done.

    One that is in use keeps its own options and timer.
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
