"""Rebuild the damaged files of a run from their complete records.

The damaged files are kept in ``.damaged``, never deleted.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass

from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileformat.summary_codec import checked_event
from mindsummary_lightning.fileio.append import try_lock
from mindsummary_lightning.fileio.blocks import blocks_of
from mindsummary_lightning.fileio.regular import open_regular, place_below
from mindsummary_lightning.fileio.replace import damaged_path, replacement
from mindsummary_lightning.fileio.salvage import Piece, copy_data, read_pieces
from mindsummary_lightning.maintenance.verify import appearance, checked_lineage
from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files


@dataclass(frozen=True, slots=True)
class RepairedFile:
    """Result of the repair of a damaged file: records, lost bytes and backup.

    Attributes:
        path: the file.
        records: number of usable records; a file without a usable record is not changed.
        dropped: number of bytes that belong to no usable record.
        backup: path of the kept damaged file; ``None`` if the file was not rebuilt.
        looks_like: what a file without a usable record looks like, else ``None``.
    """

    path: str
    records: int
    dropped: int
    backup: str | None = None
    looks_like: str | None = None


def repair_run(
    run_dir: str, progress: Callable[[int], object] = lambda size: None, *, is_dry: bool = False
) -> list[RepairedFile]:
    """Rebuild every damaged file of a run from its complete records.

    ``progress`` is called with numbers of bytes read.

    A rebuilt file is complete and fsynced before it atomically replaces the damaged file. The
    damaged file is then in ``.damaged`` inside the run. Files without damage and files without a
    usable record are not changed. With ``is_dry``, no file is changed.

    Raises:
        BlockingIOError: a process has locked a file of the run to record into it, and no file was
            changed; or a file changed during its repair, and this file is unchanged.
        OSError: a file could not be read or written; this file is unchanged.

    After an error, files that were rebuilt before it stay rebuilt.
    """
    files: list[tuple[str, Callable[[bytes], object]]] = [
        (path, checked_event) for path in summary_files(run_dir)
    ]
    files += [(path, checked_lineage) for path in lineage_file_paths(run_dir)]
    with contextlib.ExitStack() as opened:
        for path, _ in files:
            file = opened.enter_context(open_regular(path))
            if try_lock(file.fileno()) is False:
                raise BlockingIOError(
                    errno.EAGAIN,
                    "the run is still being recorded; repair it after the recording has ended",
                    path,
                )
        repaired = (_repair(path, check, progress, is_dry) for path, check in files)
        return [one for one in repaired if one is not None]


def _repair(
    path: str, check: Callable[[bytes], object], progress: Callable[[int], object], is_dry: bool
) -> RepairedFile | None:
    before = os.stat(path)
    records = dropped = 0
    for piece in read_pieces(path):
        progress(piece.end - piece.start)
        if _is_usable(piece, check):
            records += 1
        else:
            dropped += piece.end - piece.start
    if not dropped:
        return None
    if not records:
        return RepairedFile(path, 0, dropped, looks_like=appearance(path))
    if is_dry:
        return RepairedFile(path, records, dropped)
    with replacement(path, before.st_mode & 0o777) as rebuilt:
        for piece in read_pieces(path):
            if piece.payload is not None and _is_usable(piece, check):
                rebuilt.writelines(frame([piece.payload]))
        rebuilt.flush()
        os.fsync(rebuilt.fileno())  # before anything is kept: a full disk leaves the run as it was
        if sum(len(payloads) for _, payloads in blocks_of(rebuilt, path, 0)) != records:
            raise OSError(errno.EIO, "the rebuilt file does not read back as it was written", path)
        os.utime(rebuilt.fileno(), ns=(before.st_atime_ns, before.st_mtime_ns))
        now = os.stat(path)
        if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise BlockingIOError(
                errno.EAGAIN, "the file changed while it was being repaired", path
            )
        backup = _keep(path)
    return RepairedFile(path, records, dropped, backup)


def _is_usable(piece: Piece, check: Callable[[bytes], object]) -> bool:
    if piece.payload is None:
        return False
    try:
        check(piece.payload)
    except ValueError:
        # For MindInsight one such record voids a lineage file, and all records after it in a
        # summary file.
        return False
    return True


def _keep(path: str) -> str:
    """Keep the damaged file in ``.damaged``, and return its path there.

    The rebuilt file then takes the original name of the damaged file.
    """
    backup = damaged_path(path, "damaged")
    with place_below(os.path.dirname(path), backup, is_made=True) as (name, directory):
        try:
            os.link(path, name, dst_dir_fd=directory, follow_symlinks=False)
        except OSError:  # a file system without hard links
            mode = os.stat(path).st_mode & 0o777
            with (
                open_regular(path) as damaged,
                replacement(backup, mode, root=os.path.dirname(path)) as kept,
            ):
                copy_data(damaged, 0, os.fstat(damaged.fileno()).st_size, kept)
    return backup
