"""Run directories below a base directory: their order, their lineage files, and the base that MindInsight needs.

The rules are those of MindInsight 2.3.1's scan: the base directory itself (``./``) and its direct children, no symbolic
links, newest first. Beyond it, there is no limit of 999 runs here, and a file name whose digits are not a valid time
hides that file instead of every run. Folders of profiler data do not influence the order. No file is opened.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from mindsummary_lightning.fileformat.file_names import (
    EXPLAIN_SUFFIX,
    LINEAGE_SUFFIX,
    MAX_TIMESTAMP,
    is_graph_name,
    read_order,
    timestamp_of,
)
from mindsummary_lightning.reading.run_directory import find_run_directories

__all__ = [
    "BaseDirectory",
    "FileState",
    "LineageFile",
    "RunDirectory",
    "find_base",
    "lineage_file_states",
    "lineage_files_named",
    "list_train_jobs",
    "list_train_jobs_below",
]

_LOG = logging.getLogger(__name__)

FileState: TypeAlias = "tuple[int, int, int]"  # bytes, modification time in ns, inode: tells whether a file changed


@dataclass(frozen=True, slots=True)
class LineageFile:
    """A lineage file and its state."""

    path: str
    state: FileState


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """A directory with at least one lineage file.

    Attributes:
        summary_dir: relative to the base directory, ``./name``, or ``./`` for the base itself.
        path: the directory.
        update_time_us: modification time of the file with the newest time in its name, microseconds.
        files: its lineage files in the reader's order, oldest first.
    """

    summary_dir: str
    path: str
    update_time_us: int
    files: tuple[LineageFile, ...]


def list_train_jobs(base: str) -> list[RunDirectory]:
    """The runs under a directory, last updated first (to the second), then by name.

    Args:
        base: absolute path; one that is missing or not a directory holds no run.

    Raises:
        OSError: the directory is there but cannot be listed.
    """
    if not os.path.isdir(base):
        return []
    own: list[os.DirEntry[str]] = []
    runs: list[RunDirectory | None] = []
    with os.scandir(base) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                runs.append(_run(f"./{entry.name}", entry.path, _entries(entry.path)))
            else:
                own.append(entry)
    runs.append(_run("./", base, own))
    return sorted(
        (run for run in runs if run is not None),
        key=lambda run: (-(run.update_time_us // 1_000_000), run.summary_dir),
    )


def list_train_jobs_below(root: str) -> list[RunDirectory]:
    """The runs at any depth below a directory, as :func:`list_train_jobs` describes them, ``./a/b`` for deeper ones.

    Args:
        root: absolute path.

    Raises:
        OSError: the directory is there but cannot be listed.
    """
    found = []
    for path in find_run_directories(root):
        name = "./" if path == root else f"./{os.path.relpath(path, root).replace(os.sep, '/')}"
        run = _run(name, path, _entries(path))
        if run is not None:
            found.append(run)
    return found


def lineage_file_states(directory: str) -> list[LineageFile]:
    """The lineage files of one run, in the reader's order.

    Raises:
        OSError: the directory cannot be listed.
    """
    with os.scandir(directory) as entries:
        run = _run("./", directory, entries)
    return list(run.files) if run is not None else []


def lineage_files_named(directory: str, names: Iterable[str]) -> tuple[LineageFile, ...]:
    """Lineage files that are known by name, with their states now; without those that have vanished since.

    Args:
        directory: the run directory.
        names: names of regular files, in the reader's order.
    """
    found = []
    for name in names:
        path = os.path.join(directory, name)
        try:
            state = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISREG(state.st_mode):
            found.append(LineageFile(path, (state.st_size, state.st_mtime_ns, state.st_ino)))
    return tuple(found)


def _entries(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except OSError as error:
        _LOG.warning("skipped the run directory %s: %s", path, error)
        return []


def _run(summary_dir: str, path: str, entries: Iterable[os.DirEntry[str]]) -> RunDirectory | None:
    lineage: dict[str, LineageFile] = {}
    # The reader takes as update time the mtime of the file that was created last, by its name (a graph: by its ctime);
    # of several it meets the one with the oldest mtime first.
    created, modified_ns = -1.0, 0
    for entry in entries:
        name = entry.name
        timestamp = timestamp_of(name)
        is_seen = is_graph_name(name) if timestamp is None else not name.endswith(EXPLAIN_SUFFIX)
        if not is_seen or not entry.is_file(follow_symlinks=False):
            continue
        if timestamp is not None and timestamp > MAX_TIMESTAMP:
            _LOG.warning("%s is skipped: %d in its name is not a time in seconds", entry.path, timestamp)
            continue
        found = _stat(entry)
        if found is None:
            continue
        if timestamp is not None and name.endswith(LINEAGE_SUFFIX):
            lineage[name] = LineageFile(entry.path, (found.st_size, found.st_mtime_ns, found.st_ino))
        seconds = found.st_ctime if timestamp is None else float(timestamp)
        if seconds > created or (seconds == created and found.st_mtime_ns < modified_ns):
            created, modified_ns = seconds, found.st_mtime_ns
    if not lineage:
        return None
    names = read_order(lineage) if len(lineage) > 1 else lineage
    return RunDirectory(summary_dir, path, round(modified_ns / 1000), tuple(lineage[name] for name in names))


def _stat(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None  # deleted since the directory was listed


@dataclass(frozen=True, slots=True)
class BaseDirectory:
    """A directory to start MindInsight on.

    Attributes:
        path: absolute; MindInsight lists it and its direct subdirectories, nothing deeper.
        train_ids: MindInsight's names of the runs in it, ``./`` or ``./<folder>``, sorted.
    """

    path: str
    train_ids: tuple[str, ...]


def find_base(directory: str) -> BaseDirectory:
    """The directory to start MindInsight on so that it lists a run, a directory of runs, or those of a ``save_dir``.

    Args:
        directory: any of these.

    Raises:
        FileNotFoundError: there is no run at or below it.
        ValueError: the runs below it are in several directories, of which MindInsight shows one.
    """
    path = os.path.abspath(directory)
    runs = list(find_run_directories(path))
    if not runs:
        raise FileNotFoundError(
            f"no run in {directory}: neither it nor a directory below holds a summary or lineage file"
        )
    if runs[0] == path or any(os.path.dirname(run) == path for run in runs):
        return _base(path, runs)
    parents = sorted({os.path.dirname(run) for run in runs})
    if len(parents) > 1:
        listed = ", ".join(os.path.relpath(parent, path) for parent in parents[:5])
        more = ", ..." if len(parents) > 5 else ""
        raise ValueError(
            f"the runs below {directory} are in {len(parents)} directories ({listed}{more}) and MindInsight shows the "
            f"runs of one; name one of them"
        )
    return _base(parents[0], runs)


def _base(path: str, runs: list[str]) -> BaseDirectory:
    ids = ["./" if run == path else f"./{os.path.basename(run)}" for run in runs if path in (run, os.path.dirname(run))]
    return BaseDirectory(path, tuple(sorted(ids)))
