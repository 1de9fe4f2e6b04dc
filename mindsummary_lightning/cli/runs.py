"""The runs that a command line names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from mindsummary_lightning.cli.output import UsageError, progress_bar
from mindsummary_lightning.reading.run_directory import files_size as files_size
from mindsummary_lightning.reading.run_tree import find_run_directories
from mindsummary_lightning.values.text import listed

_T = TypeVar("_T")


def runs_below(directory: str) -> list[str]:
    """The directory itself and all below it that contain event files.

    Raises:
        FileNotFoundError: there is none.
        NotADirectoryError: it is a file.
        OSError: the directory cannot be listed.
    """
    if os.path.isfile(directory):
        raise NotADirectoryError(f"{directory} is a file; give its directory: {os.path.dirname(directory) or '.'}")
    runs = find_run_directories(directory)
    if not runs:
        raise FileNotFoundError(
            f"no run in {directory}: neither it nor a directory below it contains a summary or lineage file"
        )
    return runs


def runs_in(directories: Sequence[str]) -> list[str]:
    """The runs of several directories, as a shell's ``runs/*`` gives them; what holds no run is passed over.

    Raises as :func:`runs_below`, of several directories if there is no run in any.
    """
    if len(directories) == 1:
        return runs_below(directories[0])
    for directory in directories:
        os.stat(directory)
    folders = [directory for directory in directories if os.path.isdir(directory)]
    runs = [run for directory in folders for run in find_run_directories(directory)]
    if not runs:
        raise FileNotFoundError(f"no run in {', '.join(directories[:5])}")
    return list(dict.fromkeys(runs))


def found_in(
    what: str, runs: Sequence[str], search: Callable[[str, Callable[[int], Any]], Iterable[_T]]
) -> tuple[list[_T], list[OSError]]:
    """All that a search finds in some runs, under a progress bar, and the errors of those that cannot be read."""
    found: list[_T] = []
    errors = []
    with progress_bar(what, sum(map(files_size, runs))) as advance:
        for run in runs:
            try:
                found.extend(search(run, advance))  # what was found before an error stays
            except OSError as error:  # the others can be read
                errors.append(error)
    return found, errors


def one_run(directory: str) -> str:
    """The one run at or below a directory; raises as :func:`runs_below` and :func:`only_run`."""
    return only_run(runs_below(directory), directory)


def only_run(runs: Sequence[str], directory: str) -> str:
    """The one run of those found at or below a directory.

    Raises:
        UsageError: there are several, and none of them is the directory itself.
    """
    if runs[0] != directory and len(runs) > 1:
        below = listed([os.path.relpath(run, directory) for run in runs], 5)
        raise UsageError(f"{directory} contains {len(runs)} runs ({below}); give one of them")
    return runs[0]
