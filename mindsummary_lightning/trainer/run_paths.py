"""Checks of the arguments that place a logger's runs."""

from __future__ import annotations

import os
from typing import Any

from mindsummary_lightning.conversion.arguments import refuse_remote

__all__ = ["checked_path", "checked_version"]


def checked_path(name: str, path: Any) -> str:
    """A local path with ``~`` and environment variables expanded.

    Raises:
        TypeError: it is not a path.
        ValueError: it is not text, or the address of a remote store.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path, not {path!r}")
    text = os.fspath(path)
    if not isinstance(text, str) or "\0" in text:
        raise ValueError(f"{name} must be a path of text, not {text!r}")
    local = os.path.expandvars(os.path.expanduser(text)) or "."
    refuse_remote(name, local)
    return local


def checked_version(version: Any) -> int | str | None:
    """A number, a name or ``None``.

    Raises:
        TypeError: it is none of these.
        ValueError: the number is negative.
    """
    if version is None or isinstance(version, str):
        return version
    if not isinstance(version, int) or isinstance(version, bool):
        raise TypeError(f"version must be an int, a str or None, not {version!r}")
    if version < 0:
        raise ValueError(f"version must be 0 or more, not {version}")
    return version
