"""Attributes of a node: any Python value in a form that is small and plain enough for the reader.

MindInsight drops an attribute of more than 1,024 serialized bytes, so a larger one becomes a shortened text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from mindsummary_lightning.graph.edge_types import data_type_of_torch
from mindsummary_lightning.values.graph_nodes import Attribute, AttributeValue

__all__ = ["attribute_value", "attributes_of"]

_MAX_NUMBERS = 50  # 16 bytes each, at most
_MAX_TEXT_BYTES = 480
_MAX_ATTRIBUTES = 64
_INT64 = range(-(2**63), 2**63)


def attributes_of(properties: Iterable[tuple[str, Any]]) -> tuple[Attribute, ...]:  # Any: see attribute_value
    """Attributes from names and values, at most 64 of them."""
    return tuple(Attribute(_text(name), attribute_value(value)) for name, value in properties)[:_MAX_ATTRIBUTES]


def attribute_value(value: Any) -> AttributeValue:  # Any: arguments and properties of any module
    """A value of the format whose encoding is below 1,024 bytes.

    Numbers, dtypes, ``None`` and tuples of at most 50 of them keep their type, anything else becomes a text.
    """
    if isinstance(value, (tuple, list)) and len(value) <= _MAX_NUMBERS and all(map(_is_number, value)):
        return tuple(map(_number, value))
    return _number(value) if _is_number(value) else _text(value)


def _is_number(value: Any) -> bool:
    if isinstance(value, int):
        return value in _INT64
    return value is None or isinstance(value, (float, torch.dtype))


def _number(value: Any) -> AttributeValue:
    if isinstance(value, torch.dtype):
        return data_type_of_torch(value) or str(value)  # one that the format does not have is 0
    if value is None or isinstance(value, bool):
        return value
    return int(value) if isinstance(value, int) else float(value)  # of enums and other subclasses


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        value = f"tensor of shape {tuple(value.shape)}, {value.dtype}"  # its values may be on another device
    try:
        text = str(value)
    except Exception:  # a user's __str__ may do anything
        text = type(value).__name__
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= _MAX_TEXT_BYTES:
        return encoded.decode()
    return encoded[:_MAX_TEXT_BYTES].decode("utf-8", "ignore") + "..."
