"""Which directory MindInsight must be given so that it lists the runs somebody means."""

from __future__ import annotations

import os
from dataclasses import dataclass

from mindsummary_lightning.reading.run_directory import find_run_directories

__all__ = ["BaseDirectory", "find_base"]


@dataclass(frozen=True, slots=True)
class BaseDirectory:
    """A directory for MindInsight.

    Attributes:
        path: absolute; MindInsight lists it and its direct subdirectories, nothing deeper.
        train_ids: MindInsight's names of the runs in it, ``./`` or ``./<folder>``, sorted.
    """

    path: str
    train_ids: tuple[str, ...]


def find_base(directory: str) -> BaseDirectory:
    """The base directory for a run, for a directory of runs, or for one further up (a ``save_dir``).

    Args:
        directory: any of these.

    Raises:
        FileNotFoundError: there is no run at or below it.
        ValueError: the runs below it lie in several directories; MindInsight shows only one at a time.
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
            f"the runs below {directory} lie in {len(parents)} directories ({listed}{more}) and MindInsight shows the "
            f"runs of one; name one of them"
        )
    return _base(parents[0], runs)


def _base(path: str, runs: list[str]) -> BaseDirectory:
    ids = ["./" if run == path else f"./{os.path.basename(run)}" for run in runs if path in (run, os.path.dirname(run))]
    return BaseDirectory(path, tuple(sorted(ids)))
