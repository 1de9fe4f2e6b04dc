"""Run directories below a base directory: their order, their lineage files, and the base that MindInsight needs.

The rules are those of MindInsight 2.3.1's scan: the base directory itself (``./``) and its direct children, no symbolic
links, newest first. Beyond it, there is no limit of 999 runs here, and a file name whose digits are not a valid time
hides that file instead of every run. Folders of profiler data do not influence the order.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TypeAlias

from mindsummary_lightning.reading.run_directory import find_run_directories
from mindsummary_lightning.reading.run_tree import ListedRun, RunTree

FileState: TypeAlias = "tuple[int, int, int]"  # bytes, modification time in ns, inode: tells whether a file changed


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """A directory with at least one lineage file.

    Attributes:
        summary_dir: relative to the base directory, ``./name``, or ``./`` for the base itself.
        path: the directory.
        update_time_us: modification time of the file with the newest time in its name, microseconds.
        files: paths and states of its lineage files in the reader's order, oldest first.
    """

    summary_dir: str
    path: str
    update_time_us: int
    files: dict[str, FileState]


def list_train_jobs(base: str, max_depth: int | None = 1) -> list[RunDirectory]:
    """The runs with lineage files under a directory, last updated first (to the second), then by name.

    Args:
        base: absolute path; one that is missing or not a directory holds no run.
        max_depth: how many directories below the base a run may be; ``None`` for any number. MindInsight's is 1.

    Raises:
        OSError: the directory is there but cannot be listed.
    """
    if not os.path.isdir(base):
        return []
    os.scandir(base).close()  # what is below it may be skipped with a warning, but not itself
    runs = [with_lineage_files(run) for run in RunTree(base, max_depth).scan() if run.lineage_names]
    return sorted(runs, key=lambda run: (-(run.update_time_us // 1_000_000), run.summary_dir))


def with_lineage_files(run: ListedRun) -> RunDirectory:
    """A listed run with the states of its lineage files now; without those that have vanished since."""
    files = {}
    for name in run.lineage_names:
        path = os.path.join(run.path, name)
        try:
            state = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISREG(state.st_mode):
            files[path] = (state.st_size, state.st_mtime_ns, state.st_ino)
    return RunDirectory(run.train_id, run.path, run.update_time_us, files)


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
