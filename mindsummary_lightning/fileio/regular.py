"""Open regular files safely: follow no links, and never wait for a FIFO.

A user who may write to a run's directory can put a FIFO, a device, a socket or a link there, under
any name. Python's ``open`` would wait for the FIFO forever, read the device endlessly, and follow
the link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from io import FileIO

SMALL = 1 << 26  # bytes of a file that is read as a whole

# Not blocking: a FIFO put there between the check and the open is not waited for either.
_ALWAYS = getattr(os, "O_NOCTTY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)


def open_regular(
    path: str, mode: str = "rb", *, root: str | None = None, max_size: int | None = None
) -> FileIO:
    """Open an existing regular file, unbuffered.

    Args:
        path: the file; a symbolic link is refused.
        mode: mode of ``open``: ``rb``, ``r+b`` or ``ab``.
        root: a directory that contains the file, directly or in subdirectories. The path to the
            root may go through links, the path from there to the file may not. By default the
            directory of the file.
        max_size: bytes; a larger file is refused.

    Raises:
        OSError: the file cannot be opened, is not a regular file (``EINVAL``) or too large
            (``EFBIG``).
    """

    def opened(name: str, flags: int) -> int:
        return os.open(name, (flags | _ALWAYS) & ~os.O_CREAT, dir_fd=directory)

    with (
        place_below(root, path) if root is not None else contextlib.nullcontext((path, None)) as (
            name,
            directory,
        )
    ):
        file = None
        # opening a device may do something, and a name may change hands: the kind is checked before
        # and after
        try:
            _check(os.stat(name, dir_fd=directory, follow_symlinks=False), max_size)
            file = FileIO(name, mode, opener=opened)
            _check(os.fstat(file.fileno()), max_size)
            return file
        except OSError as error:
            if file is not None:
                file.close()
            error.filename = path
            raise


def read_regular(path: str, *, root: str | None = None, max_size: int = SMALL) -> bytes:
    """Read a small regular file completely.

    Raises the errors of :func:`open_regular`.
    """
    with open_regular(path, root=root, max_size=max_size) as file:
        return file.readall()


def _check(found: os.stat_result, max_size: int | None) -> None:
    if not stat.S_ISREG(found.st_mode):
        kinds = {stat.S_IFDIR: "a directory", stat.S_IFLNK: "a symbolic link"}
        kind = kinds.get(stat.S_IFMT(found.st_mode), "a FIFO, device or socket")
        raise OSError(errno.EINVAL, f"is {kind}, not a regular file")
    if max_size is not None and found.st_size > max_size:
        raise OSError(errno.EFBIG, f"must have at most {max_size} bytes, got {found.st_size}")


@contextlib.contextmanager
def place_below(
    root: str | None, path: str, *, is_made: bool = False
) -> Iterator[tuple[str, int | None]]:
    """Open the directory of a file; follow no links below the directory ``root``.

    Yields:
        The name of the file and a descriptor of its directory; without a root, and on Windows,
        ``path`` and ``None``.

    With ``is_made``, missing directories are created.

    Raises:
        OSError: a directory on the path is a link or not a directory.
    """
    if root is None:
        yield path, None
        return
    here, descriptor = root or os.curdir, None
    below = os.path.relpath(os.path.dirname(path) or os.curdir, here).split(os.sep)
    if is_made:
        os.makedirs(here, exist_ok=True)
    with contextlib.ExitStack() as opened:
        for part in ["", *below]:
            here = os.path.join(here, part)
            name = here if descriptor is None else part
            try:
                if part:
                    _check_part(here, name, descriptor, is_made)
                if os.open in os.supports_dir_fd:
                    descriptor = os.open(
                        name, _DIRECTORY | (os.O_NOFOLLOW if part else 0), dir_fd=descriptor
                    )
                    opened.callback(os.close, descriptor)
            except OSError as error:
                error.filename = here
                raise
        yield path if descriptor is None else os.path.basename(path), descriptor


def _check_part(path: str, name: str, parent: int | None, is_made: bool) -> None:
    """Raise OSError if a directory on the path to a file is a symbolic link.

    With ``is_made``, the directory is created if it is missing.
    """
    if is_made:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
    if os.path.islink(path):
        raise OSError(errno.EINVAL, "is a symbolic link, which is not followed in a run directory")


def files_below(
    root: str, on_error: Callable[[OSError], object] | None = None
) -> dict[str, tuple[int, int]]:
    """Return size and modification time of all files in a directory tree.

    The keys are relative paths. The size is in bytes, and -1 if the entry is not a regular file.
    The time is in nanoseconds. The directory must not be a link.

    Links are not followed. ``on_error`` is called for every existing directory that cannot be
    listed.
    """
    found = {}
    for folder, folders, names in os.walk(root, onerror=on_error if os.path.isdir(root) else None):
        for path in (os.path.join(folder, name) for name in folders + names):
            with contextlib.suppress(FileNotFoundError):
                info = os.lstat(path)
                if not stat.S_ISDIR(info.st_mode):
                    size = info.st_size if stat.S_ISREG(info.st_mode) else -1
                    found[os.path.relpath(path, root)] = size, info.st_mtime_ns
    return found


def path_of_open(file: FileIO) -> str:
    """Return a path that leads to an open file even if it was renamed or deleted.

    Use it for a library that opens only paths.
    """
    own = f"/dev/fd/{file.fileno()}"
    return own if os.path.exists(own) else str(file.name)  # Windows
