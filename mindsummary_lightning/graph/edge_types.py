"""Types on the edges: tensors, tuples and numbers of PyTorch in the terms of the summary format."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import torch

from mindsummary_lightning.values.data_types import DataType
from mindsummary_lightning.values.graph_nodes import GraphType, TensorType, TupleType

__all__ = ["data_type_of_torch", "graph_type", "tensor_type", "unnamed_dtype"]

_MAX_TUPLE_ELEMENTS = 64
_LAST_NAMED_BY_MINDINSIGHT = DataType.REF

_OF_TORCH: dict[torch.dtype, DataType] = {
    torch.bool: DataType.BOOL,
    torch.int8: DataType.INT8,
    torch.int16: DataType.INT16,
    torch.int32: DataType.INT32,
    torch.int64: DataType.INT64,
    torch.uint8: DataType.UINT8,
    torch.uint16: DataType.UINT16,
    torch.uint32: DataType.UINT32,
    torch.uint64: DataType.UINT64,
    torch.float16: DataType.FLOAT16,
    torch.float32: DataType.FLOAT32,
    torch.float64: DataType.FLOAT64,
    torch.bfloat16: DataType.BFLOAT16,
    torch.complex64: DataType.COMPLEX64,
    torch.complex128: DataType.COMPLEX128,
}


def data_type_of_torch(dtype: torch.dtype) -> DataType:
    """The format's type of a torch dtype; ``UNDEFINED`` for one without a number (float8 and the like)."""
    return _OF_TORCH.get(dtype, DataType.UNDEFINED)


def tensor_type(tensor: torch.Tensor) -> TensorType:
    """Dtype and shape of a tensor."""
    return TensorType(data_type_of_torch(tensor.dtype), _shape(tensor))


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
        elements = (graph_type(element) for element in islice(value, _MAX_TUPLE_ELEMENTS))
        return TupleType(tuple(DataType.NONE if element is None else element for element in elements))
    if isinstance(value, bool):
        return DataType.BOOL
    if isinstance(value, int):
        return DataType.INT64
    if isinstance(value, float):
        return DataType.FLOAT64
    return DataType.STRING if isinstance(value, str) else None


def unnamed_dtype(value: Any) -> str | None:  # Any: whatever a model computes
    """Name of a tensor's dtype where MindInsight would show it as undefined (bfloat16, complex, float8)."""
    if not isinstance(value, torch.Tensor):
        return None
    data_type = data_type_of_torch(value.dtype)
    is_shown = data_type is not DataType.UNDEFINED and data_type <= _LAST_NAMED_BY_MINDINSIGHT
    return None if is_shown else str(value.dtype)


def _shape(tensor: torch.Tensor) -> tuple[int, ...]:
    if tensor.is_nested:  # its lengths differ from row to row
        return (tensor.size(0), *(-1 for _ in range(tensor.dim() - 1)))
    return tuple(tensor.shape)
