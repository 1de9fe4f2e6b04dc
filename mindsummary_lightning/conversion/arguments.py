"""Checks of arguments.

A refusal names the argument, the given value and the expected one.

Shared by everything that takes the same argument, so that the same mistake gives the same message
everywhere.
"""

from __future__ import annotations

import functools
import logging
import math
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from mindsummary_lightning.errors import RemotePathError
from mindsummary_lightning.values.addresses import (
    is_remote,
    with_both_slashes,
    without_local_scheme,
)
from mindsummary_lightning.values.text import utf8_text, without_secrets

_LOG = logging.getLogger(__name__)
_F = TypeVar("_F", bound=Callable[..., Any])
_TWO_LINES = (
    '. Two lines do it while the program runs: {name}="runs" in the program, and beside it: '
    "mindsummary sync runs {path} --follow"
)


def checked_bool(name: str, value: Any) -> bool:
    """A bool; raises TypeError."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, not {value!r}")
    return value


def positive_int(name: str, value: Any, kind: str = "an int", expected: str = "at least 1") -> int:
    """An int of at least 1; raises TypeError, also for a bool, or ValueError."""
    return _int_in(1, math.inf, name, value, kind, expected)


def checked_version(version: Any) -> int | str | None:
    """The number or name of a run, or ``None``.

    Raises:
        TypeError: it is neither an int nor a str.
        ValueError: the number is below 0.
    """
    if version is None or isinstance(version, str):
        return version
    return _int_in(0, math.inf, "version", version, "an int, a str or None", "0 or more")


def optional_positive_int(name: str, value: Any) -> int | None:
    """``None`` or a :func:`positive_int`."""
    if value is None:
        return None
    return positive_int(name, value, "an int or None")


def recorded_steps(steps: Any) -> frozenset[int]:
    """Check the argument ``steps`` of a recorder.

    It is how many steps from the first on, or the numbers of the steps, at least one.
    """
    if isinstance(steps, (tuple, list, range)):
        if not steps:
            raise ValueError(
                f"steps must name at least one step, not {steps!r}, which records none"
            )
        return frozenset(positive_int("a step", step) for step in steps)
    return frozenset(range(1, positive_int("steps", steps, "an int or a sequence of them") + 1))


def max_file_bytes(value: Any) -> int | None:
    """The argument ``max_file_size``: ``None`` or a :func:`positive_int`."""
    if value is None:
        return None
    return positive_int(
        "max_file_size", value, "an int of bytes or None", "at least 1 byte, or None for no limit"
    )


def file_permissions(value: Any) -> int:
    """Check the argument ``file_mode``: permission bits; a text is octal.

    The owner must be able to read and write.
    """
    if isinstance(value, str) and re.fullmatch("(0o?)?[0-7]{3}", value):
        value = int(value, 8)
    mode = _int_in(-math.inf, math.inf, "file_mode", value, "an int such as 0o640, or its text", "")
    if not 0o600 <= mode <= 0o777 or mode & 0o600 != 0o600:
        is_meant_octal = re.fullmatch("[67][0-7]{2}", str(value))  # 640, as chmod takes it
        hint = f"{value}, which is decimal; write 0o{value}" if is_meant_octal else oct(mode)
        raise ValueError(
            f"file_mode must be 0o600..0o777 and let the owner read and write, not {hint}"
        )
    return mode


def optional_seconds(name: str, value: Any) -> float | None:
    """``None`` or a number above 0; raises TypeError, also for a bool, or ValueError."""
    if value is not None and (not isinstance(value, (int, float)) or isinstance(value, bool)):
        raise TypeError(f"{name} must be a number of seconds or None, not {value!r}")
    if value is not None and not value > 0:
        raise ValueError(f"{name} must be above 0, or None for no fsync, not {value!r}")
    return value


def natural_int(name: str, value: Any) -> int:
    """An int of at least 0; raises TypeError, also for a bool, or ValueError."""
    return _int_in(0, math.inf, name, value, "an int", "0 or more")


def int64(name: str, value: Any) -> int:
    """An int of 64 bits; raises TypeError, also for a bool, or ValueError."""
    return _int_in(-(2**63), 2**63 - 1, name, value, "an int", "in the range of 64 bits")


def optional_module(name: str, value: Any) -> Any:
    """Check for ``None`` or a ``torch.nn.Module``; raises TypeError.

    Torch is not imported for it.
    """
    if value is not None and not (hasattr(value, "forward") and hasattr(value, "named_modules")):
        raise TypeError(f"{name} must be a torch.nn.Module or None, not {value!r}")
    return value


def _int_in(
    smallest: float, largest: float, name: str, value: Any, kind: str, expected: str
) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be {kind}, not {value!r}")
    if not smallest <= value <= largest:
        raise ValueError(f"{name} must be {expected}, not {value!r}")
    return value


def checked_name(name: Any, what: str = "name") -> str:
    """A tag, as UTF-8 can hold it."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a str, not {name!r}")
    if not name:
        raise ValueError(f"{what} must not be empty")
    return utf8_text(name)


