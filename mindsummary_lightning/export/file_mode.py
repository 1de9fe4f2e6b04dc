"""Permission bits of exported files: no one can read an export who cannot read the run."""

from __future__ import annotations

import os
from collections.abc import Iterable

from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files


def mode_of_runs(run_dirs: Iterable[str]) -> int:
    """The permission bits, without execution, that all event files of some runs have; 0o600 if there are none.

    Raises:
        OSError: a directory or file cannot be read.
    """
    modes = [
        os.stat(path).st_mode for run_dir in run_dirs for path in summary_files(run_dir) + lineage_file_paths(run_dir)
    ]
    common = 0o666 if modes else 0o600
    for mode in modes:
        common &= mode
    return common | 0o600  # MindSpore makes its finished files read-only; an export belongs to whoever made it
