"""Finds the files of a run by their names, without opening them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mindsummary_lightning.fileformat.file_names import (
    is_lineage_name,
    is_summary_name,
    read_order,
    timestamp_of,
)

# bytes of a file beside the event files that belongs to the run, and not to a program
_SMALL = 16 << 20


def local_path(name: str, path: Any) -> str:
    """Check a path, and return it as text without ``file://``.

    Raises:
        TypeError: the argument is not a path.
        NotADirectoryError: the path is the address of a remote store.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path, not {path!r}")
    text = os.fspath(path)
    return _without_scheme(text) if ":/" in text else text


def _without_scheme(address: str) -> str:
    # Here: it loads NumPy, which a list of runs does not need.
    from mindsummary_lightning.values.addresses import (
        is_remote,
        with_both_slashes,
        without_local_scheme,
    )
    from mindsummary_lightning.values.text import without_secrets

    text = without_local_scheme(address)
    if is_remote(text):
        text = with_both_slashes(text)
        told = f"{text} is in a remote store; bring it here first: mindsummary sync {text} runs"
        raise NotADirectoryError(without_secrets(told, text))
    return text


def summary_files(run_dir: str) -> list[str]:
    """Return the paths of a run's summary files in the reader's order.

    The last of them is the live file.
    """
    return _files(run_dir, is_summary_name)


def lineage_file_paths(run_dir: str) -> list[str]:
    """Return the paths of a run's lineage files in the reader's order."""
    return _files(run_dir, is_lineage_name)


def _files(run_dir: str, is_wanted: Callable[[str], bool]) -> list[str]:
    with os.scandir(run_dir) as entries:
        names = [
            entry.name
            for entry in entries
            if is_wanted(entry.name) and entry.is_file(follow_symlinks=False)
        ]
    return [os.path.join(run_dir, name) for name in read_order(names)]


def files_by_run(sizes: Mapping[str, int]) -> dict[str, list[str]]:
    """Group the files of runs by run, in the order in which they must be copied.

    ``sizes`` has the size in bytes by path with ``/``; -1 stands for an entry that is no file.

    Summary files come first, in the reader's order, and what is listed in a file (``.json``,
    ``.txt``) before that.
    """
    runs: dict[str, list[str]] = {folder: [] for folder in _run_folders(sizes)}
    for path in sorted(sorted(sizes, reverse=True), key=_place):
        run, _, name = path.rpartition("/")
        is_wanted = sizes[path] <= _SMALL or timestamp_of(name) is not None
        while run and run not in runs:
            run, _, folder = run.rpartition("/")
            is_wanted = folder == "ckpt_dir" or folder.startswith("export_")
        if run in runs and sizes[path] >= 0 and is_wanted:
            runs[run].append(path)
    return runs


def _run_folders(sizes: Mapping[str, int]) -> Iterator[str]:
    """Return the folders that directly contain an event file.

    As in a list of runs, a hidden folder may be a run but contains none.
    """
    for path, size in sizes.items():
        folder, name = os.path.split(path)
        is_in_hidden = folder.startswith(".") and "/" in folder
        if size >= 0 and timestamp_of(name) is not None and not is_in_hidden:
            yield folder


def _place(path: str) -> tuple[int, int]:
    name = os.path.basename(path)
    group = int(not is_summary_name(name)) + name.endswith((".json", ".txt"))
    return group, timestamp_of(name) or 0


def files_size(run: str) -> int:
    """Return the size in bytes of all event files of a run.

    The size is 0 if the run cannot be read; the error is raised where it is read.
    """
    try:
        return sum(os.path.getsize(path) for path in summary_files(run) + lineage_file_paths(run))
    except OSError:
        return 0