def checked_path(name: str, path: Any) -> str:
    """A local path without ``file://``; ``"."`` for an empty path.

    ``~`` and environment variables are expanded.

    ``~`` and environment variables are expanded.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path, not {path!r}")
    text = os.fspath(path)
    if not isinstance(text, str) or "\0" in text:
        raise ValueError(f"{name} must be a path of text, not {text!r}")
    local = os.path.expanduser(os.path.expandvars(without_local_scheme(text))) or "."
    refuse_remote(name, local, _TWO_LINES)
    return local


def checked_directory(name: str, directory: Any) -> str:
    """Return the absolute path of a directory; see :func:`checked_path`.

    An empty path raises ValueError.

    It need not exist, but no file may be in its way.
    """
    local = checked_path(name, directory)
    if not os.fspath(directory):
        raise ValueError(f"{name} must be a path of text, not {directory!r}")
    path = os.path.abspath(local)
    refuse_file_in_the_way(path)
    return path


def refuse_file_in_the_way(directory: str) -> None:
    """Refuse a directory that cannot be made because of a file.

    This happens before anything is recorded or trained.

    Raises:
        NotADirectoryError: it is a file, or lies below one.
    """
    path = os.path.abspath(directory)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise NotADirectoryError(
            f"{path} is not a directory, so nothing can be recorded in {directory}; "
            "give another directory"
        )


def refuse_remote(name: str, path: str, instead: str = "") -> None:
    """Raise RemotePathError for the address of a remote store.

    As a path it would name a local directory such as ``s3:``.

    The text ends with ``instead``, in which ``{path}`` is the address and ``{name}`` the argument.
    """
    if is_remote(path):
        text = (
            f"{name} must be a local path, not {path!r}: files are appended to and renamed, which "
            "remote stores do not support. Write to a local directory and copy it afterwards, or "
            "mount the store" + instead.format(name=name, path=with_both_slashes(path))
        )
        raise RemotePathError(without_secrets(text, path))


def check_export_options(export_options: Any) -> bool:
    """Check export options: whether tensors are exported as npy files."""
    if export_options is None:
        return False
    if not isinstance(export_options, Mapping):
        raise TypeError(f"export_options must be a dict or None, not {export_options!r}")
    if not all(isinstance(key, str) for key in export_options):
        raise TypeError(f"keys of export_options must be str, not {[*export_options]}")
    if not all(isinstance(value, (str, type(None))) for value in export_options.values()):
        raise TypeError(
            f"values of export_options must be str or None, not {[*export_options.values()]}"
        )
    unknown = sorted(set(export_options) - {"tensor_format"})
    if unknown:
        raise ValueError(
            f"export_options knows only 'tensor_format', not {', '.join(map(repr, unknown))}"
        )
    tensor_format = export_options.get("tensor_format")
    if tensor_format not in (None, "npy"):
        raise ValueError(
            f"tensor_format of export_options must be 'npy' or None, not {tensor_format!r}"
        )
    return tensor_format == "npy"


def drops_num_process(position: int) -> Callable[[_F], _F]:
    """Decorate an ``__init__`` that ignores ``num_process``.

    MindSpore 2 has it as a keyword or an int.

    That is ``position`` among the positional arguments, ``self`` being 0.
    """

    def decorate(init: _F) -> _F:
        @functools.wraps(init)
        def without_num_process(*args: Any, **kwargs: Any) -> None:
            is_given = kwargs.pop("num_process", None) is not None
            if len(args) > position and type(args[position]) is int:
                is_given, args = True, (*args[:position], *args[position + 1 :])
            if is_given:
                _LOG.debug(
                    "num_process is ignored: values are written by the call that records them"
                )
            init(*args, **kwargs)

        return without_num_process  # type: ignore[return-value]

    return decorate
