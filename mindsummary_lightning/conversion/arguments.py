"""Refusals of bad arguments: each names the argument, what was given and what is expected.

Shared by everything that takes the same argument, so that a mistake reads the same wherever it is made.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mindsummary_lightning.values.text import utf8_text

__all__ = [
    "check_export_options",
    "check_flag",
    "check_max_file_size",
    "check_network",
    "checked_count",
    "checked_directory",
    "checked_factor",
    "checked_mode",
    "checked_name",
    "checked_seconds",
]


def check_max_file_size(max_file_size: object) -> None:
    """Refuse what is no size of a file.

    Raises:
        TypeError: it is no int.
        ValueError: it is below 1.
    """
    if max_file_size is None:
        return
    if not isinstance(max_file_size, int) or isinstance(max_file_size, bool):
        raise TypeError(f"max_file_size must be an int of bytes or None, not {max_file_size!r}")
    if max_file_size < 1:
        raise ValueError(f"max_file_size must be at least 1 byte, or None for no limit, not {max_file_size}")


def check_export_options(export_options: object) -> bool:
    """Whether tensors are exported as npy files.

    Raises:
        TypeError: the options are no dict.
        ValueError: a key or format is not known.
    """
    if export_options is None:
        return False
    if not isinstance(export_options, Mapping):
        raise TypeError(f"export_options must be a dict or None, not {export_options!r}")
    unknown = set(export_options) - {"tensor_format"}
    if unknown:
        raise ValueError(f"export_options knows only 'tensor_format', not {sorted(map(repr, unknown))}")
    tensor_format = export_options.get("tensor_format")
    if tensor_format not in (None, "npy"):
        raise ValueError(f"tensor_format of export_options must be 'npy' or None, not {tensor_format!r}")
    return tensor_format == "npy"


def checked_directory(name: str, directory: Any) -> str:
    """An absolute path, with ``~`` and environment variables filled in; nothing need be there."""
    if not isinstance(directory, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path, not {directory!r}")
    path = os.fspath(directory)
    if not isinstance(path, str) or not path or "\0" in path:
        raise ValueError(f"{name} must be a path of text, not {path!r}")
    return os.path.abspath(os.path.expanduser(os.path.expandvars(path)))


def check_network(name: str, network: Any) -> None:
    """Refuse what is no ``torch.nn.Module``, without importing torch."""
    if network is not None and not (hasattr(network, "forward") and hasattr(network, "named_modules")):
        raise TypeError(f"{name} must be a torch.nn.Module or None, not {network!r}")


def checked_mode(mode: Any) -> int:
    """Permission bits that let the owner read and write."""
    if not isinstance(mode, int) or isinstance(mode, bool):
        raise TypeError(f"file_mode must be an int such as 0o640, not {mode!r}")
    if not 0o600 <= mode <= 0o777 or mode & 0o600 != 0o600:
        raise ValueError(f"file_mode must let the owner read and write (0o600..0o777), not {mode:#o}")
    return mode


def checked_seconds(seconds: Any) -> float | None:
    """A positive number of seconds, or None."""
    if seconds is None:
        return None
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        raise TypeError(f"fsync_secs must be a number of seconds or None, not {seconds!r}")
    if not seconds > 0:
        raise ValueError(f"fsync_secs must be above 0, or None for no fsync, not {seconds}")
    return float(seconds)


def checked_factor(factor: Any) -> int:
    """A factor of free space, 0 or more."""
    if not isinstance(factor, int) or isinstance(factor, bool):
        raise TypeError(f"free_space_factor must be an int, not {factor!r}")
    if factor < 0:
        raise ValueError(f"free_space_factor must be 0 or more, not {factor}")
    return factor


def checked_name(name: Any) -> str:
    """A tag as UTF-8 holds it."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {name!r}")
    if not name:
        raise ValueError("name must not be empty")
    return utf8_text(name)


def check_flag(name: str, flag: Any) -> None:
    """Refuse what is no bool."""
    if not isinstance(flag, bool):
        raise TypeError(f"{name} must be a bool, not {flag!r}")


def checked_count(name: str, count: Any) -> int:
    """A positive int; a bool is none."""
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"{name} must be an int, not {count!r}")
    if count < 1:
        raise ValueError(f"{name} must be at least 1, not {count}")
    return count
