"""Checks of arguments: each refusal names the argument, what was given and what is expected.

Shared by everything that takes the same argument, so that the same mistake gives the same message everywhere.
"""

from __future__ import annotations

import functools
import logging
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from mindsummary_lightning.errors import RemotePathError
from mindsummary_lightning.values.text import utf8_text

__all__ = [
    "check_callable",
    "check_export_options",
    "check_flag",
    "check_network",
    "checked",
    "checked_count",
    "checked_directory",
    "checked_name",
    "checked_path",
    "drops_num_process",
    "refuse_remote",
]

_LOG = logging.getLogger(__name__)
_F = TypeVar("_F", bound=Callable[..., Any])
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/")  # at least two letters, for C:/ is a drive; pathlib makes // one


class _Rule(NamedTuple):
    types: tuple[type, ...]
    type_text: str
    is_in_range: Callable[[Any], bool]
    range_text: str
    show: Callable[[Any], str] = repr


_INT = (int,)
_COUNT = _Rule(_INT, "an int", lambda count: count >= 1, "at least 1")
_FLAG = _Rule((bool,), "a bool", lambda flag: True, "")
_RULES = {
    "max_file_size": _Rule(
        (int, type(None)),
        "an int of bytes or None",
        lambda size: size is None or size >= 1,
        "at least 1 byte, or None for no limit",
    ),
    "file_mode": _Rule(
        _INT,
        "an int such as 0o640",
        lambda mode: 0o600 <= mode <= 0o777 and mode & 0o600 == 0o600,
        "0o600..0o777 and let the owner read and write",
        oct,
    ),
    "fsync_secs": _Rule(
        (int, float, type(None)),
        "a number of seconds or None",
        lambda seconds: seconds is None or seconds > 0,
        "above 0, or None for no fsync",
    ),
    "free_space_factor": _Rule(_INT, "an int", lambda factor: factor >= 0, "0 or more"),
    "step": _Rule(_INT, "an int", lambda step: -(2**63) <= step < 2**63, "in the range of 64 bits"),
}


def checked(name: str, value: Any) -> Any:
    """The value of ``max_file_size``, ``file_mode``, ``fsync_secs``, ``free_space_factor`` or ``step``.

    Raises:
        TypeError: it has another type; a bool is not an int.
        ValueError: it is out of range.
    """
    return _checked(name, value, _RULES[name])


def checked_count(name: str, count: Any) -> int:
    """An int of at least 1; raises as :func:`checked`."""
    return int(_checked(name, count, _COUNT))


def check_flag(name: str, flag: Any) -> None:
    """Refuse what is not a bool."""
    _checked(name, flag, _FLAG)


def _checked(name: str, value: Any, rule: _Rule) -> Any:
    if not isinstance(value, rule.types) or (isinstance(value, bool) and bool not in rule.types):
        raise TypeError(f"{name} must be {rule.type_text}, not {value!r}")
    if not rule.is_in_range(value):
        raise ValueError(f"{name} must be {rule.range_text}, not {rule.show(value)}")
    return value


def checked_name(name: Any) -> str:
    """A tag, as UTF-8 can hold it."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {name!r}")
    if not name:
        raise ValueError("name must not be empty")
    return utf8_text(name)


def checked_path(name: str, path: Any) -> str:
    """A local path with ``~`` and environment variables expanded; ``"."`` for an empty one.

    Raises:
        TypeError: it is not a path.
        ValueError: it is not text, or the address of a remote store.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path, not {path!r}")
    text = os.fspath(path)
    if not isinstance(text, str) or "\0" in text:
        raise ValueError(f"{name} must be a path of text, not {text!r}")
    local = os.path.expanduser(os.path.expandvars(text)) or "."
    refuse_remote(name, local)
    return local


def checked_directory(name: str, directory: Any) -> str:
    """An absolute :func:`checked_path`, not empty; it need not exist."""
    local = checked_path(name, directory)
    if not os.fspath(directory):
        raise ValueError(f"{name} must be a path of text, not {directory!r}")
    return os.path.abspath(local)


def refuse_remote(name: str, path: str) -> None:
    """Refuse the address of a remote store, which would name a local directory such as ``s3:``.

    Raises:
        RemotePathError: the path begins with a scheme.
    """
    if _SCHEME.match(path):
        raise RemotePathError(
            f"{name} must be a local path, not {path!r}: files are appended to and renamed, which remote stores do not "
            "support. Write to a local directory and copy it afterwards, or mount the store"
        )


def check_export_options(export_options: Any) -> bool:
    """Whether tensors are exported as npy files; raises for any other option."""
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


def check_network(name: str, network: Any) -> None:
    """Refuse what is not a ``torch.nn.Module``, without importing torch."""
    if network is not None and not (hasattr(network, "forward") and hasattr(network, "named_modules")):
        raise TypeError(f"{name} must be a torch.nn.Module or None, not {network!r}")


def check_callable(name: str, value: Any) -> None:
    """Refuse what is neither callable nor ``None``."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be callable or None, not {value!r}")


def drops_num_process(position: int) -> Callable[[_F], _F]:
    """Decorate an ``__init__`` that ignores MindSpore's number of writer processes.

    Args:
        position: where MindSpore 2 has ``num_process`` among the positional arguments, ``self`` being 0. An int there
            is dropped, and so is the keyword.
    """

    def decorate(init: _F) -> _F:
        @functools.wraps(init)
        def without_num_process(*args: Any, **kwargs: Any) -> None:
            is_given = kwargs.pop("num_process", None) is not None
            if len(args) > position and type(args[position]) is int:
                is_given, args = True, (*args[:position], *args[position + 1 :])
            if is_given:
                _LOG.debug("num_process is ignored: values are written by the call that records them")
            init(*args, **kwargs)

        return without_num_process  # type: ignore[return-value]

    return decorate
