"""Writer of the live summary file and the lineage file of a run directory, shared within the process.

The reader follows only the newest summary file of a directory, so whoever records into a directory gets the same
:class:`EventWriter` from :func:`shared_event_writer`. It decides when a new file starts and what is already written; it
raises errors and leaves the failure policy to ``summary_record``.
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
from typing import Concatenate, ParamSpec

from mindsummary_lightning.errors import ForkedWriterError, RecordTooLargeError
from mindsummary_lightning.fileformat.framing import OVERHEAD, Buffer, frame, total_length
from mindsummary_lightning.fileformat.summary_codec import VERSION, encode_event, encode_step
from mindsummary_lightning.fileio.append import RecordFile
from mindsummary_lightning.recording.duplicate_filter import DuplicateFilter
from mindsummary_lightning.recording.event_files import EventFiles, FileOptions
from mindsummary_lightning.recording.lineage_file import LineageFileWriter
from mindsummary_lightning.recording.serialized_calls import SerializedCalls
from mindsummary_lightning.values import Event, Graph, SummaryValue
from mindsummary_lightning.values.events import LineageValue
from mindsummary_lightning.values.limits import MAX_EVENT
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)

_DELETION_CHECK_S = 5.0
_SMALL = 1 << 16  # bytes of a record; below it a full disk fails the write itself, which is safe
_MAX_WITH_VALUES = 64  # writers used last, whose values stay in memory when they are closed
_P = ParamSpec("_P")


def _in_turn(
    method: Callable[Concatenate[EventWriter, _P], None],
) -> Callable[Concatenate[EventWriter, _P], bool]:
    """Makes a method wait for its turn; it returns whether it had it, and is not queued."""

    @functools.wraps(method)
    def call(self: EventWriter, /, *arguments: _P.args, **_: _P.kwargs) -> bool:
        return self._turns.call(method, self, *arguments)

    return call


class EventWriter:
    """Writes the events of one directory; thread-safe. See :func:`shared_event_writer` for sharing.

    ``clock`` is for what is written, the monotonic ``timer`` for periodic duties: the wall clock may jump back.

    Every method that writes returns False if the call is queued, because the caller is a signal handler that
    interrupted another call to this writer; that call makes it at its end.
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
        self.users: list[weakref.ref[object]] = []  # appending cannot be interrupted by a signal handler
        self.is_abandoned: bool = False
        self._clock = clock
        self._timer = timer
        self._turns = SerializedCalls()
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
        file = self._file
        return self._files.expected_path() if file is None else file.path

    @_in_turn
    def write_values(self, step: int, values: Collection[tuple[str, SummaryValue]]) -> None:
        """Write a step's values: scalars, images and histograms in one event, every other value in its own.

        A value that is already in the file is skipped.

        Raises:
            OSError: nothing of the failing event, nor of those after it, is in the file.
            RecordTooLargeError: an event is larger than the reader takes; the others are written.
        """
        wall_time, now = self._clock(), self._timer()
        if not self._is_open or now >= self._next_check:
            self._open_file(now)
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
        except BaseException:
            self._written.forget(new)  # also those that were written: at worst they are written twice
            self._next_check = 0.0  # the file may be gone, or forgotten by the server of a network file system
            raise

    @_in_turn
    def write_graph(self, graph: Graph) -> None:
        """Write a computational graph in an event of its own; raises as :meth:`write_values`."""
        wall_time, now = self._clock(), self._timer()
        if not self._is_open or now >= self._next_check:
            self._open_file(now)
        self._append(encode_event(Event(wall_time, 0, graph)), wall_time, now)
        self._written.count_graph()

    @_in_turn
    def write_lineage(self, *values: LineageValue) -> None:
        """Add values to the lineage file, which is replaced atomically; what it says already is skipped.

        After an OSError the file is as it was before.
        """
        self._check_ours()
        self._lineage.write(*values)

    def _append(self, payload: list[Buffer], wall_time: float, now: float) -> None:
        size = total_length(payload) + OVERHEAD
        if size >= _SMALL:
            self._check_size(size)
        record = frame(payload)
        file = self._file
        if file is None or file.size + size > self._max_bytes:
            file = self._new_file(now)
        if not file.size:
            file.append(frame(encode_event(Event(wall_time, 0, VERSION))))
        file.append(record)
        if now >= self._next_sync:
            file.sync()
            self._next_sync = now + (self.options.fsync_secs or math.inf)

    def _open_file(self, now: float) -> None:
        """Make sure that there is an open file whose name still exists."""
        self._check_ours()
        file = self._file
        if file is not None and not self._is_open:
            self._is_open = file.reopen()
            if not self._is_open:
                self._files.check_again()
        if file is not None and self._is_open and now >= self._next_check:
            self._next_check = now + _DELETION_CHECK_S
            if file.is_lost():
                self._warnings.warn(
                    "gone", "%s was deleted or truncated while it was being written; starting a new file", file.path
                )
                self._is_open = False
                with contextlib.suppress(OSError):  # of a file that is gone
                    file.close()
        if not self._is_open:
            self._written.clear()
            self._new_file(now)

    @_in_turn
    def take_options(self, options: FileOptions) -> None:
        """Go on in a new file, with other options."""
        self.options = self._files.options = options
        self._max_bytes = options.max_file_size or math.inf
        self._leave_file()

    @_in_turn
    def begin_file(self, is_new_run: bool = False) -> None:
        """Finish the summary file; the next value goes into a later one, whose steps replace those after the first.

        For a run that goes back to a checkpoint in the process that trained it: in one file, the steps it does again
        would be beside the old ones. ``is_new_run``: finish the lineage file, too, and carry nothing over.
        """
        if is_new_run:
            self._lineage.begin_anew()
        self._leave_file()

    @_in_turn
    def continue_file(self) -> None:
        """Append the next value to the newest summary file that is here, whoever wrote it; does nothing while one is.

        For an evaluation, which may come from another process than the fit: in a file of its own its steps would
        replace those of the fit.
        """
        self._check_ours()
        if self._file is None:
            self._file = self._files.newest_summary_file()

    def _leave_file(self) -> None:
        file, is_open = self._file, self._is_open
        self._file, self._is_open = None, False  # first, so that an error does not leave a closed file behind
        if file is not None:
            self._files.begin_anew()  # the reader never goes back to an older file
            if is_open:
                file.discard()

    def _new_file(self, now: float) -> RecordFile:
        self._leave_file()
        self._is_open = True  # first: an interrupt right behind the creation finds an open file
        file = self._file = self._files.create()
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

    @_in_turn
    def sync(self) -> None:
        """Fsync what is written; raises OSError."""
        if self._file is not None and self._is_open:
            self._file.sync()

    def release(self, user: object) -> None:
        """Remove a user; after the last one the file is closed. Writing again later opens it again.

        An OSError is how some file systems report only now that records written earlier are lost.
        """
        self._turns.call(self._remove_user, user)

    def release_when_free(self) -> None:
        """:meth:`release` of users that are gone; never waits: garbage may be collected in the middle of a write."""
        try:
            self._turns.call(self._remove_user, None, is_waiting=False)
        except OSError as error:
            _LOG.error("%s could not be closed; its last records may be lost: %s", self.directory, error)

    def _remove_user(self, user: object) -> None:
        for gone in [each for each in self.users if each() in (None, user)]:  # one whose coming was interrupted, too
            self.users.remove(gone)
        if not self.users and self._file is not None and self._is_open:
            self._is_open = False
            self._file.discard()

    def forget_content(self) -> None:
        """Keep of a closed writer only what is needed to go on in its files; does nothing while it is used."""
        self._turns.call(self._forget_content, is_waiting=False)

    def _forget_content(self) -> None:
        if not self.users:
            self._written = DuplicateFilter(self.directory)
            self._lineage.forget_content()

    def abandon_after_fork(self) -> None:
        """In a forked child: give up the parent's files, without touching them."""
        self._turns = SerializedCalls()  # it may be the turn of another thread, which is not in the child
        if self._file is not None or self._lineage.has_file:
            self.is_abandoned = True
            self._is_open = False
            if self._file is not None:
                with contextlib.suppress(OSError):
                    self._file.close()


