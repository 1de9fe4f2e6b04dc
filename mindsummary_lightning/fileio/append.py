"""Append records to a file, so that it contains only complete records.

A failed write leaves no incomplete record in the file.

The caller's thread does the write, so the record is in the kernel when the call returns. A killed
process loses no record, and there is no thread to wait for. After an error this module truncates
the file to its last complete record and raises the error; the caller decides what happens next.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import Buffer, total_length
from mindsummary_lightning.fileio.blocks import blocks_of
from mindsummary_lightning.fileio.outages import is_not_there
from mindsummary_lightning.fileio.regular import open_regular

try:
    import fcntl
except ImportError:  # Windows: no advisory locks; exclusive creation still keeps two writers apart
    fcntl = None  # type: ignore[assignment]

_MAX_CHUNKS = 512  # of one gathered write; every system takes at least 1,024
_CREATING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def try_lock(descriptor: int) -> bool | None:
    """Try to take the exclusive advisory lock of an open file, without waiting.

    Returns:
        True if this process holds the lock now, False if another process holds it, ``None`` if the
        system has no locks for the file.
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


def is_locked(path: str) -> bool | None:
    """Tell whether a process holds the advisory lock of a file.

    The result is ``None`` if this is unknown. To find out, the function takes the lock for a
    moment.
    """
    with contextlib.suppress(OSError), open_regular(path) as file:
        is_free = try_lock(file.fileno())
        return None if is_free is None else not is_free
    return None


@dataclass(frozen=True, slots=True)
class MissingRecords:
    """Number of records that were appended to a file and have disappeared from it.

    Attributes:
        count: number of missing records.
        is_removed: whether the whole file is gone or replaced by another file; otherwise the file
            is shorter.
        end: byte offset in the file after the last complete record that is left.
    """

    count: int = 0
    is_removed: bool = False
    end: int = 0


