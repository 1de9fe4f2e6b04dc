"""The one way in which a file of a run directory is opened: a regular file, reached by no link, without waiting.

Whoever may write to a run's directory can put a FIFO, a device, a socket or a link under any name in it. Python's own
``open`` would wait at the first for ever, read from the second without end, and follow the last.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from io import FileIO

SMALL = 1 << 26  # bytes of a file that is read as a whole

_ALWAYS = (
    getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a FIFO put there between the check and the open does not block either
)
_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_OPENS_BELOW = os.open in os.supports_dir_fd


def open_regular(path: str, mode: str = "rb", *, root: str | None = None, max_size: int | None = None) -> FileIO:
    """Open a regular file, unbuffered; ``mode`` is one of ``rb``, ``r+b`` and ``ab``, which makes none.

    The kind is checked before the open, because opening a device may already do something, and again afterwards,
    because the name may have changed hands.

    Args:
        path: the file; if it is a link, it is refused.
        mode: as that of ``open``.
        root: a directory above the file, which may be reached through links; what is below it may not. By default that
            which the file is in.
        max_size: bytes; a larger file is refused.

    Raises:
        OSError: it cannot be opened, is not a regular file (``EINVAL``) or too large (``EFBIG``).
    """

    def opened(name: str, flags: int) -> int:
        descriptor = os.open(name, (flags | _ALWAYS) & ~os.O_CREAT, dir_fd=directory)
        try:
            check_regular(os.fstat(descriptor), path, max_size)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    with directory_below(root, path) if root is not None else contextlib.nullcontext() as directory:
        name = path if directory is None else os.path.basename(path)
        try:
            check_regular(os.stat(name, dir_fd=directory, follow_symlinks=False), path, max_size)
            return FileIO(name, mode, opener=opened)
        except OSError as error:
            error.filename = path
            raise


def read_regular(path: str, *, root: str | None = None, max_size: int = SMALL) -> bytes:
    """All of a file that is small by nature; raises as :func:`open_regular`."""
    with open_regular(path, root=root, max_size=max_size) as file:
        return b"".join(iter(lambda: file.read(max_size + 1), b""))


def check_regular(found: os.stat_result, path: str, max_size: int | None = None) -> None:
    """Raise OSError if what was found at a path is not a regular file, or larger than ``max_size``."""
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(found.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "a FIFO, device or socket"
        raise OSError(errno.EINVAL, f"is {kind}, not a regular file", path)
    if max_size is not None and found.st_size > max_size:
        raise OSError(errno.EFBIG, f"has {found.st_size} bytes; of such a file at most {max_size} are read", path)


@contextlib.contextmanager
def directory_below(root: str, path: str, *, is_made: bool = False) -> Iterator[int | None]:
    """A descriptor of the directory of ``path``, reached from ``root`` through no link; ``None`` on Windows.

    ``is_made``: what is missing on the way is made.

    Raises:
        OSError: a directory on the way is a link or no directory.
    """
    here, descriptor = root or os.curdir, None
    parts = os.path.relpath(os.path.dirname(path) or os.curdir, here).split(os.sep)
    with contextlib.ExitStack() as opened:
        if is_made:
            os.makedirs(here, exist_ok=True)
        try:
            for part in [os.curdir, *parts]:
                if part != os.curdir:
                    here = os.path.join(here, part)
                    if is_made:
                        with contextlib.suppress(FileExistsError):
                            os.mkdir(here if descriptor is None else part, dir_fd=descriptor)
                    if os.path.islink(here):
                        raise OSError(errno.EINVAL, "is a symbolic link; below a run directory none is followed")
                if _OPENS_BELOW:
                    name, flags = (here, 0) if descriptor is None else (part, os.O_NOFOLLOW)
                    descriptor = os.open(name, _DIRECTORY | flags, dir_fd=descriptor)
                    opened.callback(os.close, descriptor)
        except OSError as error:
            error.filename = here
            raise
        yield descriptor


def path_of_open(file: FileIO) -> str:
    """A path that leads to an open file whatever has become of its name, for a library that opens paths only."""
    own = f"/dev/fd/{file.fileno()}"
    return own if os.path.exists(own) else str(file.name)  # Windows


def set_mode(descriptor: int, path: str, mode: int) -> None:
    """Give an open file permission bits; on Windows, where only a path takes them, by its path."""
    os.chmod(descriptor if os.chmod in os.supports_fd else path, mode)
