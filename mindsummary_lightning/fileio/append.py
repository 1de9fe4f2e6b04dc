"""Complete records appended to a file, one write each; nothing truncated is ever left behind.

With the write done in the caller's thread the record is in the kernel when the call returns: a killed process loses
nothing, and there is no thread to wait for. This module never decides what happens after an error; it truncates the
file back to its last complete record and raises.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections import deque
from collections.abc import Sequence

from mindsummary_lightning.fileformat.framing import Buffer, total_length
from mindsummary_lightning.fileio.regular import open_regular

try:
    import fcntl
except ImportError:  # Windows: no advisory locks; exclusive creation still keeps two writers apart
    fcntl = None  # type: ignore[assignment]

_MAX_CHUNKS = 512  # of one gathered write; every system takes at least 1,024
_CREATING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def try_lock(descriptor: int) -> bool | None:
    """Take the exclusive advisory lock of an open file without waiting.

    Returns:
        True if this process holds it now, False if another one does, ``None`` if there are no locks here.
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


def is_locked(path: str) -> bool | None:
    """Whether a process holds the lock of a file; ``None`` if that cannot be known. It is taken for a moment to ask."""
    with contextlib.suppress(OSError), open_regular(path) as file:
        is_free = try_lock(file.fileno())
        return None if is_free is None else not is_free
    return None


class RecordFile:
    """A file of records that only grows by complete records.

    Args:
        path: a file that does not exist yet.
        mode: permission bits; the umask does not widen or narrow them.

    Raises:
        FileExistsError: the file exists.
        OSError: it cannot be created.
    """

    def __init__(self, path: str, mode: int = 0o600) -> None:
        self._opened: list[int] = []
        self.path = path
        self.size: int = 0
        self._is_torn = False
        self._torn_size = 0  # bytes of the incomplete record that are in the file, as far as the system told
        try:
            # In C from the call to the list, so that no interrupt gets between the descriptor and who closes it.
            self._opened.extend(map(os.open, [path], [_CREATING], [0o600]))
            self._descriptor = self._opened[0]
            self._created = os.fstat(self._descriptor)
            if mode != 0o600 and hasattr(os, "fchmod"):  # Windows has no such bits
                os.fchmod(self._descriptor, mode)
            try_lock(self._descriptor)  # until close, so that a process that starts meanwhile does not cut our tail
        except BaseException:
            self.discard()
            raise

    @classmethod
    def existing(cls, path: str) -> RecordFile:
        """A file that is there, closed; :meth:`reopen` continues it as it is now. Raises OSError."""
        file = cls.__new__(cls)
        file._opened, file.path, file._is_torn, file._torn_size, file._descriptor = [], path, False, 0, -1
        file._created = os.lstat(path)
        file.size = file._created.st_size
        return file

    def append(self, record: Sequence[Buffer]) -> None:
        """Write one record; it is in the kernel, complete, when this returns.

        Raises:
            OSError: it could not be written; the file ends at its last complete record again.
        """
        if self._is_torn:
            self._cut_back()
        try:
            if len(record) == 1:  # on the hot path of a training loop
                size, written = len(record[0]), os.write(self._descriptor, record[0])
                if written != size:
                    self._torn_size = written
                    self._write_all([memoryview(record[0])[written:]])
            else:
                size = total_length(record)
                self._write_all([memoryview(chunk).cast("B") for chunk in record])
            self._torn_size = 0
            self.size += size
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
                raise OSError(errno.EIO, "the system wrote nothing and gave no reason", self.path)
            self._torn_size += written
            while views and written >= len(views[0]):
                written -= len(views.pop(0))
            if written:
                views[0] = views[0][written:]

    def _cut_back(self) -> None:
        # An incomplete record in the middle hides everything after it from MindInsight for good; so nothing is appended
        # while the truncation fails.
        self._is_torn = True
        end = os.fstat(self._descriptor).st_size
        if end < self.size + self._torn_size:  # somebody else has cut the file: a cut to our size would add zeros
            os.ftruncate(self._descriptor, max(0, end - self._torn_size))
        else:
            os.ftruncate(self._descriptor, self.size)
        self._is_torn = False
        self._torn_size = 0

    def is_lost(self) -> bool:
        """Whether nothing that is appended will ever be read.

        That is so when the file has no name any more, when somebody else has cut it, when the server of a network file
        system has forgotten it (ESTALE), and when other code in the process closed the descriptor, whose number may
        stand for another file now.
        """
        try:
            found = os.fstat(self._descriptor)
        except OSError as error:
            if error.errno not in (errno.ESTALE, errno.EBADF):
                raise
            return True
        if not os.path.samestat(found, self._created):
            self._opened.clear()  # not ours to close
            self._descriptor = -1
            return True
        return found.st_nlink == 0 or found.st_size < self.size

    def sync(self) -> None:
        """Wait until everything appended is on the disk."""
        os.fsync(self._descriptor)

    def reopen(self) -> bool:
        """Continue with the file after :meth:`close`.

        Returns:
            False if the path leads to another file or none, the file is not as long as it was, or another process has
            locked it; then it is left alone.
        """
        with contextlib.suppress(OSError), open_regular(self.path, "ab") as file:
            found = os.fstat(file.fileno())
            is_same = os.path.samestat(found, self._created) and found.st_size == self.size
            if is_same and try_lock(file.fileno()) is not False:
                self._opened.extend(map(os.dup, [file.fileno()]))  # the lock is that of both
                self._descriptor = self._opened[0]
        return bool(self._opened)

    def close(self) -> None:
        """Release the file; a second call does nothing.

        Raises:
            OSError: the file system reports only now that something appended earlier is lost (a quota on a network
                mount, for example). The file is closed all the same.
        """
        self._descriptor = -1
        # In C from the list to the call, as where it is opened: no interrupt loses a descriptor in between.
        deque(map(os.close, map(list.pop, [self._opened] * len(self._opened))), maxlen=0)

    def discard(self) -> None:
        """:meth:`close` the file, and remove it if nothing was ever appended to it. Raises as that."""
        with contextlib.suppress(OSError):
            if self._opened and not self.size and os.path.samestat(os.fstat(self._opened[0]), os.lstat(self.path)):
                os.unlink(self.path)
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # an interrupt may come before the first line of __init__
            self.discard()
