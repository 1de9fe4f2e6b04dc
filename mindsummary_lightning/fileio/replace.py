"""Replace files atomically: readers see the old bytes or the new bytes.

The directory ``.damaged`` inside a run keeps the files that a repair replaced and the bytes that
were cut off a file.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from functools import partial
from typing import IO

from mindsummary_lightning.fileio.regular import place_below

DAMAGED_DIRECTORY = ".damaged"

_TEMPORARY = re.compile(r"\.mindsummary-(\d+)-[0-9a-f]{8}\.tmp")
_TIMESTAMP = re.compile(r"summary\.(?=\d)")


def temporary_name(directory: str) -> str:
    """Return an unused path in a directory, with a name that MindInsight ignores."""
    return os.path.join(directory, f".mindsummary-{os.getpid()}-{secrets.token_hex(4)}.tmp")


def remove_stale_temporaries(directory: str) -> None:
    """Delete the temporary files that killed processes left in a directory.

    Their names are those of :func:`temporary_name`. Files of running processes stay.
    """
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        match = _TEMPORARY.fullmatch(name)
        if match and not _is_running(int(match[1])):
            path = os.path.join(directory, name)
            # on Windows that of a process that is at work cannot be removed
            with contextlib.suppress(OSError):
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


def _is_running(pid: int) -> bool:
    if os.name == "nt":  # there a signal of number 0 is Ctrl-C
        return pid == os.getpid()
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        pass
    return True


@contextlib.contextmanager
def replacement(
    path: str, mode: int = 0o600, *, root: str | None = None, is_synced: bool = True
) -> Iterator[IO[bytes]]:
    """Yield a binary file that replaces ``path`` if the ``with`` block succeeds.

    A crash at any moment leaves either the old file or the complete new file.

    Args:
        path: the file to create or replace.
        mode: permission bits of the new file; the umask does not change them.
        root: a directory that contains the file, directly or in subdirectories, which are created
            if they are missing. The path to the root may go through links, the path from there to
            the file may not. By default the directory of the file, which must exist.
        is_synced: fsync the file before it is renamed, and the directory afterwards; without it, a
            power failure may leave an incomplete file under the name.

    Raises:
        OSError: the file could not be written; the old file is unchanged and no temporary file is
            left.
    """
    with place_below(root, path, is_made=True) as (name, directory):
        temporary = temporary_name(os.path.dirname(name))
        below = {} if directory is None else {"src_dir_fd": directory, "dst_dir_fd": directory}
        # in C: no interrupt gets between it and the file
        private = partial(os.open, mode=0o600, dir_fd=directory)
        try:
            with open(temporary, "x+b", opener=private) as file:
                yield file
                file.flush()
                if is_synced:
                    os.fsync(file.fileno())
                if mode != 0o600 and hasattr(os, "fchmod"):  # Windows has no such bits
                    os.fchmod(file.fileno(), mode)
            os.replace(temporary, name, **below)
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            if isinstance(error, OSError) and error.filename in (temporary, name):
                error.filename = path
            raise
        if is_synced:
            _sync_directory(os.path.dirname(name), directory)


def replace_file(path: str, data: bytes, mode: int = 0o600) -> tuple[int, int]:
    """Write ``data`` to ``path`` atomically, as :func:`replacement` does.

    Returns the device and inode of the new file.
    """
    with replacement(path, mode) as file:
        file.write(data)
        written = os.fstat(file.fileno())
    return written.st_dev, written.st_ino


def damaged_path(path: str, ending: str) -> str:
    """Return an unused path in the directory ``.damaged`` next to a file.

    The name contains no ``summary.<digits>`` and does not end in ``.pb``. If MindInsight is started
    on the run itself, it also lists hidden directories, and would show such a file as a run.
    """
    directory = os.path.join(os.path.dirname(path), DAMAGED_DIRECTORY)
    name = f"{_TIMESTAMP.sub('summary-', os.path.basename(path))}.{ending}"
    kept, number = os.path.join(directory, name), 0
    while os.path.lexists(kept):
        number += 1
        kept = os.path.join(directory, f"{name}.{number}")
    return kept


def _sync_directory(path: str, above: int | None) -> None:
    # Some file systems and Windows cannot sync a directory; the rename is atomic all the same.
    with contextlib.suppress(OSError):
        descriptor = os.open(path or os.curdir, os.O_RDONLY, dir_fd=above)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
