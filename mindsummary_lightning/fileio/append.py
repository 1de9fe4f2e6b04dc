"""One whole record to a file in one write, and nothing torn ever left behind.

With the write done in the caller's thread the record is in the kernel when the call returns: a killed process loses
nothing, and there is no thread to wait for. This module never decides what happens after an error; it cuts the file
back to its last whole record and raises.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence

from mindsummary_lightning.fileformat.framing import Buffer, frame

try:
    import fcntl
except ImportError:  # Windows: no advisory locks; the exclusive creation still keeps two writers apart
    fcntl = None  # type: ignore[assignment]

__all__ = ["RecordFile", "try_lock"]

_MAX_PIECES = 512  # of one gathered write; every system takes at least 1,024
_APPENDING = os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def try_lock(descriptor: int) -> bool | None:
    """Take the exclusive advisory lock of an open file without waiting.

    Returns:
        True if it is ours now, False if somebody holds it, ``None`` if the file system or system has no locks.
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


class RecordFile:
    """A file of records that only grows by whole records.

    Args:
        path: a file that does not exist yet.
        mode: permission bits; the umask does not widen or narrow them.

    Raises:
        FileExistsError: the file exists.
        OSError: it cannot be created.
    """

    def __init__(self, path: str, mode: int = 0o600) -> None:
        self._descriptor = os.open(path, _APPENDING | os.O_CREAT | os.O_EXCL, 0o600)
        self.path = path
        self.size = 0
        self._is_torn = False
        if mode != 0o600:
            try:
                os.chmod(path, mode)
            except OSError:
                self.close()
                raise
        try_lock(self._descriptor)  # held while the file lives, so that a resumed run does not cut our tail

    def append(self, payload: Sequence[Buffer]) -> int:
        """Write one record; it is in the kernel, whole, when this returns.

        Args:
            payload: the payload's pieces, in order.

        Returns:
            The record's size in bytes, framing included.

        Raises:
            ValueError: the payload is empty.
            OSError: it could not be written; the file ends at its last whole record again.
        """
        pieces = frame(payload)
        if len(pieces) == 1:
            return self.append_record(pieces[0])
        size = sum(map(len, pieces))
        if self._is_torn:
            self._cut_back()
        try:
            self._write_all([memoryview(piece).cast("B") for piece in pieces])
            self.size += size
        except BaseException:
            self._give_up()
            raise
        return size

    def append_record(self, data: Buffer) -> int:
        """:meth:`append` for a small record that is framed already: what a training loop waits for."""
        if self._is_torn:
            self._cut_back()
        try:
            size = len(data)
            written = os.write(self._descriptor, data)
            if written != size:
                self._write_all([memoryview(data)[written:]])
            self.size += size
        except BaseException:
            self._give_up()
            raise
        return size

    def _give_up(self) -> None:
        # Whatever was raised: a signal's exception may come between two parts of a record.
        with contextlib.suppress(OSError):  # what went wrong first is what is raised
            self._cut_back()

    def _write_all(self, views: list[memoryview]) -> None:
        while views:
            if hasattr(os, "writev"):
                written = os.writev(self._descriptor, views[:_MAX_PIECES])
            else:
                written = os.write(self._descriptor, views[0])
            if not written:
                raise OSError(errno.EIO, "the system wrote nothing and gave no reason", self.path)
            while views and written >= len(views[0]):
                written -= len(views.pop(0))
            if written:
                views[0] = views[0][written:]

    def _cut_back(self) -> None:
        # A torn record in the middle hides everything behind it from MindInsight for good; so nothing is appended while
        # the cut fails.
        self._is_torn = True
        os.ftruncate(self._descriptor, self.size)
        self._is_torn = False

    def is_deleted(self) -> bool:
        """Whether the file has no name any more, so that nobody will ever read what is appended."""
        return os.fstat(self._descriptor).st_nlink == 0

    def sync(self) -> None:
        """Wait until everything appended is on the disk.

        Raises:
            OSError: the disk refused it.
        """
        os.fsync(self._descriptor)

    def reopen(self) -> bool:
        """Go on with the file after :meth:`close`.

        Returns:
            False if it is gone, is not as long as we left it or belongs to somebody else now; then leave it alone.
        """
        try:
            descriptor = os.open(self.path, _APPENDING)
        except OSError:
            return False
        if os.fstat(descriptor).st_size != self.size or try_lock(descriptor) is False:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def close(self) -> None:
        """Let go of the file; a second call does nothing."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)
