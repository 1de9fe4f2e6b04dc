"""Where a run's files lie and what they are called; nothing of what stands in them.

MindInsight follows only the newest file of a kind, so a new one gets a later second than every file that is there, and
a torn tail of an older one, which would hide the new one for ten minutes, is cut off first.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

from mindsummary_lightning.fileformat.file_names import (
    LINEAGE_SUFFIX,
    MAX_TIMESTAMP,
    file_name,
    is_lineage_name,
    is_summary_name,
    read_order,
    timestamp_of,
)
from mindsummary_lightning.fileio.append import RecordFile
from mindsummary_lightning.fileio.salvage import cut_torn_tail

__all__ = ["EventFiles", "FileOptions"]

_LOG = logging.getLogger(__name__)


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


class EventFiles:
    """Names and makes the files of one directory. Not locked; its user is."""

    def __init__(self, directory: str, options: FileOptions, clock: Callable[[], float]) -> None:
        self.directory = directory
        self.options = options
        self._clock = clock
        self._stem_second: int | None = None
        self._tails_are_cut = False

    def expected_path(self, is_lineage: bool = False) -> str:
        """The path that a file made now would get."""
        suffix = LINEAGE_SUFFIX if is_lineage else self.options.suffix
        name = file_name(self.options.prefix, self._second(), self.options.rank, socket.gethostname(), suffix)
        return os.path.join(self.directory, name)

    def create(self, is_lineage: bool = False) -> RecordFile:
        """Make the newest file of its kind, empty and ours alone.

        Raises:
            OSError: the directory or the file cannot be made.
        """
        self.prepare()
        of_its_kind = is_lineage_name if is_lineage else is_summary_name
        latest = self._latest_second(of_its_kind)
        if latest is not None and self._second() <= latest:  # another process was here since the second was chosen
            self._stem_second = latest + 1
        while True:
            try:
                return RecordFile(self.expected_path(is_lineage), self.options.mode)
            except FileExistsError:
                self._stem_second = self._second() + 1

    def begin_anew(self) -> None:
        """Give the next file a later second than every file here has."""
        self._stem_second = None

    def lineage_paths(self) -> list[str]:
        """Every lineage file of the directory, in the reader's order."""
        names = filter(is_lineage_name, os.listdir(self.directory))
        return [os.path.join(self.directory, name) for name in read_order(names)]

    def prepare(self) -> None:
        """Make the directory, and cut the torn tails that earlier processes left in it.

        Raises:
            OSError: the directory cannot be made or listed.
        """
        os.makedirs(self.directory, exist_ok=True)
        if self._tails_are_cut:
            return
        self._tails_are_cut = True
        for name in os.listdir(self.directory):
            if not (is_summary_name(name) or is_lineage_name(name)):
                continue
            path = os.path.join(self.directory, name)
            with contextlib.suppress(OSError):
                cut = cut_torn_tail(path) if os.path.isfile(path) else 0
                if cut:
                    _LOG.warning("cut %d bytes of an unfinished record off the end of %s", cut, path)

    def _second(self) -> int:
        # One second serves a run's summary and lineage file, as MindSpore's do.
        if self._stem_second is None:
            latest = self._latest_second(lambda name: True)
            self._stem_second = max(int(self._clock()), 0 if latest is None else latest + 1)
        return self._stem_second

    def _latest_second(self, is_wanted: Callable[[str], bool]) -> int | None:
        try:
            names = os.listdir(self.directory)
        except OSError:
            return None
        seconds = (timestamp_of(name) for name in names if is_wanted(name))
        return max((second for second in seconds if second is not None and second < MAX_TIMESTAMP), default=None)