_WRITERS: dict[str, EventWriter] = {}  # one for each directory that this process has recorded into
_WITH_VALUES: OrderedDict[str, EventWriter] = OrderedDict()  # in the order of their last use
_WRITERS_LOCK = threading.RLock()  # a signal handler that records may interrupt the thread that holds it


def shared_event_writer(directory: str, options: FileOptions, user: object) -> EventWriter:
    """The writer of a directory, created if there is none; :meth:`EventWriter.release` it when ``user`` is done.

    One that is in use keeps its own options.
    """
    path = os.path.realpath(directory)
    with _WRITERS_LOCK:
        # Each line leaves the table valid: between any two of them a signal handler may ask for a writer too.
        writer = _WRITERS.get(path) or _WRITERS.setdefault(path, EventWriter(path, options))
        writer.users.append(weakref.ref(user))
        writer._next_check = 0.0  # who begins anew may have deleted the directory before
        if writer.options != options and all(each() in (None, user) for each in writer.users):
            writer.take_options(options)
        elif writer.options != options:
            _LOG.info("%s is already being recorded; its files keep the settings %s", path, writer.options)
        _WITH_VALUES.pop(path, None)
        _WITH_VALUES[path] = writer
        for _ in range(min(2, len(_WITH_VALUES) - _MAX_WITH_VALUES)):  # two, so that it shrinks after many were used
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
        if writer.is_abandoned:
            del _WRITERS[path]
            _WITH_VALUES.pop(path, None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
