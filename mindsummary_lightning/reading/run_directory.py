"""Files of a run, and the runs below a directory, by their names alone; no file is opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from mindsummary_lightning.fileformat.file_names import is_lineage_name, is_summary_name, read_order


def summary_files(run_dir: str) -> list[str]:
    """Paths of a run's summary files in the reader's order; the last one is the live one.

    Raises:
        OSError: the directory cannot be listed.
    """
    return _files(run_dir, is_summary_name)


def lineage_file_paths(run_dir: str) -> list[str]:
    """Paths of a run's lineage files in the reader's order.

    Raises:
        OSError: the directory cannot be listed.
    """
    return _files(run_dir, is_lineage_name)


def find_run_directories(root: str) -> Iterator[str]:
    """``root`` and every directory below it that holds a summary or lineage file, in order of their paths.

    Symbolic links to directories are not followed and hidden directories not entered.

    Raises:
        OSError: ``root`` cannot be listed.
    """
    if any(_is_event_file(entry) for entry in os.scandir(root)):
        yield root
    for folder, below, _ in os.walk(root):
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in below:
            path = os.path.join(folder, name)
            if not os.path.islink(path) and any(_is_event_file(entry) for entry in os.scandir(path)):
                yield path


def _files(run_dir: str, is_wanted: Callable[[str], bool]) -> list[str]:
    names = [entry.name for entry in os.scandir(run_dir) if is_wanted(entry.name) and entry.is_file()]
    return [os.path.join(run_dir, name) for name in read_order(names)]


def _is_event_file(entry: os.DirEntry[str]) -> bool:
    return (is_summary_name(entry.name) or is_lineage_name(entry.name)) and entry.is_file()
