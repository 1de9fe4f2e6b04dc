"""A small file replaced as a whole: readers see the old bytes or the new ones, never a part."""

from __future__ import annotations

import contextlib
import os
import secrets

__all__ = ["replace_file"]


def replace_file(path: str, data: bytes, mode: int = 0o600) -> None:
    """Put ``data`` at ``path`` so that a crash at any moment leaves either the old file or the new one.

    Args:
        path: the file to write or replace.
        data: all of its new bytes.
        mode: permission bits of the new file.

    Raises:
        OSError: it could not be written; the old file is untouched and no temporary one is left.
    """
    directory = os.path.dirname(path) or "."
    # The name must not look like an event file: the reader would parse "…summary.<n>….tmp" as one.
    temporary = os.path.join(directory, f".mindsummary-{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode != 0o600:
            os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_directory(directory)


def _sync_directory(directory: str) -> None:
    # Some file systems and Windows cannot sync a directory; the rename is atomic all the same.
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
