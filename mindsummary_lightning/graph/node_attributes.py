"""Attributes of a node: any Python value in a form that is small and plain enough for the reader.

MindInsight drops an attribute of more than 1,024 serialized bytes, so a larger one becomes a shortened text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from mindsummary_lightning.graph.edge_types import data_type_of_torch
from mindsummary_lightning.values.data_types import DataType
from mindsummary_lightning.values.graph_nodes import Attribute, AttributeValue

__all__ = ["attribute_value", "attributes_of"]

_MAX_VALUE_BYTES = 1024
_MAX_TEXT_BYTES = 480
_MAX_ATTRIBUTES = 64
_MAX_NESTING = 4
_INT64 = range(-(2**63), 2**63)


def attributes_of(properties: Iterable[tuple[str, Any]]) -> tuple[Attribute, ...]:  # Any: see attribute_value
    """Attributes from names and values, at most 64 of them."""
    found = [Attribute(_text(name), attribute_value(value)) for name, value in properties]
    return tuple(found[:_MAX_ATTRIBUTES])


def attribute_value(value: Any) -> AttributeValue:  # Any: arguments and properties of any module
    """A value of the format whose encoding is below 1,024 bytes.

    A dtype keeps its type; devices, layouts and other objects become text; a tuple or list that is too large becomes
    a text of its first elements.
    """
    plain = _plain(value, _MAX_NESTING)
    return plain if _encoded_bound(plain) <= _MAX_VALUE_BYTES else _text(plain)


def _plain(value: Any, nesting: int) -> AttributeValue:
    if value is None or isinstance(value, (bool, str)):
        return _text(value) if isinstance(value, str) else value
    if isinstance(value, int):
        return int(value) if value in _INT64 else _text(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, torch.Tensor):
        return f"tensor of shape {tuple(value.shape)}, {value.dtype}"  # its values may be on another device
    if isinstance(value, torch.dtype):
        data_type = data_type_of_torch(value)
        return str(value) if data_type is DataType.UNDEFINED else data_type
    if isinstance(value, (tuple, list)) and nesting and len(value) <= _MAX_VALUE_BYTES:
        return tuple(_plain(element, nesting - 1) for element in value)
    return _text(value)


def _encoded_bound(value: AttributeValue) -> int:
    """Upper bound of the bytes that a value takes in the file; only the codec knows the exact number."""
    if isinstance(value, str):
        return len(value.encode()) + 16
    if isinstance(value, tuple):
        return 16 + sum(map(_encoded_bound, value))
    return 16


def _text(value: Any) -> str:
    try:
        text = str(value)
    except Exception:  # a user's __str__ may do anything
        text = type(value).__name__
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= _MAX_TEXT_BYTES:
        return encoded.decode()
    return encoded[:_MAX_TEXT_BYTES].decode("utf-8", "ignore") + "..."
