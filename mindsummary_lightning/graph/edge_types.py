"""Types on the edges: tensors, tuples and numbers of PyTorch in the terms of the summary format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from mindsummary_lightning.values.data_types import DataType
from mindsummary_lightning.values.graph_nodes import GraphType, TensorType, TupleType

__all__ = ["data_type_of_torch", "graph_type", "tensor_type", "unnamed_dtype"]

_MAX_TUPLE_ELEMENTS = 64
_LAST_NAMED_BY_MINDINSIGHT = DataType.REF
_OF_PYTHON = {bool: DataType.BOOL, int: DataType.INT64, float: DataType.FLOAT64, str: DataType.STRING}


def data_type_of_torch(dtype: torch.dtype) -> DataType:
    """The format's type of a torch dtype; ``UNDEFINED`` for one that it does not have (float8 and the like)."""
    return DataType.__members__.get(str(dtype).removeprefix("torch.").upper(), DataType.UNDEFINED)


def tensor_type(tensor: torch.Tensor) -> TensorType:
    """Dtype and shape of a tensor; a nested tensor's lengths are -1, because they differ from row to row."""
    shape = (tensor.size(0), *(-1,) * (tensor.dim() - 1)) if tensor.is_nested else tuple(tensor.shape)
    return TensorType(data_type_of_torch(tensor.dtype), shape)


def graph_type(value: Any) -> GraphType | None:  # Any: whatever a model computes
    """The type of a computed value.

    Args:
        value: tensor, number, text, or a sequence or mapping of these (at most 64 elements are kept).

    Returns:
        ``None`` for a value that has no type in the format.
    """
    if isinstance(value, torch.Tensor):
        return tensor_type(value)
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        return TupleType(tuple(graph_type(element) or DataType.NONE for element in value[:_MAX_TUPLE_ELEMENTS]))
    return _OF_PYTHON.get(type(value))


def unnamed_dtype(value: Any) -> str | None:  # Any: whatever a model computes
    """Name of a tensor's dtype where MindInsight would show it as undefined (bfloat16, complex, float8)."""
    if not isinstance(value, torch.Tensor):
        return None
    data_type = data_type_of_torch(value.dtype)
    is_shown = data_type is not DataType.UNDEFINED and data_type <= _LAST_NAMED_BY_MINDINSIGHT
    return None if is_shown else str(value.dtype)
