"""Convert the type, attributes and result type of a node for summary files.

MindInsight drops an attribute of more than 1,024 serialized bytes, so a larger attribute becomes a
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
    """Return the name under which users know an operation, such as ``Conv2d``.

    ``function`` is the name of the torch function (``conv2d``, ``relu_``, ``__getitem__``), and
    ``module_class`` the torch.nn class that calls it, or ``None``.

    The result is ``Conv2d`` for ``conv2d``, and the module's own class if it names a variant
    (``BatchNorm2d`` for ``batch_norm``). It is the name of the function if users know the operation
    by it (``matmul``, ``cat``, ``add_``).
    """
    if function.startswith("_"):
        function = function.strip("_")
    plain = function.replace("_", "")
    known = _CLASSES.get(plain) or _CLASSES.get(f"{plain}loss")
    if module_class is not None and known and module_class.startswith(known):
        return module_class
    return known or function or "op"


def tensor_type(tensor: torch.Tensor) -> TensorType:
    """Return the dtype and shape of a tensor, as the type of a graph edge.

    The lengths of a nested tensor are -1 after the first, because they differ from row to row.
    """
    shape = (
        (tensor.size(0), *(-1,) * (tensor.dim() - 1)) if tensor.is_nested else tuple(tensor.shape)
    )
    return TensorType(_data_type(tensor.dtype), shape)


def graph_type(value: Any) -> GraphType | None:
    """Return the type of a tensor, sequence or mapping, as the type of a graph edge.

    The type of a sequence or mapping contains its first 64 elements. For anything else the result
    is ``None``.
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
    """Convert names and values to the attributes of a node.

    If MindInsight shows the dtype of ``output`` as undefined (bfloat16, complex, float8), the
    attribute ``output_dtype`` is added.
    """
    attributes = [Attribute(name, attribute_value(value)) for name, value in properties]
    if (
        isinstance(output, torch.Tensor)
        and not DataType.UNDEFINED < _data_type(output.dtype) <= DataType.REF
    ):
        attributes.append(Attribute("output_dtype", str(output.dtype)))
    return tuple(attributes)


def attribute_value(value: Any) -> AttributeValue:
    """Convert a value to an attribute that is encoded in less than 1,024 bytes.

    Numbers, dtypes, ``None`` and tuples of at most 50 such values keep their type, anything else
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
    """Return the data type with which summary files store a torch dtype.

    It is ``UNDEFINED`` for a dtype that summary files do not have (float8, for example).
    """
    return DataType.__members__.get(str(dtype).removeprefix("torch.").upper(), DataType.UNDEFINED)
