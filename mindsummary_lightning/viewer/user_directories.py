"""This package's directories in the user's home: for what can be made again, and for what the user said."""

from __future__ import annotations

import os
import sys


def cache_directory() -> str:
    """Directory for what can be made again, made with mode 0700."""
    path = _directory("XDG_CACHE_HOME", "~/.cache", "~/Library/Caches")
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def state_directory() -> str:
    """Directory for what users note about runs; it may not exist yet."""
    return _directory("XDG_STATE_HOME", "~/.local/state", "~/Library/Application Support")


def _directory(variable: str, default: str, on_macos: str) -> str:
    if sys.platform == "darwin":
        base = os.path.expanduser(on_macos)
    elif sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
    else:
        base = os.environ.get(variable) or os.path.expanduser(default)
    return os.path.abspath(os.path.join(base, "mindsummary-lightning"))
