"""Tags and remarks that users give to runs on MindInsight's lineage page.

They are stored in the user's state directory, one file per base directory, never in a run. The
viewer does not write where trainings write, and a user who may only read a run can still write a
remark about it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mindsummary_lightning.fileio.append import try_lock
from mindsummary_lightning.fileio.replace import replace_file
from mindsummary_lightning.viewer.user_directories import state_directory
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)
LOCK_LIMIT_S = 10.0  # a page waits 30
_POLL_S = 0.01


@functools.lru_cache(maxsize=16)
def remarks_of(base_dir: str) -> Remarks:
    """Return the tags and remarks of the runs in ``base_dir``, a real path."""
    name = hashlib.sha256(os.fsencode(base_dir)).hexdigest()[:32]
    return Remarks(base_dir, os.path.join(state_directory(), "remarks", f"{name}.json"))


@dataclass(slots=True)
class Remarks:
    """File with the users' tags and remarks for the runs in a directory.

    The file is read again when it has changed, so that two viewers of a directory show the same.
    The file is locked while it is saved, so that neither viewer loses what the other viewer saves.

    Args:
        base_dir: the directory; its path is written into the file for people who read the file.
        path: the file; it may not exist yet.
    """

    base_dir: str
    path: str
    _state: tuple[int, int, int] | None = field(default=None, init=False)
    _runs: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _warnings: WarnOnce = field(default_factory=lambda: WarnOnce(_LOG), init=False)

    def all(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the tags and remarks of all runs, by name of the run; do not change them."""
        with self._lock:
            self._reload()
            return self._runs

    def update(self, train_id: str, added: Mapping[str, Any]) -> None:
        """Save a ``tag``, a ``remark`` or both for a run; other saved entries stay.

        Raises:
            OSError: the file could not be saved; nothing has changed.
        """
        folder = os.path.dirname(self.path)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with self._lock, _file_lock(os.path.join(folder, ".lock")):
            self._reload()
            runs = {**self._runs, train_id: {**self._runs.get(train_id, {}), **added}}
            content = json.dumps({"base_dir": self.base_dir, "runs": runs}, indent=1)
            replace_file(self.path, content.encode())  # with mode 0600
            self._runs = runs
            self._state = _state(self.path)

    def _reload(self) -> None:
        state = _state(self.path)
        if state == self._state:
            return
        self._state = state
        self._runs = {}
        if state is not None:
            try:
                with open(self.path, encoding="utf-8") as file:
                    runs = json.load(file)["runs"]
                self._runs = {train_id: dict(added) for train_id, added in runs.items()}
            except (
                OSError,
                ValueError,
                KeyError,
                TypeError,
                AttributeError,
                RecursionError,
            ) as error:
                self._warnings.warn(
                    state, "the tags and remarks in %s cannot be read: %r", self.path, error
                )


@contextlib.contextmanager
def _file_lock(path: str) -> Iterator[None]:
    """Lock a file during a ``with`` block, where the file system has locks.

    Raises:
        TimeoutError: another process holds the lock for more than :data:`LOCK_LIMIT_S` seconds.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + LOCK_LIMIT_S
        while try_lock(descriptor) is False:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"another viewer has locked {path} for {LOCK_LIMIT_S:.0f} s. Try again later"
                )
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _state(path: str) -> tuple[int, int, int] | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns, stat.st_ino
