"""Check the arguments of public functions.

The message of an error names the argument, the given value and the expected value.

All functions that take the same argument share its check, so that the same mistake gives the same
message everywhere.
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
    '. To copy while the program runs, pass {name}="runs" in the program, and in a second shell '
    "run: mindsummary sync runs {path} --follow"
)


def checked_bool(name: str, value: Any) -> bool:
    """Return a bool argument; raise TypeError for any different value."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, not {value!r}")
    return value


def positive_int(name: str, value: Any, kind: str = "an int", expected: str = "at least 1") -> int:
    """Return an int argument of at least 1.

    Raises:
        TypeError: the value is not an int, or is a bool.
        ValueError: the value is below 1.
    """
    return _int_in(1, math.inf, name, value, kind, expected)


def checked_version(version: Any) -> int | str | None:
    """Return the argument ``version``: the number or name of a run, or ``None``.

    Raises:
        TypeError: the value is neither an int nor a str nor ``None``.
        ValueError: the number is below 0.
    """
    if version is None or isinstance(version, str):
        return version
    return _int_in(0, math.inf, "version", version, "an int, a str or None", "0 or more")


def optional_positive_int(name: str, value: Any) -> int | None:
    """Return an argument that is ``None`` or an int of at least 1.

    Raises the errors of :func:`positive_int`.
    """
    if value is None:
        return None
    return positive_int(name, value, "an int or None")


def recorded_steps(steps: Any) -> frozenset[int]:
    """Convert the argument ``steps`` of a recorder to a set of step numbers.

    An int n means the steps 1 to n. A sequence contains the step numbers, at least one number.

    Raises:
        TypeError: a value is not an int.
        ValueError: a number is below 1, or the sequence is empty.
    """
    if isinstance(steps, (tuple, list, range)):
        if not steps:
            raise ValueError(f"steps must name at least one step, not {steps!r}")
        return frozenset(positive_int("a step", step) for step in steps)
    return frozenset(range(1, positive_int("steps", steps, "an int or a sequence of them") + 1))


def max_file_bytes(value: Any) -> int | None:
    """Return the argument ``max_file_size``: ``None`` or a number of bytes.

    Raises the errors of :func:`positive_int`.
    """
    if value is None:
        return None
    return positive_int(
        "max_file_size", value, "an int of bytes or None", "at least 1 byte, or None for no limit"
    )


def file_permissions(value: Any) -> int:
    """Convert the argument ``file_mode`` to permission bits; a text is octal.

    Raises:
        TypeError: the value is neither an int nor an octal text.
        ValueError: the bits are not in 0o600..0o777, or do not let the owner read and write.
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
    """Return an argument that is ``None`` or a number of seconds above 0.

    Raises:
        TypeError: the value is not a number, or is a bool.
        ValueError: the number is not above 0.
    """
    if value is not None and (not isinstance(value, (int, float)) or isinstance(value, bool)):
        raise TypeError(f"{name} must be a number of seconds or None, not {value!r}")
    if value is not None and not value > 0:
        raise ValueError(f"{name} must be above 0, or None for no fsync, not {value!r}")
    return value


def natural_int(name: str, value: Any) -> int:
    """Return an int argument of at least 0.

    Raises:
        TypeError: the value is not an int, or is a bool.
        ValueError: the value is below 0.
    """
    return _int_in(0, math.inf, name, value, "an int", "0 or more")


def int64(name: str, value: Any) -> int:
    """Return an int argument that fits into 64 bits.

    Raises:
        TypeError: the value is not an int, or is a bool.
        ValueError: the value does not fit into 64 bits.
    """
    return _int_in(-(2**63), 2**63 - 1, name, value, "an int", "in the range of 64 bits")


def optional_module(name: str, value: Any) -> Any:
    """Return an argument that is ``None`` or a ``torch.nn.Module``.

    Torch is not imported for this check.

    Raises:
        TypeError: the value is neither.
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
    """Return a tag as valid UTF-8 text; raise an error if it is empty or no str.

    Raises:
        TypeError: the tag is not a str.
        ValueError: the tag is empty.
    """
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a str, not {name!r}")
    if not name:
        raise ValueError(f"{what} must not be empty")
    return utf8_text(name)


def checked_path(name: str, path: Any) -> str:
    """Convert a path argument to a local path without ``file://``.

    An empty path becomes ``"."``. ``~`` and environment variables are expanded.

    Raises:
        TypeError: the value is not a path.
        ValueError: the path is not a text, or contains a NUL character.
        RemotePathError: the path is the address of a remote store.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path, not {path!r}")
    text = os.fspath(path)
    if not isinstance(text, str) or "\0" in text:
        raise ValueError(f"{name} must be a str path without a NUL character, not {text!r}")
    local = os.path.expanduser(os.path.expandvars(without_local_scheme(text))) or "."
    refuse_remote(name, local, _TWO_LINES)
    return local


def checked_directory(name: str, directory: Any) -> str:
    """Convert a path argument to the absolute path of a directory.

    The directory need not exist.

    Raises:
        ValueError: the path is empty.
        NotADirectoryError: a file is at the path or at a parent of the path.
        TypeError, ValueError, RemotePathError: as in :func:`checked_path`.
    """
    local = checked_path(name, directory)
    if not os.fspath(directory):
        raise ValueError(f"{name} must be a path that is not empty, not {directory!r}")
    path = os.path.abspath(local)
    refuse_file_in_the_way(path)
    return path


def refuse_file_in_the_way(directory: str) -> None:
    """Raise NotADirectoryError if a file prevents the creation of a directory.

    The check happens before anything is recorded or trained.

    Raises:
        NotADirectoryError: a file is at the path or at a parent of the path.
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
    """Raise RemotePathError if a path is the address of a remote store.

    Used as a path, the address would name a local directory such as ``s3:``.

    The message ends with ``instead``, in which ``{path}`` is the address and ``{name}`` the
    argument.
    """
    if is_remote(path):
        text = (
            f"{name} must be a local path, not {path!r}: files are appended to and renamed, which "
            "remote stores do not support. Write to a local directory and copy it afterwards, or "
            "mount the store" + instead.format(name=name, path=with_both_slashes(path))
        )
        raise RemotePathError(without_secrets(text, path))


def check_export_options(export_options: Any) -> bool:
    """Check ``export_options``; tell whether they ask for npy files of tensors.

    Raises:
        TypeError: the value is not a dict, or a key or value in it has the wrong type.
        ValueError: a key or value in the dict is unknown.
    """
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
            f"the key of export_options must be 'tensor_format', not "
            f"{', '.join(map(repr, unknown))}"
        )
    tensor_format = export_options.get("tensor_format")
    if tensor_format not in (None, "npy"):
        raise ValueError(
            f"tensor_format of export_options must be 'npy' or None, not {tensor_format!r}"
        )
    return tensor_format == "npy"


def drops_num_process(position: int) -> Callable[[_F], _F]:
    """Return a decorator that lets an ``__init__`` ignore MindSpore's ``num_process``.

    In MindSpore 2, ``num_process`` is a keyword, or the int at ``position`` of the positional
    arguments, where ``self`` is 0.
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
