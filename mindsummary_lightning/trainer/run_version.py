"""``RunVersion``: the version of a run, reserved by making its directory."""

from __future__ import annotations

import contextlib
import os
import re
import weakref
from collections.abc import Callable

from mindsummary_lightning.trainer.namespaces import rank_zero_only
from mindsummary_lightning.trainer.run_ownership import event_files

_VERSION_DIR = re.compile(r"version_(\d+)")


def run_directory(root_dir: str, version: int | str, sub_dir: str = "") -> str:
    """Return the path of a version's directory in a root directory."""
    name = f"version_{version}" if isinstance(version, int) else version
    return os.path.normpath(os.path.join(root_dir, name, sub_dir))


class RunVersion:
    """The version (number or name) of a run in a root directory.

    It is the user's number or name, or the number after the highest there.

    A number is claimed by making its directory, which is atomic: of many processes that start
    together each gets one of its own. The ranks of one run are told by rank zero.
    """

    def __init__(self, root_dir: str, given: int | str | None) -> None:
        self.is_given: bool = given is not None
        self.root_dir = root_dir
        self._value = given
        self._is_told = False  # the user knows the number, and may put files into its directory
        # what `claim` made, outermost first; empty unless this object holds a claim
        self._made: list[str] = []
        self._cleanup: Callable[[], object] = list  # removes what was made

    @property
    def value(self) -> int | str:
        """Return the version, or the next free number if no version is claimed yet."""
        if self._value is None:
            self._value = _next_number(self.root_dir)
        return self._value

    def tell(self) -> int | str:
        """Return the version for the user, and reserve it for the next run.

        The next run gets this version, even if other files appear in its directory.
        """
        self._is_told |= not self._made
        if not _is_further_rank():  # further ranks are told by rank zero
            self.claim()
        return self.value

    def adopt(self, value: int | str) -> None:
        """Use the version that rank zero has chosen."""
        self._value = value

    def claim(self) -> None:
        """Reserve the version's number, or the next free number, by its directory.

        A given version needs no directory.

        If the directory cannot be made, the first record reports the error.
        """
        if self.is_given or self._made:
            return
        root, number = self.root_dir, int(self.value)
        with contextlib.suppress(OSError):
            parents = _missing_parents(root)
            os.makedirs(root, exist_ok=True)
            while not self._made:
                path = os.path.join(root, f"version_{number}")
                self._value, number = number, number + 1
                with contextlib.suppress(FileExistsError):
                    os.mkdir(path)
                    self._made = [*parents, path]
            self._cleanup = weakref.finalize(self, _remove_empty, self._made, os.getpid())

    def release_unused(self) -> None:
        """Remove the directory of a reserved number if no file was written into it.

        A directory stays if it has files, or if its number was told to the user.
        """
        if not self._is_told:
            self._cleanup()
        if self._made and not os.path.lexists(self._made[-1]):
            self._made, self._value = [], None


def _next_number(root_dir: str) -> int:
    """Return the number after the highest version in a root directory.

    On ranks above zero it is the highest version itself if rank zero has claimed that.
    """
    names: list[str] = []
    with contextlib.suppress(OSError):  # not there yet, or out of reach
        names = os.listdir(root_dir)
    highest = max(
        (int(found.group(1)) for found in map(_VERSION_DIR.fullmatch, names) if found), default=-1
    )
    is_claimed = _is_further_rank() and not event_files(run_directory(root_dir, highest))
    return max(0, highest + 1 - is_claimed)


def _is_further_rank() -> bool:
    return bool(getattr(rank_zero_only, "rank", 0))


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
