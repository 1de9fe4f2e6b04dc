"""Damaged files of a run rebuilt from their whole records; the damaged ones are kept aside, never deleted."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from mindsummary_lightning.fileformat.lineage_codec import decode_lineage_event
from mindsummary_lightning.fileformat.summary_codec import checked_event
from mindsummary_lightning.fileio.append import try_lock
from mindsummary_lightning.fileio.salvage import Piece, read_pieces
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files

__all__ = ["BACKUP_DIRECTORY", "RepairedFile", "repair_run"]

BACKUP_DIRECTORY = ".damaged"  # inside the run; MindInsight does not look there


@dataclass(frozen=True, slots=True)
class RepairedFile:
    """A file that was rebuilt.

    Attributes:
        path: the file.
        backup: where the damaged one lies now.
        records: whole records kept.
        dropped: bytes that belonged to no usable record.
    """

    path: str
    backup: str
    records: int
    dropped: int


def repair_run(run_dir: str, progress: Callable[[int], object] = lambda size: None) -> list[RepairedFile]:
    """Rebuild every damaged file of a run from its whole records.

    A rebuilt file is complete and on the disk before it takes the damaged one's place, in one step; the damaged one
    lies in ``.damaged`` inside the run then. Files without damage are not touched.

    Args:
        run_dir: the run directory.
        progress: called with numbers of bytes looked at.

    Returns:
        The rebuilt files.

    Raises:
        BlockingIOError: a file of the run is being written; nothing was changed.
        OSError: a file could not be read or written; it is as it was.
    """
    files: list[tuple[str, Callable[[bytes], object]]] = [(path, checked_event) for path in summary_files(run_dir)]
    files += [(path, decode_lineage_event) for path in lineage_file_paths(run_dir)]
    descriptors: list[int] = []
    try:
        for path, _ in files:
            descriptors.append(os.open(path, os.O_RDONLY))
            if try_lock(descriptors[-1]) is False:
                raise BlockingIOError(errno.EAGAIN, "the run is being recorded; repair it when that has ended", path)
        repaired = (_repair(path, decode, progress) for path, decode in files)
        return [file for file in repaired if file is not None]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _repair(path: str, decode: Callable[[bytes], object], progress: Callable[[int], object]) -> RepairedFile | None:
    before = os.stat(path)
    if all(_is_usable(piece, decode, progress) for piece in read_pieces(path)):
        return None
    directory, name = os.path.split(path)
    # The name must not look like an event file: MindInsight would parse it.
    temporary = os.path.join(directory, f".mindsummary-{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        records, dropped = _rebuild(path, temporary, decode)
        os.chmod(temporary, before.st_mode & 0o777)
        os.utime(temporary, ns=(before.st_atime_ns, before.st_mtime_ns))
        now = os.stat(path)
        if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise BlockingIOError(errno.EAGAIN, "the file changed while it was being repaired", path)
        backup = _set_aside(path, os.path.join(directory, BACKUP_DIRECTORY), name)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
    return RepairedFile(path, backup, records, dropped)


def _is_usable(piece: Piece, decode: Callable[[bytes], object], progress: Callable[[int], object]) -> bool:
    progress(piece.end - piece.start)
    if piece.payload is None:
        return False
    try:
        decode(piece.payload)
    except ValueError:  # for MindInsight one such record voids a lineage file, and what follows it in a summary file
        return False
    return True


def _rebuild(path: str, temporary: str, decode: Callable[[bytes], object]) -> tuple[int, int]:
    records = dropped = 0
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    with os.fdopen(descriptor, "wb") as rebuilt, open(path, "rb") as damaged:
        for piece in read_pieces(path):
            if _is_usable(piece, decode, lambda size: None):
                damaged.seek(piece.start)
                rebuilt.write(damaged.read(piece.end - piece.start))
                records += 1
            else:
                dropped += piece.end - piece.start
        rebuilt.flush()
        os.fsync(rebuilt.fileno())
    if sum(1 for _ in RecordScanner(temporary)) != records:
        raise OSError(errno.EIO, "the rebuilt file does not read back as it was written", temporary)
    return records, dropped


def _set_aside(path: str, directory: str, name: str) -> str:
    os.makedirs(directory, exist_ok=True)
    backup, number = os.path.join(directory, name), 0
    while os.path.lexists(backup):
        number += 1
        backup = os.path.join(directory, f"{name}.{number}")
    try:
        os.link(path, backup)
    except OSError:  # a file system without hard links
        shutil.copy2(path, backup)
    return backup
