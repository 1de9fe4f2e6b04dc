"""Details of a node in the terms of the format.

They are its operation, its attributes, and the type of its result.

MindInsight drops an attribute of more than 1,024 serialized bytes, so a larger one becomes a
shortened text.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from mindsummary_lightning.conversion.flattening import value_or_default
from mindsummary_lightning.values.data_types import DataType
from mindsummary_lightning.values.graph_nodes import (
    Attribute,
    AttributeValue,
    GraphType,
    TensorType,
    TupleType,
)
from mindsummary_lightning.values.text import utf8_text

# Any, in this module: whatever a model computes or is made of.
_MAX_TUPLE_ELEMENTS = 64
_MAX_NUMBERS = 50  # 16 bytes each, at most
_MAX_TEXT_CHARACTERS = 240  # 4 bytes each, at most
# PyTorch names functions and classes alike but for case, underscores and "Loss"; these are the
# others.
_CLASSES = {name.lower(): name for name, kind in vars(nn).items() if isinstance(kind, type)} | {
    "batchnorm": "BatchNorm",
    "binarycrossentropy": "BCELoss",
    "binarycrossentropywithlogits": "BCEWithLogitsLoss",
    "instancenorm": "InstanceNorm",
    "multiheadattentionforward": "MultiheadAttention",
    "rnnrelu": "RNN",
    "rnntanh": "RNN",
}


@functools.lru_cache(maxsize=1024)
def familiar_name(function: str, module_class: str | None) -> str:
    """The operation type of a function (``conv2d``, ``relu_``, ``__getitem__``).

    It may be called by a torch.nn module or not.

    ``Conv2d`` for ``conv2d``, and the module's own class where it names a variant (``BatchNorm2d``
    for ``batch_norm``); the function's name where users know it by that (``matmul``, ``cat``,
    ``add_``).
    """
    if function.startswith("_"):
        function = function.strip("_")
    plain = function.replace("_", "")
    known = _CLASSES.get(plain) or _CLASSES.get(f"{plain}loss")
    if module_class is not None and known and module_class.startswith(known):
        return module_class
    return known or function or "op"


def tensor_type(tensor: torch.Tensor) -> TensorType:
    """Dtype and shape of a tensor.

    A nested tensor's lengths are -1, because they differ from row to row.
    """
    shape = (
        (tensor.size(0), *(-1,) * (tensor.dim() - 1)) if tensor.is_nested else tuple(tensor.shape)
    )
    return TensorType(_data_type(tensor.dtype), shape)


def graph_type(value: Any) -> GraphType | None:
    """The type of a tensor, or of the first 64 elements of a sequence or mapping.

    It is ``None`` for anything else.
    """
    if isinstance(value, torch.Tensor):
        return tensor_type(value)
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        return TupleType(
            tuple(graph_type(element) or DataType.NONE for element in value[:_MAX_TUPLE_ELEMENTS])
        )
    return None


def attributes_of(properties: Iterable[tuple[str, Any]], output: Any) -> tuple[Attribute, ...]:
    """Attributes of a node from names and values.

    A dtype of ``output`` that MindInsight shows as undefined (bfloat16, complex, float8) becomes
    ``output_dtype``.
    """
    attributes = [Attribute(name, attribute_value(value)) for name, value in properties]
    if (
        isinstance(output, torch.Tensor)
        and not DataType.UNDEFINED < _data_type(output.dtype) <= DataType.REF
    ):
        attributes.append(Attribute("output_dtype", str(output.dtype)))
    return tuple(attributes)


def attribute_value(value: Any) -> AttributeValue:
    """A value of the format whose encoding is below 1,024 bytes.

    Numbers, dtypes, ``None`` and tuples of at most 50 of them keep their type, anything else
    becomes a text.
    """
    if isinstance(value, (tuple, list)) and len(value) <= _MAX_NUMBERS:
        elements = tuple(map(_number_or_text, value))
        if not any(isinstance(element, str) for element in elements):
            return elements
    return _number_or_text(value)


def _number_or_text(value: Any) -> AttributeValue:
    if isinstance(value, torch.dtype):
        return _data_type(value) or str(value)  # one that the format does not have is 0
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int) and abs(value) < 2**63:
        return int(value)  # of an enum
    if isinstance(value, torch.Tensor):
        # its values may be on another device
        return f"tensor of shape {tuple(value.shape)}, {value.dtype}"
    text = utf8_text(value_or_default(type(value).__name__, str, value))
    if len(text) <= _MAX_TEXT_CHARACTERS:
        return text
    return f"{text[:_MAX_TEXT_CHARACTERS]}..."


@functools.cache
def _data_type(dtype: torch.dtype) -> DataType:
    """The format's type of a torch dtype.

    It is ``UNDEFINED`` for a dtype that the format lacks (float8 and the like).
    """
    return DataType.__members__.get(str(dtype).removeprefix("torch.").upper(), DataType.UNDEFINED)
