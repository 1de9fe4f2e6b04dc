"""Convert hyper-parameters to a flat dict of plain values.

Custom lineage holds these values.

No object is called to determine what it is, and no error is raised: an object without a readable
value is represented by the name of its type.
"""

from __future__ import annotations

import dataclasses
import enum
import logging
import math
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from mindsummary_lightning.conversion.flattening import (
    Items,
    field_items,
    leaves,
    mapping_items,
    value_or_default,
)
from mindsummary_lightning.values.lineage_info import CustomValue
from mindsummary_lightning.values.text import utf8_text

_LOG = logging.getLogger(__name__)

MAX_PARAMETERS = 10_000
"""Greatest number of recorded hyper-parameters.

Containers that share parts could otherwise unfold without end.
"""

_MAX_DEPTH = 16  # levels of lists in a text
_MAX_TEXT = 1000  # characters of a list or of an object's repr; texts are never cut
_MAX_INT = 1000  # bits; Python refuses to write out ints of more than some thousand digits


def flatten(params: Any) -> dict[str, CustomValue]:
    """Convert hyper-parameters to a flat dict with an entry per leaf, in order.

    There are at most :data:`MAX_PARAMETERS` entries.

    ``params`` is a mapping, ``Namespace``, dataclass or OmegaConf container, nested to any depth.
    Keys that begin with ``_`` are skipped at every level (``LightningCLI`` adds ``_instantiator``).
    Values become int, finite float or str: ``None``, NaN and infinities become text; a tensor of
    one element its number; a module its class and number of parameters; a function or class its
    name; an empty container ``{}``.
    """
    parameters = leaves(params, _items, empty="{}")
    flat = {key: plain_value(value) for key, value in islice(parameters, MAX_PARAMETERS)}
    if next(parameters, None) is not None:
        _LOG.warning("only the first %d hyper-parameters are recorded", MAX_PARAMETERS)
    return flat


def _items(value: Any) -> Items | None:
    """Return a container's keys and values, without hidden keys; ``None`` for a leaf."""
    items = mapping_items(value)
    if items is None:
        items = field_items(value)
    if items is None and type(value).__name__ == "Namespace" and hasattr(value, "__dict__"):
        items = mapping_items(vars(value))
    if items is None and _is_list(value):
        children = list(islice(value, MAX_PARAMETERS))
        if any(map(_has_keys, children)):
            items = [(str(index), child) for index, child in enumerate(children)]
    if items is None:
        return None
    return [(key, child) for key, child in items if not key.startswith("_")]


def _has_keys(value: Any) -> bool:
    is_dataclass = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return isinstance(value, Mapping) or is_dataclass or type(value).__name__ == "Namespace"


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or type(value).__name__ == "ListConfig"


def plain_value(value: Any) -> CustomValue:
    """Convert a hyper-parameter to an int, float or str, as :func:`flatten` does.

    A list or set becomes a text of at most 1,000 characters.
    """
    return value_or_default(_type_name(type(value)), _readable, value)


def _readable(value: Any) -> CustomValue:
    if isinstance(value, enum.Enum):
        return utf8_text(value.name)
    if isinstance(value, (int, float)):
        return _readable_number(value)
    if isinstance(value, str):
        return utf8_text(str(value))
    # before its attributes are asked for: a module's class has those of a module
    if isinstance(value, type):
        return _type_name(value)
    if isinstance(value, os.PathLike):
        return utf8_text(str(os.fspath(value)))
    if hasattr(value, "named_parameters") and hasattr(value, "forward"):
        count = sum(parameter.numel() for parameter in value.parameters())
        return f"{_type_name(value)} ({count} parameters)"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return _readable_array(value)
    return _readable_object(value)


def _readable_number(value: int | float) -> int | float | str:
    """Return a number; convert NaN, infinity and very large ints to text."""
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return str(float(value))
    number = int(value)
    if number.bit_length() <= _MAX_INT:
        return number
    return f"an int of {number.bit_length()} bits"


def _readable_array(value: Any) -> CustomValue:
    """Return the only number of an array, or a text with its shape and dtype."""
    if math.prod(value.shape) == 1:
        return plain_value(value.item())
    dtype = str(value.dtype).removeprefix("torch.")
    return f"{_type_name(value)}(shape={tuple(value.shape)}, dtype={dtype})"


def _readable_object(value: Any) -> str:
    if hasattr(value, "func") and hasattr(value, "keywords"):  # functools.partial
        return f"partial({_type_name(value.func)})"
    if hasattr(value, "__qualname__"):
        return _type_name(value)
    if _is_list(value) or isinstance(value, (set, frozenset)):
        return utf8_text(_cut("".join(_list_text(value, _MAX_TEXT + 1, 0))))
    # those with keys are too deep to unfold
    text = _type_name(value) if _has_keys(value) else repr(value)
    # no two runs share an address
    if " at 0x" in text:
        return _type_name(value)
    return utf8_text(_cut(text))


def _list_text(values: Any, room: int, depth: int) -> Iterator[str]:
    """Yield chunks of a list's text, up to ``room`` characters in all.

    A list may contain itself, or a million elements.
    """
    yield "["
    room -= 1
    for index, value in enumerate(values):
        if index:
            yield ", "
        if room <= 0:
            return
        is_inner = _is_list(value) and depth < _MAX_DEPTH
        for chunk in _list_text(value, room, depth + 1) if is_inner else [_element_text(value)]:
            yield chunk
            room -= len(chunk)
    yield "]"


def _element_text(value: Any) -> str:
    if _is_list(value):
        return "[…]"
    return repr(plain_value(value))


def _cut(text: str) -> str:
    if len(text) <= _MAX_TEXT:
        return text
    return text[:_MAX_TEXT] + "…"


def _type_name(value: Any) -> str:
    named = value if hasattr(value, "__qualname__") else type(value)
    return utf8_text(str(named.__qualname__))
