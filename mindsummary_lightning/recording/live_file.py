"""Reopen or replace a run's summary file when it moves or disappears.

A network file system may be unreachable for a second and forget its open handles, or a server may
remove the directory without notice. So the open file is compared with the file at its path every
few seconds, and after each failed write.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable

from mindsummary_lightning.fileio.append import MissingRecords, RecordFile
from mindsummary_lightning.fileio.torn_tail import cut_damaged_end
from mindsummary_lightning.recording.event_files import EventFiles
from mindsummary_lightning.recording.retries import PATH_CHECK_S, SLOW_S, Retries, UnsyncedError
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)


class LiveFile:
    """The summary file into which a run's values are written at present.

    Not thread-safe: the caller holds a lock.

    All times are seconds of the monotonic ``timer``.

    Attributes:
        file: the file; ``None`` before the first value, and after :meth:`rotate`.
        is_open: whether the file has an open handle.
        next_check: time from which on :meth:`find` must be called before a value is written; 0
            after a failure.
        next_sync: time at which written records must be fsynced.
    """

    def __init__(self, files: EventFiles, timer: Callable[[], float]) -> None:
        self.file: RecordFile | None = None
        self.is_open: bool = False
        self.next_check: float = 0.0
        self.next_sync: float = math.inf
        self._files = files
        self._timer = timer
        self._retries = Retries()
        self._records_before = 0  # of the file, when an attempt failed last
        self._has_failed = False  # whether a caller was told of a failure
        self._losses: list[MissingRecords] = []
        self._warnings = WarnOnce(_LOG)

    def find(self, now: float) -> None:
        """Ensure that the open file is still the file at its path.

        Otherwise the file is opened again, or a new file begins.

        Raises:
            OSError: no file can be opened or created. While the file system cannot be reached, the
                last error is raised again at once.
        """
        self._retries.check(now)
        try:
            if self.file is None:
                self.begin(now)
            elif not (self.is_open and self._is_in_order(self.file)):
                self._continue_or_replace(self.file, now)
        except OSError as error:
            self.note_failure(error, now)
            raise
        self.next_check = now + PATH_CHECK_S

    def begin(self, now: float) -> RecordFile:
        """Close the present file, and continue in a new file.

        Raises:
            OSError: the old file cannot be closed, or the new file cannot be created.
        """
        self.rotate()
        self.is_open = True  # first: an interrupt right behind the creation finds an open file
        return self._take(self._files.create(), now)

    def continue_newest(self) -> None:
        """Continue in the directory's newest summary file, unless a file is in use.

        Raises:
            OSError: the directory cannot be read.
        """
        if self.file is None:
            self.file = self._files.newest_summary_file()

    def give_up(self) -> None:
        """Close the file handle, but leave the file to the process that writes it."""
        self.is_open = False
        if self.file is not None:
            with contextlib.suppress(OSError):
                self.file.close()

    def rotate(self) -> None:
        """Close the file for good; raise the errors of :meth:`close`."""
        file, is_open = self.file, self.is_open
        # first, so that an error does not leave a closed file behind
        self.file, self.is_open = None, False
        if file is not None:
            self._files.reset_second()  # the reader never goes back to an older file
            if is_open:
                self._close(file)

    def close(self) -> None:
        """Close the file until the next value.

        Raises:
            OSError: the file system reports only now that records are lost.
        """
        if self.file is not None and self.is_open:
            self.is_open = False
            self._close(self.file)

    def sync(self, now: float) -> None:
        """Wait until all written records are on the disk (fsync).

        Raises:
            UnsyncedError: the system could not confirm it.
        """
        if self.file is None or not self.is_open:
            return
        self.next_sync = now + (self._files.options.fsync_secs or math.inf)
        try:
            self.file.sync()
        except OSError as error:
            self.next_check = 0.0  # what the system had accepted may be gone
            raise UnsyncedError(error.errno, error.strerror, self.file.path) from error

    def note_failure(self, error: BaseException, began: float) -> None:
        """Note a failed write, so that the next write first checks the file.

        The file may be gone, or a server may have forgotten its handle. ``began`` is the time at
        which the write began.
        """
        self.next_check = 0.0
        records = 0 if self.file is None else self.file.records
        if records != self._records_before:
            self._records_before = records
            self._retries.succeeded()  # since the last failure
        if isinstance(error, OSError):
            self._has_failed = True
            self._retries.failed(error, began, self._timer())

    def take_losses(self) -> list[MissingRecords]:
        """Return counts of the records that files have lost since the last call."""
        losses, self._losses = self._losses, []
        return losses

    def _is_in_order(self, file: RecordFile) -> bool:
        has_failed = self._retries.failures > 0 and file.records == self._records_before
        return not has_failed and file.is_intact()

    def _continue_or_replace(self, file: RecordFile, now: float) -> None:
        """Open the file again; continue in a new file if the old file has changed."""
        failures = self._retries.failures
        is_same = False
        if not failures or failures % 2:  # after a new handle has failed too, a new file
            try:
                is_same = file.reopen()
            except OSError:
                # a time-out; another one in this call would stop the training twice
                if self._timer() - now > SLOW_S:
                    raise
        if not is_same:
            self._replace(file, now, is_counted=self.is_open or failures > 0)
        self.is_open = True

    def _replace(self, file: RecordFile, now: float, is_counted: bool) -> None:
        """Continue in a new file, because the old file is lost.

        If the new file cannot be created, the old file stays for the next attempt.
        """
        # before another file can get its name
        missing = file.missing() if is_counted else MissingRecords()
        self._files.check_again()
        self._files.reset_second()
        new = self._files.create()
        try:
            with contextlib.suppress(OSError):  # of a file that is gone
                file.discard()
            self._count_missing(file, missing)
            # of a write that failed the user has been told
            if missing.count and not self._has_failed:
                self._warn_of_missing(file.path, missing)
        finally:
            self._take(new, now)

    def _take(self, file: RecordFile, now: float) -> RecordFile:
        self.file, self._records_before = file, 0
        self.next_check = now + PATH_CHECK_S
        self.next_sync = now + (self._files.options.fsync_secs or math.inf)
        return file

    def _close(self, file: RecordFile) -> None:
        try:
            file.discard()
        finally:
            self._count_missing(file, file.missing())

    def _count_missing(self, file: RecordFile, missing: MissingRecords) -> None:
        """Count the records that disappeared from a file, and cut off its damaged end.

        The number of lost records that is logged at the end includes them.
        """
        if missing.count:
            self._losses.append(missing)
        if missing.count and not missing.is_removed:
            with contextlib.suppress(OSError):  # `mindsummary repair` does it, too
                cut_damaged_end(file.path, missing.end)

    def _warn_of_missing(self, path: str, missing: MissingRecords) -> None:
        if missing.is_removed:
            text = (
                "%s was removed or replaced while it was being written: %d records are lost. "
                "Recording continues"
            )
            self._warnings.warn("gone", text, path, missing.count)
        else:
            text = (
                "the file system accepted %d records of %s and lost them later. Recording continues"
            )
            self._warnings.warn("gone", text, missing.count, path)
