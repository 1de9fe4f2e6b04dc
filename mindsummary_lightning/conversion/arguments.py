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

_LOG = logging.getLogger(__name__)
_F = TypeVar("_F", bound=Callable[..., Any])
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/")  # at least two letters, for C:/ is a drive; pathlib makes // one


class _Rule(NamedTuple):
    is_kind: Callable[[Any], bool]
    kind: str
    is_in_range: Callable[[Any], bool] = lambda value: True
    range: str = ""
    show: Callable[[Any], str] = repr
    is_optional: bool = False  # None is allowed


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_network(value: Any) -> bool:
    return hasattr(value, "forward") and hasattr(value, "named_modules")  # without importing torch


_FLAG = _Rule(lambda flag: isinstance(flag, bool), "a bool")
_COUNT = _Rule(_is_int, "an int", lambda count: count >= 1, "at least 1")
_OPTIONAL_COUNT = _COUNT._replace(is_optional=True)
_NETWORK = _Rule(_is_network, "a torch.nn.Module", is_optional=True)
_RULES = {
    **dict.fromkeys(("raise_exception", "keep_default_action", "log_graph"), _FLAG),
    **dict.fromkeys(("collect_freq", "landscape_max_bytes", "points_at_once"), _COUNT),
    **dict.fromkeys(("collect_tensor_freq", "collect_input_freq"), _OPTIONAL_COUNT),
    **dict.fromkeys(("model", "network", "train_network"), _NETWORK),
    "plugin_filter": _Rule(callable, "callable", is_optional=True),
    "max_file_size": _OPTIONAL_COUNT._replace(kind="an int of bytes", range="at least 1 byte, or None for no limit"),
    "file_mode": _Rule(
        _is_int,
        "an int such as 0o640",
        lambda mode: 0o600 <= mode <= 0o777 and mode & 0o600 == 0o600,
        "0o600..0o777 and let the owner read and write",
        oct,
    ),
    "fsync_secs": _Rule(
        lambda seconds: isinstance(seconds, float) or _is_int(seconds),
        "a number of seconds",
        lambda seconds: seconds > 0,
        "above 0, or None for no fsync",
        is_optional=True,
    ),
    "free_space_factor": _Rule(_is_int, "an int", lambda factor: factor >= 0, "0 or more"),
    "step": _Rule(_is_int, "an int", lambda step: -(2**63) <= step < 2**63, "in the range of 64 bits"),
}


def checked(name: str, value: Any) -> Any:
    """The value of an argument, by the rule that arguments of this name have everywhere.

    Raises:
        TypeError: it has another type; a bool is not an int.
        ValueError: it is out of range.
    """
    rule = _RULES[name]
    if value is None and rule.is_optional:
        return None
    if not rule.is_kind(value):
        raise TypeError(f"{name} must be {rule.kind}{' or None' if rule.is_optional else ''}, not {value!r}")
    if not rule.is_in_range(value):
        raise ValueError(f"{name} must be {rule.range}, not {rule.show(value)}")
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
