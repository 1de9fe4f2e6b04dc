"""Cut incomplete last records off files that no process writes any more.

A file in the directory ``.damaged`` keeps the bytes that are cut off.

MindInsight waits up to ten minutes for the rest of such a record, and shows no later file
meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from io import FileIO

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileio.append import try_lock
from mindsummary_lightning.fileio.blocks import blocks_of
from mindsummary_lightning.fileio.regular import open_regular
from mindsummary_lightning.fileio.replace import damaged_path, replacement
from mindsummary_lightning.fileio.salvage import Piece, copy_data, pieces_of

_BEGINNING = 1 << 16  # bytes of a file that are shown to is_ours


def cut_torn_tail(path: str, is_ours: Callable[[bytes], bool] = bool) -> int:
    """Cut an incomplete last record off a file that no process writes to.

    The bytes that are cut off are kept in ``.damaged`` next to the file. A file with any other
    damage is left to ``mindsummary repair``. A file with a second name (a hard link) is left too,
    because the other name may be a backup. The file is locked first and then read through the same
    descriptor, so of several processes that start together only one reads and cuts.

    Args:
        path: a summary or lineage file; a symbolic link is refused.
        is_ours: tells by the first 64 KiB whether this package or MindSpore wrote the file; any
            other file is left unchanged.

    Returns:
        Number of bytes cut off; 0 if the file was not cut.

    Raises:
        OSError: the file cannot be opened, read or cut, or the bytes cannot be kept.
    """
    with open_regular(path, "r+b") as file:
        descriptor = file.fileno()
        # An empty file is not locked: its writer may have created it just now and be about to lock
        # it.
        if not os.fstat(descriptor).st_size or try_lock(descriptor) is not True:
            return 0
        if os.fstat(descriptor).st_nlink != 1 or not is_ours(file.read(_BEGINNING)):
            return 0
        if (tail := _torn_tail(file, path)) is None:
            return 0
        _move_end(file, path, tail.start, tail.end)
        return tail.end - tail.start


def cut_damaged_end(path: str, at: int) -> None:
    """Cut a file that this process has closed back to its last complete record.

    If a file system loses the end of a record, later records follow the damage, where MindInsight
    does not read them. The bytes that are cut off are kept in ``.damaged`` next to the file.

    Args:
        path: the file.
        at: byte offset after its last complete record.

    Raises:
        OSError: as in :func:`cut_torn_tail`.
    """
    with open_regular(path, "r+b") as file:
        status = os.fstat(file.fileno())
        if status.st_size > at and status.st_nlink == 1 and try_lock(file.fileno()) is not False:
            _move_end(file, path, at, status.st_size)


def _move_end(file: FileIO, path: str, start: int, end: int) -> None:
    kept = damaged_path(path, f"cut-at-{start}")
    with replacement(kept, root=os.path.dirname(os.path.dirname(kept))) as copy:
        copy_data(file, start, end, copy)
    os.ftruncate(file.fileno(), start)


def _torn_tail(file: FileIO, path: str) -> Piece | None:
    at = 0
    try:
        for end, _ in blocks_of(file, path, 0):
            at = end
    except DamagedFileError as error:
        at = error.offset
    tail = next(pieces_of(file, at), None)
    return tail if tail is not None and tail.is_tail else None
