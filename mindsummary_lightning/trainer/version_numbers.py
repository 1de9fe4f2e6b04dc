"""The version of a run: given by the user, or a number that is claimed by making its directory.

Making a directory is atomic, so of many processes that start together each gets a number of its own. Ranks of one run
are told by rank zero, through the Trainer's strategy.
"""

from __future__ import annotations

import contextlib
import os
import re
import weakref
from typing import Any

_VERSION_DIR = re.compile(r"version_(\d+)")


class RunVersion:
    """The version of one run below a root directory.

    Args:
        root_dir: the directory of all versions; need not exist.
        given: the user's number or name, or ``None`` for the number after the highest ``version_<n>`` in ``root_dir``.

    Attributes:
        is_given: whether the user chose the version.

    Raises:
        TypeError: the version is none of these.
        ValueError: the number is negative.
    """

    def __init__(self, root_dir: str, given: int | str | None) -> None:
        if isinstance(given, bool) or not isinstance(given, (int, str, type(None))):
            raise TypeError(f"version must be an int, a str or None, not {given!r}")
        if isinstance(given, int) and given < 0:
            raise ValueError(f"version must be 0 or more, not {given}")
        self.is_given = given is not None
        self._root_dir = root_dir
        self._value = given
        self._made: list[str] = []  # what `claim` made, outermost first; empty unless this object holds a claim
        self._cleanup: weakref.finalize[..., RunVersion] | None = None

    @property
    def value(self) -> int | str:
        """The version; until it is claimed, the number that is free now."""
        if self._value is None:
            self._value = _next_number(self._root_dir)
        return self._value

    def adopt(self, value: int | str) -> None:
        """Take the version that rank zero decided."""
        self._value = value

    def claim(self) -> None:
        """Make the directory of the number, or of the next one that is free; a given version needs no claim.

        A directory that cannot be made is left to the first record, which reports it.
        """
        if self.is_given or self._made:
            return
        root, number = os.path.abspath(self._root_dir), int(self.value)
        with contextlib.suppress(OSError):
            parents = _missing_parents(root)
            while not self._made:
                os.makedirs(root, exist_ok=True)
                path = os.path.join(root, f"version_{number}")
                try:
                    os.mkdir(path)
                except FileExistsError:
                    number += 1
                except FileNotFoundError:  # another process has removed the empty root that it made
                    continue
                else:
                    self._made = [*parents, path]
            self._value = number
            self._cleanup = weakref.finalize(self, _remove_empty, self._made, os.getpid())

    def release_unused(self) -> None:
        """Remove the claimed directory and give the claim back, unless somebody has put files there."""
        if self._cleanup is not None:
            self._cleanup()
            self._cleanup = None
        if self._made and not os.path.lexists(self._made[-1]):
            self._made = []

    def begin_next(self) -> None:
        """Forget the number, so that the next claim takes a later one; a directory with records stays."""
        self._made, self._value = [], None
        if self._cleanup is not None:
            self._cleanup.detach()
            self._cleanup = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cleanup": None}


def _next_number(root_dir: str) -> int:
    try:
        names = os.listdir(root_dir)
    except OSError:  # not there yet, or out of reach
        names = []
    return max((int(found.group(1)) for found in map(_VERSION_DIR.fullmatch, names) if found), default=-1) + 1


def _missing_parents(path: str) -> list[str]:
    missing: list[str] = []
    while not os.path.lexists(path):
        missing.insert(0, path)
        path = os.path.dirname(path)
    return missing


def _remove_empty(made: list[str], process: int) -> None:
    if os.getpid() != process:  # a forked child leaves them to its parent
        return
    for path in reversed(made):
        with contextlib.suppress(OSError):  # not empty, or gone
            os.rmdir(path)
