"""``RunTree``: finds runs at any depth of a directory, and notices changes.

It is the only walk of directories. A scan lists only directories that changed since the last scan
and asks every run for the state of a file, so that thousands of runs cost milliseconds. No file is
opened. The order of a listing, which files date a run and which links and hidden directories count
are MindInsight 2.3.1's rules. Beyond them, runs may lie deeper, there is no limit of 999 of them,
and a name whose digits are not a valid time hides that file instead of every run.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from mindsummary_lightning.fileformat.file_names import (
    EXPLAIN_SUFFIX,
    LINEAGE_SUFFIX,
    MAX_TIMESTAMP,
    is_graph_name,
    read_order,
    timestamp_of,
)
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)
# bytes, modification time in ns, inode: tells whether a file changed
FileState: TypeAlias = "tuple[int, int, int]"
# a directory may change again within one tick of its clock, which is so long at most (FAT)
SETTLED_S = 2.0
# at most: the times of files are those of a server that shares them
_CLOCKS_DIFFER_NS = 86_400 * 10**9


class ListedRun(NamedTuple):
    """The facts about a run directory that a list of runs shows.

    Attributes:
        train_id: MindInsight's name: ``./`` for the base directory itself, else ``./`` and the path
            below it.
        path: the directory.
        create_time_s: newest time in the names of its files, seconds since the epoch.
        update_time_us: modification time of the file with that time, microseconds since the epoch.
        summary_files: number of summary files.
        lineage_names: names of the lineage files in the reader's order, oldest first.
        graph_files: number of ``.pb`` files.
    """

    train_id: str
    path: str
    create_time_s: float
    update_time_us: int
    summary_files: int
    lineage_names: tuple[str, ...]
    graph_files: int

    @property
    def lineage_files(self) -> int:
        """Return the number of lineage files."""
        return len(self.lineage_names)


class RunDirectory(NamedTuple):
    """A run directory with lineage files, and the size and times of these files.

    Attributes:
        summary_dir: relative to the base directory, ``./name``, or ``./`` for the base itself.
        path: the directory.
        update_time_us: modification time of the file with the newest time in its name,
            microseconds.
        files: paths and states of its lineage files in the reader's order, oldest first.
    """

    summary_dir: str
    path: str
    update_time_us: int
    files: dict[str, FileState]


@dataclass(slots=True)
class _Directory:
    path: str
    mtime_ns: int
    seen_ns: int  # when that modification time was first seen, by our own clock
    is_settled: bool  # whether a later change of it would show in its modification time
    children: list[tuple[str, str]]  # paths and train ids of the directories to enter
    # names of the summary, lineage and graph files, with the time in them
    files: list[tuple[str, int | None]]
    is_misdated: bool  # whether it holds a summary or lineage file whose name has no valid time
    newest: str = ""  # path of the file whose modification time is the run's
    newest_mtime_ns: int = -1
    run: ListedRun | None = None


@dataclass(slots=True)
class _Entries:
    """The content of a directory: subdirectories to scan, and files of a run."""

    children: list[tuple[str, str]]
    files: list[tuple[str, int | None]]
    is_misdated: bool


@dataclass(slots=True)
class RunTree:
    """Finds the runs at any depth in a directory.

    MindInsight lists the directory and its direct children; here deeper ones count too
    (``save_dir/name/version_n``, Hydra's folders). There a ``.pb`` file alone does not make a run,
    and hidden directories are not entered. Symbolic links are not followed. Not safe to use from
    several threads at once.

    Args:
        base: absolute path; if it is missing or is not a directory, there are no runs.
        max_depth: how many directories below the base a run may be; ``None`` for any number.
        wall_clock_ns: nanoseconds since the epoch, as file times are.
    """

    base: str
    max_depth: int | None = None
    wall_clock_ns: Callable[[], int] = time.time_ns
    _directories: dict[str, _Directory] = field(default_factory=dict)
    _order: list[ListedRun] = field(default_factory=list)
    _warnings: WarnOnce = field(default_factory=lambda: WarnOnce(_LOG))

    def scan(self) -> list[ListedRun]:
        """List the runs that exist now: the last updated run first, then by name.

        Do not change the list.
        """
        seen: dict[str, _Directory] = {}
        has_changed = False
        pending = [(self.base, "./")]
        while pending:
            path, train_id = pending.pop()
            directory = self._directory(path, train_id)
            if directory is None:
                continue
            seen[train_id] = directory
            if directory.files:
                has_changed |= _refresh(directory, train_id)
            else:
                known = self._directories.get(train_id)
                has_changed |= known is not None and known.run is not None  # its files are gone
            pending += directory.children
        if has_changed or seen.keys() != self._directories.keys():
            runs = [directory.run for directory in seen.values() if directory.run is not None]
            self._order = sorted(runs, key=lambda run: (-run.update_time_us, run.train_id))
        self._directories = seen
        return self._order

    def event_directories(self) -> set[str]:
        """Return the directories with summary or lineage files, as of the last scan.

        They include misdated files.
        """
        paths = set()
        for directory in self._directories.values():
            if directory.is_misdated or any(
                timestamp is not None for _, timestamp in directory.files
            ):
                paths.add(directory.path)
        return paths

    def _directory(self, path: str, train_id: str) -> _Directory | None:
        known = self._directories.get(train_id)
        try:
            mtime_ns = os.stat(path).st_mtime_ns
            if known is not None and known.is_settled and known.mtime_ns == mtime_ns:
                return known
            now_ns = self.wall_clock_ns()
            seen_ns = known.seen_ns if known is not None and known.mtime_ns == mtime_ns else now_ns
            is_settled = now_ns - mtime_ns > _CLOCKS_DIFFER_NS or now_ns - seen_ns > SETTLED_S * 1e9
            entries = self._entries(path, train_id)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._warnings.warn(path, "skipped a directory that cannot be listed: %s", error)
            return None
        if known is None or known.files != entries.files:
            return _Directory(
                path,
                mtime_ns,
                seen_ns,
                is_settled,
                entries.children,
                entries.files,
                entries.is_misdated,
            )
        known.mtime_ns = mtime_ns
        known.seen_ns = seen_ns
        known.is_settled = is_settled
        known.children = entries.children
        known.is_misdated = entries.is_misdated
        return known

    def _entries(self, path: str, train_id: str) -> _Entries:
        """List the subdirectories and the run's files in a directory."""
        depth = 0 if train_id == "./" else train_id.count("/")
        below = train_id if train_id == "./" else train_id + "/"
        is_entered = "/." not in train_id and depth != self.max_depth
        found = _Entries([], [], False)
        with os.scandir(path) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    self._add_file(found, path, entry)
                elif is_entered and not (depth and entry.name.startswith(".")):
                    found.children.append((entry.path, below + _utf8(entry.name)))
        if depth > 1 and all(timestamp is None for _, timestamp in found.files):
            found.files = []  # graphs alone
        found.files.sort()
        return found

    def _add_file(self, found: _Entries, path: str, entry: os.DirEntry[str]) -> None:
        """Add a file of the directory ``path`` if it is an event file or a graph."""
        name = entry.name
        timestamp = timestamp_of(name)
        if timestamp is None:
            is_listed = is_graph_name(name)
        elif timestamp > MAX_TIMESTAMP:
            is_listed = False
            is_file = entry.is_file(follow_symlinks=False)
            found.is_misdated |= is_file and not name.endswith(EXPLAIN_SUFFIX)
            text = (
                "%s in %s: the number %d in the name is not a time in seconds. Because of this "
                "file, MindInsight lists no run; the viewer ignores only this file"
            )
            self._warnings.warn((path, name), text, name, path, timestamp)
        else:
            is_listed = not name.endswith(EXPLAIN_SUFFIX)
        if is_listed and entry.is_file(follow_symlinks=False):
            found.files.append((name, timestamp))


def find_run_directories(root: str) -> list[str]:
    """Find all directories with a summary or lineage file, sorted by path.

    ``root`` itself may be among them.

    A directory below ``root`` that cannot be listed is skipped with a warning. Links below ``root``
    are not followed.

    Raises:
        OSError: ``root`` cannot be listed.
    """
    os.scandir(root).close()
    tree = RunTree(root)
    tree.scan()
    return sorted(tree.event_directories(), key=lambda path: path.split(os.sep))


def count_links(root: str) -> int:
    """Count the symbolic links in a directory that might lead to runs.

    These are links to directories and to event files.
    """
    number = 0
    for folder, folders, names in os.walk(root):
        event_files = [name for name in names if timestamp_of(name) is not None]
        for name in folders + event_files:
            if os.path.islink(os.path.join(folder, name)):
                number += 1
    return number


def list_train_jobs(base: str, max_depth: int | None = 1) -> list[RunDirectory]:
    """List the runs with lineage files in a directory, the last updated run first.

    Runs of the same second are in order of their names.

    A ``base`` that is missing or is not a directory holds no run; ``max_depth`` is that of
    :class:`RunTree`.

    Raises:
        OSError: the directory is there but cannot be listed.
    """
    if not os.path.isdir(base):
        return []
    os.scandir(base).close()  # what is below it may be skipped with a warning, but not itself
    return runs_with_lineage(RunTree(base, max_depth))


def runs_with_lineage(tree: RunTree) -> list[RunDirectory]:
    """Scan a tree, and list its runs that have lineage files.

    The order is as in :func:`list_train_jobs`.
    """
    runs = [with_lineage_files(run) for run in tree.scan() if run.lineage_names]
    return sorted(runs, key=lambda run: (-(run.update_time_us // 1_000_000), run.summary_dir))


def with_lineage_files(run: ListedRun) -> RunDirectory:
    """Return a listed run as a ``RunDirectory`` with its files' present states.

    Files that have vanished since it was listed are left out.
    """
    files = {}
    for name in run.lineage_names:
        path = f"{run.path}{os.sep}{name}"
        try:
            state = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISREG(state.st_mode):
            files[path] = (state.st_size, state.st_mtime_ns, state.st_ino)
    return RunDirectory(run.train_id, run.path, run.update_time_us, files)


def _utf8(name: str) -> str:
    """Escape those bytes in a file name that are not UTF-8.

    Neither an address nor a browser can hold such bytes.
    """
    if name.isascii():
        return name
    # here: it loads NumPy, which most lists do not need
    from mindsummary_lightning.values.text import utf8_text

    return utf8_text(name)


def _refresh(directory: _Directory, train_id: str) -> bool:
    """Update the facts about a directory's run, and return whether they changed."""
    if directory.run is not None:
        try:
            if os.lstat(directory.newest).st_mtime_ns == directory.newest_mtime_ns:
                return False
        except OSError:  # deleted since the directory was listed
            pass
    newest = _newest_file(directory)
    before = directory.run
    directory.newest, directory.newest_mtime_ns = newest.path, newest.mtime_ns
    directory.run = _listed(directory, train_id, newest.created_s) if newest.path else None
    return directory.run != before


class _NewestFile(NamedTuple):
    """The file whose name gives a run's time; the path is empty without a file."""

    path: str
    created_s: float
    mtime_ns: int


def _newest_file(directory: _Directory) -> _NewestFile:
    newest, created_s, mtime_ns = "", -1.0, 0
    # The reader shows the mtime of the file that was created last, by its name (a graph: by its
    # ctime); of several, it meets the file with the oldest mtime first.
    for name, timestamp in directory.files:
        path = f"{directory.path}{os.sep}{name}"
        if timestamp is not None and timestamp < created_s:
            continue
        try:
            state = os.lstat(path)
        except OSError:
            continue
        seconds = state.st_ctime if timestamp is None else float(timestamp)
        is_older = seconds == created_s and state.st_mtime_ns < mtime_ns
        if seconds > created_s or is_older:
            newest, created_s, mtime_ns = path, seconds, state.st_mtime_ns
    return _NewestFile(newest, created_s, mtime_ns)


def _listed(directory: _Directory, train_id: str, created: float) -> ListedRun:
    graphs = sum(timestamp is None for _, timestamp in directory.files)
    lineages = [name for name, _ in directory.files if name.endswith(LINEAGE_SUFFIX)]
    return ListedRun(
        train_id,
        directory.path,
        created,
        round(directory.newest_mtime_ns / 1000),
        len(directory.files) - graphs - len(lineages),
        tuple(read_order(lineages)) if len(lineages) > 1 else tuple(lineages),
        graphs,
    )
