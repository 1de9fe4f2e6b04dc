"""This package's cache directory and state directory in the user's home.

The cache holds files that can be downloaded again. The state holds the user's tags and remarks.

A cache that other users may write to is refused. If there is no writable home, as for a container's
numbered user, a temporary directory is used.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
import tempfile

from mindsummary_lightning.warn_once import WarnOnce

_WARNINGS = WarnOnce(logging.getLogger(__name__))
_NAME = "mindsummary-lightning"
_temporary: list[tempfile.TemporaryDirectory[str]] = []  # removed when the process ends


def cache_directory() -> str:
    """Return the path of this package's cache directory; create it with mode 0700.

    Raises:
        PermissionError: the directory belongs to another user, or other users may write to it.
    """
    path = _usable("XDG_CACHE_HOME", "~/.cache", "~/Library/Caches")
    os.makedirs(path, mode=0o700, exist_ok=True)
    if os.name == "posix":
        _refuse_foreign(path)
    return path


def state_directory() -> str:
    """Return the path of the directory for tags and remarks; it may not exist yet."""
    return _usable("XDG_STATE_HOME", "~/.local/state", "~/Library/Application Support")


def _usable(variable: str, default: str, on_macos: str) -> str:
    path = os.path.join(_base(variable, default, on_macos), _NAME)
    if os.path.isabs(path) and os.access(_existing(path), os.W_OK):
        return path
    reason = (
        "is not writable" if os.path.isabs(path) else "is not an absolute path: HOME is not set"
    )
    if not _temporary:
        _temporary.append(tempfile.TemporaryDirectory(prefix=f"{_NAME}-"))
    _WARNINGS.warn(
        path,
        "%s %s; this process uses the temporary directory %s instead",
        path,
        reason,
        _temporary[0].name,
    )
    return _temporary[0].name


def _existing(path: str) -> str:
    """Return the path, or its nearest parent that exists."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _base(variable: str, default: str, on_macos: str) -> str:
    if sys.platform == "darwin":
        return os.path.expanduser(on_macos)
    if sys.platform == "win32":
        return os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
    return os.environ.get(variable) or os.path.expanduser(default)


def _refuse_foreign(path: str) -> None:
    found = os.stat(path)
    if found.st_uid != os.geteuid():
        reason = f"belongs to user {found.st_uid}, not to user {os.geteuid()}. Change its owner"
    elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        reason = f"can be written to by other users (mode {mode}). Run `chmod 700` on it"
    else:
        return
    is_movable = sys.platform not in ("darwin", "win32")  # elsewhere no variable is read
    remedy = ", or set XDG_CACHE_HOME to another directory" if is_movable else ""
    raise PermissionError(f"the cache directory {path} {reason}{remedy}")