class RecordFile:
    """A new file to which only complete records are appended.

    Args:
        path: a file that does not exist yet.
        mode: permission bits; the umask does not widen or narrow them.

    Attributes:
        size: bytes of all records.
        records: number of records appended after the first record, which gives the kind of the
            file.

    Raises:
        FileExistsError: the file exists.
        OSError: the file cannot be created.
    """

    def __init__(self, path: str, mode: int = 0o600) -> None:
        self._opened: list[int] = []
        self.path = path
        self.size: int = 0
        self.records: int = 0
        self._beginning = b""  # the first record, by which the file is known under another inode
        self._counted_from = 0  # where in the file the records begin that are counted
        self._is_torn = False
        # bytes of the incomplete record that are in the file, as far as the system told
        self._torn_size = 0
        try:
            # In C from the call to the list, so that no interrupt gets between the descriptor and
            # who closes it.
            self._opened.extend(map(os.open, [path], [_CREATING], [0o600]))
            self._descriptor = self._opened[0]
            self._created = os.fstat(self._descriptor)
            if mode != 0o600 and hasattr(os, "fchmod"):  # Windows has no such bits
                os.fchmod(self._descriptor, mode)
            # until close, so that a process that starts meanwhile does not cut our tail
            try_lock(self._descriptor)
        except BaseException:
            self.discard()
            raise

    def begin(self, record: Sequence[Buffer]) -> None:
        """Write the first record of the file; raise the errors of :meth:`append`."""
        self.append(record)
        self.records = 0
        self._beginning = b"".join(record)
        self._counted_from = self.size

    @classmethod
    def existing(cls, path: str, beginning: bytes) -> RecordFile:
        """Return a ``RecordFile`` for an existing file, without opening the file.

        :meth:`reopen` opens it, to append to its present content.

        Args:
            path: the file.
            beginning: its first bytes, by which it is recognised if its inode changes.

        Raises:
            OSError: the file does not exist, or its status cannot be read.
        """
        file = cls.__new__(cls)
        file._opened, file._descriptor = [], -1
        file.path, file._beginning = path, beginning
        file._is_torn, file._torn_size = False, 0
        file._created = os.lstat(path)
        file.size = file._counted_from = file._created.st_size
        file.records = 0
        return file

    def append(self, record: Sequence[Buffer]) -> None:
        """Write a record completely to the kernel before returning.

        Raises:
            OSError: the record could not be written; the file is cut back to its last complete
                record.
        """
        if self._is_torn:
            self._cut_back()
        try:
            if len(record) == 1:  # on the hot path of a training loop
                size = len(record[0])
                written = os.write(self._descriptor, record[0])
                if written != size:
                    self._torn_size = written
                    self._write_all([memoryview(record[0])[written:]])
            else:
                size = total_length(record)
                self._write_all([memoryview(chunk).cast("B") for chunk in record])
            self.size += size
            self.records += 1
        except BaseException:  # a signal handler may raise between two parts of a record
            with contextlib.suppress(OSError):  # the first error is the one to raise
                self._cut_back()
            raise

    def _write_all(self, views: list[memoryview]) -> None:
        while views:
            if hasattr(os, "writev"):
                written = os.writev(self._descriptor, views[:_MAX_CHUNKS])
            else:
                written = os.write(self._descriptor, views[0])
            if not written:
                raise OSError(errno.EIO, "the system wrote no byte and gave no reason", self.path)
            self._torn_size += written
            while views and written >= len(views[0]):
                written -= len(views.pop(0))
            if written:
                views[0] = views[0][written:]
        self._torn_size = 0

    def _cut_back(self) -> None:
        # An incomplete record in the middle hides everything after it from MindInsight for good; so
        # nothing is appended while the truncation fails.
        self._is_torn = True
        end = os.fstat(self._descriptor).st_size
        # somebody else has cut the file: a cut to our size would add zeros
        if end < self.size + self._torn_size:
            os.ftruncate(self._descriptor, max(0, end - self._torn_size))
        else:
            os.ftruncate(self._descriptor, self.size)
        self._is_torn = False
        self._torn_size = 0

    def is_intact(self) -> bool:
        """Tell whether the path leads to this file and it has all appended records.

        The check is two calls of ``stat``.

        The result is also False if the handle cannot be asked, or if other code in the process
        closed the descriptor, whose number may belong to another file now. It is True if the handle
        answers and the path cannot be asked.
        """
        try:
            found = os.fstat(self._descriptor)
        except OSError as error:
            if error.errno == errno.EBADF:
                self._disown()
            return False
        if not os.path.samestat(found, self._created):
            self._disown()
            return False
        try:
            named = os.stat(self.path, follow_symlinks=False)
        except OSError as error:
            return not isinstance(error, (FileNotFoundError, NotADirectoryError))
        return (
            found.st_nlink > 0
            and found.st_size >= self.size
            and os.path.samestat(named, self._created)
        )

    def _disown(self) -> None:
        self._opened.clear()  # not ours to close
        self._descriptor = -1

    def missing(self) -> MissingRecords:
        """Return how many appended records the file at the path lacks.

        The result is empty if that is unknown.

        A file that is long enough is not read. A file with another inode is recognised by its first
        record, because a file system in user space may renumber its files when it is mounted again.
        """
        if not self.records:
            return MissingRecords()
        try:
            with open_regular(self.path) as file:
                found = os.fstat(file.fileno())
                is_same = os.path.samestat(found, self._created)
                if is_same and found.st_size >= self.size:
                    return MissingRecords()
                beginning = file.read(len(self._beginning))
                if beginning != self._beginning and not (
                    is_same and self._beginning.startswith(beginning)
                ):
                    return MissingRecords(self.records, is_removed=True)
                is_cut_before = found.st_size < self._counted_from
                kept, end = 0, 0 if is_cut_before else self._counted_from
                with contextlib.suppress(DamagedFileError):
                    for end_of_block, payloads in blocks_of(file, self.path, end):
                        kept += 0 if is_cut_before else len(payloads)
                        end = end_of_block
        except OSError as error:
            is_removed = isinstance(error, (FileNotFoundError, NotADirectoryError))
            return MissingRecords(self.records if is_removed else 0, is_removed)
        return MissingRecords(max(0, self.records - kept), end=end)

    def sync(self) -> None:
        """Wait until all appended records are on the disk (fsync)."""
        os.fsync(self._descriptor)

    def reopen(self) -> bool:
        """Open the file at the path again, to append through a new handle.

        Call it after :meth:`close`, or after the present handle has failed.

        Returns:
            False if there is no file at the path, the file is another file or has another size than
            before, or another process has locked it. Then the file is left unchanged and closed.

        Raises:
            OSError: the file system does not answer; the present handle is kept.
        """
        try:
            file = open_regular(self.path, "ab")
        except OSError as error:
            if not is_not_there(error):
                raise
            self._close_quietly()
            return False
        with file:
            # its lock would refuse ours; what a dead handle says was said before
            self._close_quietly()
            found = os.fstat(file.fileno())
            # Behind a record that failed stands what was written of it, which is cut off before the
            # next one.
            is_as_long = found.st_size == self.size or (self._is_torn and found.st_size > self.size)
            is_same = os.path.samestat(found, self._created) or self._begins_alike()
            if is_as_long and is_same and try_lock(file.fileno()) is not False:
                self._opened.extend(map(os.dup, [file.fileno()]))  # the lock is that of both
                self._descriptor, self._created = self._opened[0], found
                self._torn_size = found.st_size - self.size
        return bool(self._opened)

    def _begins_alike(self) -> bool:
        with contextlib.suppress(OSError), open_regular(self.path) as file:
            return bool(self._beginning) and file.read(len(self._beginning)) == self._beginning
        return False

    def _close_quietly(self) -> None:
        with contextlib.suppress(OSError):
            self.close()

    def close(self) -> None:
        """Close the file; a second call does nothing.

        Raises:
            OSError: the file system reports only now that something appended earlier is lost
                (because of a quota on a network mount, for example). The file is closed
                nevertheless.
        """
        self._descriptor = -1
        # In C from the list to the call, as where it is opened: no interrupt loses a descriptor in
        # between.
        deque(map(os.close, map(list.pop, [self._opened] * len(self._opened))), maxlen=0)

    def discard(self) -> None:
        """Close the file, and delete it if it is empty.

        Raises the errors of :meth:`close`.
        """
        with contextlib.suppress(OSError):
            if (
                self._opened
                and not self.size
                and os.path.samestat(os.fstat(self._opened[0]), os.lstat(self.path))
            ):
                os.unlink(self.path)
        self.close()

    def __del__(self) -> None:
        # an interrupt may come before the first line of __init__
        with contextlib.suppress(OSError, AttributeError):
            self.discard()
