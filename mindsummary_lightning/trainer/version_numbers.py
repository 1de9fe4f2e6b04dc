"""Which ``version_<n>`` a new run gets, the same on every process of it.

The directory is not made here: it appears with the first record. A process that Lightning launches as a further rank
inherits, through the environment, what the main process had decided by then.
"""

from __future__ import annotations

import os
import re

__all__ = ["next_version"]

_VERSION_DIR = re.compile(r"version_(\d+)")
_VARIABLE = "MINDSUMMARY_VERSIONS"  # "<root dir>\n<version>" entries, in order of decision, separated by "\n\n"
_decided: list[str] = []  # by this process: what it inherited itself is of another run


def next_version(root_dir: str, rank: int) -> int:
    """The lowest number above every ``version_<n>`` in a directory.

    Args:
        root_dir: the directory of all versions; need not exist.
        rank: global rank of this process; a rank above 0 takes what the process that launched it decided.
    """
    root = os.path.abspath(root_dir)
    if rank:
        decided = _take_decided(root)
        if decided is not None:
            return decided
    try:
        names = os.listdir(root)
    except OSError:  # not there yet, or out of reach: then the first record says so
        names = []
    taken = [int(found.group(1)) for found in map(_VERSION_DIR.fullmatch, names) if found]
    version = max(taken, default=-1) + 1
    if not rank:
        _decided.append(f"{root}\n{version}")
        os.environ[_VARIABLE] = "\n\n".join(_decided)
    return version


def _take_decided(root: str) -> int | None:
    entries = os.environ.get(_VARIABLE, "").split("\n\n")
    for index, entry in enumerate(entries):
        place, _, version = entry.rpartition("\n")
        if place == root:
            # Taken once: the next logger of this script is a new run.
            os.environ[_VARIABLE] = "\n\n".join(entries[:index] + entries[index + 1 :])
            return int(version)
    return None
