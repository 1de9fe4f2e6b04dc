"""Name and create the summary and lineage files of a run directory.

MindInsight follows only the newest file of a kind, so the name of a new file has a later second
than the names of all existing files. An incomplete last record of an older file would hide the new
file for ten minutes, so it is cut off first.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

from mindsummary_lightning.errors import printable
from mindsummary_lightning.fileformat.file_names import (
    LINEAGE_SUFFIX,
    MAX_TIMESTAMP,
    file_name,
    is_lineage_name,
    is_summary_name,
    read_order,
    timestamp_of,
)
from mindsummary_lightning.fileformat.file_signature import is_lineage_file, is_summary_file
from mindsummary_lightning.fileio.append import RecordFile
from mindsummary_lightning.fileio.regular import open_regular
from mindsummary_lightning.fileio.torn_tail import cut_torn_tail

_LOG = logging.getLogger(__name__)
_BEGINNING = 4096  # bytes that show whether a file is a summary file
# the year 9999: a name there neither orders ours nor leaves them none
_NOBODYS_TIME = MAX_TIMESTAMP - 366 * 86_400


@dataclass(frozen=True, slots=True)
class FileOptions:
    """Options for the summary and lineage files of a run, such as prefix and mode.

    Attributes:
        prefix: first part of the file names.
        suffix: last part of the summary file's name.
        max_file_size: bytes after which a new summary file is started, or ``None``.
        mode: permission bits of every file.
        fsync_secs: seconds after which appended records are fsynced, or ``None`` to leave it to the
            system.
        free_space_factor: a record of 64 KiB or more is refused if the free space of the disk is
            less than this many times the record's size; with 0, records are never refused.
    """

    prefix: str = "events"
    suffix: str = "_MS"
    max_file_size: int | None = None
    mode: int = 0o600
    fsync_secs: float | None = None
    free_space_factor: int = 32


class EventFiles:
    """A factory that names and creates the files of a run directory.

    Not thread-safe: the caller holds a lock.
    """

    def __init__(self, directory: str, options: FileOptions, clock: Callable[[], float]) -> None:
        self.directory = directory
        self.options = options
        self._clock = clock
        self._stem_second: int | None = None
        # device and inode of the directory whose files were checked
        self._prepared: tuple[int, int] | None = None
        self._checked: dict[str, int] = {}  # their sizes then, by their names
        # those, and its time of change, when it was listed last
        self._listed: tuple[int, int, int] | None = None
        # the latest second in a name of each kind (whether it is lineage) then
        self._latest: dict[bool, int] = {}

    def expected_path(self, is_lineage: bool = False) -> str:
        """Return the path that a file would get if it were created now."""
        suffix = LINEAGE_SUFFIX if is_lineage else self.options.suffix
        second = min(self._second(), MAX_TIMESTAMP)
        # 0: the rank that records
        name = file_name(self.options.prefix, second, 0, socket.gethostname(), suffix)
        return os.path.join(self.directory, name)

    def create(self, is_lineage: bool = False) -> RecordFile:
        """Create an empty, locked summary or lineage file with the newest file name.

        The kind is lineage file (``is_lineage``) or summary file.

        Raises:
            OSError: the file cannot be created.
        """
        self.prepare()
        latest = self._latest_seconds().get(is_lineage)
        # another process was here since the second was chosen
        if latest is not None and self._second() <= latest:
            self._stem_second = latest + 1
        while self._second() <= MAX_TIMESTAMP:
            try:
                file = RecordFile(self.expected_path(is_lineage), self.options.mode)
            except FileExistsError:
                self._stem_second = self._second() + 1
                continue
            try:
                self._latest[is_lineage] = self._second()
                self._listed = self._state()
                return file
            except BaseException:
                file.discard()
                raise
        raise OSError(
            errno.EOVERFLOW,
            f"the time in a file name must be at most {MAX_TIMESTAMP}, got a later time. Set the "
            "clock",
            self.directory,
        )

    def newest_summary_file(self) -> RecordFile | None:
        """Return the newest summary file of the directory, without opening it.

        The result is ``None`` if there is no summary file, or if the newest was written neither by
        this package nor by MindSpore.

        Raises:
            OSError: the directory or the file cannot be read.
        """
        self.prepare()
        names = read_order(filter(is_summary_name, os.listdir(self.directory)))
        for name in names[-1:]:
            path = os.path.join(self.directory, name)
            with open_regular(path) as file:
                beginning = file.read(_BEGINNING)
            if is_summary_file(beginning):
                return RecordFile.existing(path, beginning)
        return None

    def check_again(self) -> None:
        """Check the existing files again before the next file is created.

        Call this method when another process has changed an existing file.
        """
        self._prepared = None

    def reset_second(self) -> None:
        """Make the time in the next file's name later than the time of existing files."""
        self._stem_second = None

    def lineage_paths(self) -> list[str]:
        """Return the paths of the directory's lineage files, the newest last."""
        names = filter(is_lineage_name, os.listdir(self.directory))
        return [os.path.join(self.directory, name) for name in read_order(names)]

    def prepare(self) -> None:
        """Create the run directory, and cut incomplete records off existing files.

        Earlier processes may have left incomplete records at the end of their files.
        """
        os.makedirs(self.directory, exist_ok=True)
        status = os.stat(self.directory)
        if self._prepared == (status.st_dev, status.st_ino):
            return
        self._prepared = (status.st_dev, status.st_ino)
        for name in os.listdir(self.directory):
            if is_summary_name(name):
                self._cut(name, is_summary_file)
            elif is_lineage_name(name):
                self._cut(name, is_lineage_file)
            if (timestamp_of(name) or 0) >= _NOBODYS_TIME:
                text = (
                    "the time in the name of %s is later than that of new files, so MindInsight "
                    "shows no new values. Move the file away"
                )
                _LOG.warning(text, printable(os.path.join(self.directory, name)))

    def _cut(self, name: str, is_ours: Callable[[bytes], bool]) -> None:
        path = os.path.join(self.directory, name)
        # such a file is not ours to change: `mindsummary repair` says why
        with contextlib.suppress(OSError):
            size = os.path.getsize(path)
            if self._checked.get(name) == size:
                return
            cut = cut_torn_tail(path, is_ours)
            self._checked[name] = size - cut
            if cut:
                _LOG.warning(
                    "cut %d bytes of an unfinished record off the end of %s. They are kept in "
                    "the directory .damaged next to it",
                    *(cut, printable(path)),
                )

    def _second(self) -> int:
        # One second serves a run's summary and lineage file, as MindSpore's do.
        if self._stem_second is None:
            latest = max(self._latest_seconds().values(), default=-1)
            self._stem_second = max(int(self._clock()), latest + 1)
        return self._stem_second

    def _latest_seconds(self) -> dict[bool, int]:
        # A rotation must not cost a listing of all files before it: the directory is listed again
        # only if somebody else has changed it. What another process does within one tick of the
        # file system's clock (4 ms on ext4) of our own file is missed; a name that is taken is
        # still refused. A clock of full seconds tells too little.
        state = self._state()
        if state is None or state != self._listed or not state[2] % 1_000_000_000:
            self._latest = {}
            with contextlib.suppress(OSError):
                for name in os.listdir(self.directory):
                    second = timestamp_of(name)
                    if second is not None and second < _NOBODYS_TIME:
                        is_lineage = is_lineage_name(name)
                        self._latest[is_lineage] = max(second, self._latest.get(is_lineage, 0))
            self._listed = state
        return self._latest

    def _state(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self.directory)
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns
