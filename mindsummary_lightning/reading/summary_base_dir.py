"""The base directory that the original MindInsight is started on."""

from __future__ import annotations

import os
from dataclasses import dataclass

from mindsummary_lightning.reading.run_tree import find_run_directories


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
    runs = find_run_directories(path)
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
