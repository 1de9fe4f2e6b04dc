"""The runs that a command line names."""

from __future__ import annotations

import os

from mindsummary_lightning.cli.output import UsageError
from mindsummary_lightning.reading.run_directory import find_run_directories, lineage_file_paths, summary_files


def runs_below(directory: str) -> list[str]:
    """The directory itself and all below it that contain event files.

    Raises:
        FileNotFoundError: there is none.
        OSError: the directory cannot be listed.
    """
    runs = list(find_run_directories(directory))
    if not runs:
        raise FileNotFoundError(
            f"no run in {directory}: neither it nor a directory below it contains a summary or lineage file"
        )
    return runs


def one_run(directory: str) -> str:
    """The one run at or below a directory.

    Raises:
        FileNotFoundError: there is none.
        UsageError: there are several, and none of them is the directory itself.
    """
    runs = runs_below(directory)
    if runs[0] != directory and len(runs) > 1:
        listed = ", ".join(os.path.relpath(run, directory) for run in runs[:5])
        raise UsageError(
            f"{directory} contains {len(runs)} runs ({listed}{', ...' if len(runs) > 5 else ''}); give one of them"
        )
    return runs[0]


def files_size(run: str) -> int:
    """Bytes of all event files of a run."""
    return sum(os.path.getsize(path) for path in summary_files(run) + lineage_file_paths(run))
