"""Files of a run by their names alone; no file is opened."""

from __future__ import annotations

import os
from collections.abc import Callable

from mindsummary_lightning.fileformat.file_names import is_lineage_name, is_summary_name, read_order


def summary_files(run_dir: str) -> list[str]:
    """Paths of a run's summary files in the reader's order; the last one is the live one."""
    return _files(run_dir, is_summary_name)


def lineage_file_paths(run_dir: str) -> list[str]:
    """Paths of a run's lineage files in the reader's order."""
    return _files(run_dir, is_lineage_name)


def _files(run_dir: str, is_wanted: Callable[[str], bool]) -> list[str]:
    with os.scandir(run_dir) as entries:
        names = [entry.name for entry in entries if is_wanted(entry.name) and entry.is_file(follow_symlinks=False)]
    return [os.path.join(run_dir, name) for name in read_order(names)]
