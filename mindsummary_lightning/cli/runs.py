"""Finds the runs in the directories that a command line names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from mindsummary_lightning.cli.output import UsageError, progress_bar
from mindsummary_lightning.reading.run_directory import files_size as files_size
from mindsummary_lightning.reading.run_directory import local_path as local_path
from mindsummary_lightning.reading.run_tree import count_links, find_run_directories
from mindsummary_lightning.values.text import counted, listed

_T = TypeVar("_T")


def runs_in(directories: Sequence[str]) -> list[str]:
    """Find the runs in several directories, such as ``runs/*`` from a shell.

    Of several directories, some may hold no run.

    Raises:
        FileNotFoundError: a directory is missing, or there is no run in any.
        NotADirectoryError: the only path is a file, or a path is the address of a remote store.
        OSError: a directory cannot be listed.
    """
    for directory in directories:
        os.stat(local_path("DIR", directory))
    folders = list(filter(os.path.isdir, directories))
    if not folders:
        name = directories[0]
        raise NotADirectoryError(
            f"{name} is a file; give its directory: {os.path.dirname(name) or '.'}"
        )
    runs: list[str] = []
    for folder in folders:
        runs += find_run_directories(folder)
    if not runs:
        lack = "neither this directory nor a directory in it contains a summary or lineage file"
        named = f"no run in {listed(directories, 5)}{'' if directories[1:] else f': {lack}'}"
        raise FileNotFoundError(named + links_note(folders))
    return list(dict.fromkeys(runs))


def links_note(directories: Sequence[str]) -> str:
    """Describe links that were not followed, for a message about missing runs.

    The text is empty if there are none.
    """
    number = sum(map(count_links, directories))
    if not number:
        return ""
    example = os.path.join(directories[0], "*")
    links = counted(number, "link")
    return f"; symbolic links are not followed, and there are {links}. Give their paths: {example}"


def found_in(
    what: str, runs: Sequence[str], search: Callable[[str, Callable[[int], Any]], Iterable[_T]]
) -> tuple[list[_T], list[OSError]]:
    """Search all runs with a function, and show a progress bar.

    The result has the findings, and the errors of the runs that cannot be read.
    """
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
    """Find the run that a directory is, or the only run in the directory.

    Raises:
        OSError: as :func:`runs_in`.
        UsageError: there are several, and none of them is the directory itself.
    """
    runs = runs_in([directory])
    if runs[0] != directory and len(runs) > 1:
        below = listed([os.path.relpath(run, directory) for run in runs], 5)
        raise UsageError(f"{directory} contains {len(runs)} runs ({below}); give one of them")
    return runs[0]
