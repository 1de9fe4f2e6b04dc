"""Conversion of any Python value to a parameter that MindInsight's data pages show.

A property that raises or a value without a plain form never raises here.
"""

from __future__ import annotations

import enum
import json
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from mindsummary_lightning.values.lineage_info import INT32_MAX, INT32_MIN, ParameterValue

__all__ = ["dataset_class_name", "json_text", "parameters_of", "public_fields", "read", "shown_name"]

MAX_TEXT_CHARACTERS = 1000
_MAX_ELEMENTS = 32
_MAX_NESTING = 4

# The pages keep their own values under these keys of a node.
_KEYS_OF_THE_PAGE = frozenset({"key", "id", "children", "operations", "sampler"})


def read(owner: Any, name: str, default: Any = None) -> Any:  # Any: fields of any user's object
    """An attribute, or the default if reading it fails in any way."""
    try:
        return getattr(owner, name, default)
    except Exception:  # a property is the user's code
        return default


def shown_name(text: str) -> str:
    """A type or operation name without what breaks the drawing (``<lambda>`` becomes ``lambda``)."""
    kept = "".join("_" if c in '<>"{}|\\/' or not c.isprintable() else c for c in text).strip("_ ")
    return _encodable(kept)[:100] or "unnamed"


def dataset_class_name(value: Any) -> str:
    """Module and class of an object, as text."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def public_fields(owner: Any) -> dict[str, Any]:
    """The attributes of an object whose names do not start with ``_``."""
    fields = read(owner, "__dict__", {})
    return {name: value for name, value in dict(fields).items() if isinstance(name, str) and not name.startswith("_")}


def parameters_of(fields: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> dict[str, ParameterValue]:
    """Fields as MindSpore writes them: list elements and mappings as JSON, None as ``None``, no empty list.

    An int beyond 32 bits and a float that is not finite become text: the format's and the reader's limits.
    """
    kept: dict[str, ParameterValue] = {}
    for name, value in dict(fields).items():
        key = f"{name}_" if name in _KEYS_OF_THE_PAGE else _encodable(str(name))
        parameter = _parameter(_plain(value, _MAX_NESTING))
        if parameter != ():
            kept[key] = parameter
    return kept


def json_text(fields: Mapping[str, Any]) -> str:
    """Fields as the text of a JSON object of at most 1,000 characters; values beyond that are replaced by ``...``."""
    plain = {str(name): _plain(value, _MAX_NESTING) for name, value in fields.items()}
    text = json.dumps(plain)
    while len(text) > MAX_TEXT_CHARACTERS and plain:
        longest = max(plain, key=lambda name: len(json.dumps(plain[name])))
        if plain[longest] == "...":
            return json.dumps({"parameters": len(plain)})
        plain[longest] = "..."
        text = json.dumps(plain)
    return text


def _parameter(plain: Any) -> ParameterValue:
    if plain is None:
        return "None"
    if isinstance(plain, (bool, float)):
        return plain
    if isinstance(plain, int):
        return plain if INT32_MIN <= plain <= INT32_MAX else str(plain)
    if isinstance(plain, list):
        return tuple("" if element is None else json.dumps(element) for element in plain)
    return json.dumps(plain)[:MAX_TEXT_CHARACTERS] if isinstance(plain, dict) else str(plain)


def _plain(value: Any, nesting: int) -> Any:
    """A value that JSON can hold."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return _plain(value.name, nesting)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, (str, os.PathLike)):
        return _encodable(str(value))[:MAX_TEXT_CHARACTERS]
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return _plain_array(value, nesting)
    if isinstance(value, range):
        return str(value)
    if nesting and isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(element, nesting - 1) for element in value] if len(value) <= _MAX_ELEMENTS else _count(value)
    if nesting and isinstance(value, dict):
        pairs = list(value.items())[:_MAX_ELEMENTS]
        return {_encodable(str(key)): _plain(element, nesting - 1) for key, element in pairs}
    return _name_of(value)


def _plain_array(value: Any, nesting: int) -> Any:
    on_host = not isinstance(value, torch.Tensor) or value.device.type == "cpu"
    if on_host and value.ndim <= 1 and math.prod(value.shape) <= _MAX_ELEMENTS and nesting:
        return _plain(value.tolist(), nesting - 1)
    return f"{type(value).__name__} of shape {tuple(value.shape)}"


def _count(value: Any) -> str:
    return f"{type(value).__name__} of {len(value)} elements"


def _name_of(value: Any) -> str:
    named = value if isinstance(value, type) or callable(value) else type(value)
    return _encodable(str(read(named, "__qualname__") or type(value).__qualname__))


def _encodable(text: str) -> str:
    """Text that UTF-8 can encode: no half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode()
