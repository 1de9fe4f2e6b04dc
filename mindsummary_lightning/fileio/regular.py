"""Regular files opened without waiting: a FIFO, device or socket that has an event file's name is refused."""

from __future__ import annotations

import errno
import os
import stat

_ALWAYS = (
    getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a FIFO put there between the check and the open does not block either
)


def open_regular(path: str, flags: int = os.O_RDONLY, *, follow_links: bool = True) -> int:
    """Open a file if it is a regular one (otherwise ``errno.EINVAL``); ``follow_links`` is about ``path`` itself.

    The kind is checked before the open, because opening a device may already do something, and again afterwards,
    because the name may have changed hands.
    """
    _check(os.stat(path, follow_symlinks=follow_links), path)
    no_follow = 0 if follow_links else getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags | _ALWAYS | no_follow)
    try:
        _check(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check(found: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(found.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "a FIFO, device or socket"
        raise OSError(errno.EINVAL, f"is {kind}, not a regular file", path)
