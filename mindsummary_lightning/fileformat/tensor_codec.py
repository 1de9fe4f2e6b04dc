"""Codec of tensors: the one message that summary values, landscapes and graph attributes share.

Whatever the dtype, elements are stored as float32 in ``float_data``: the reader ignores every other data field.
"""

from __future__ import annotations

import numpy as np

from mindsummary_lightning.fileformat._proto import anf_ir_pb2
from mindsummary_lightning.fileformat.framing import Buffer
from mindsummary_lightning.fileformat.wire import length_delimited, varint
from mindsummary_lightning.values import DataType, Tensor

_DIMS, _DATA_TYPE, _FLOAT_DATA = 1, 2, 3
_LITTLE_FLOAT32 = np.dtype("<f4")

_DATA_FIELDS = ("float_data", "double_data", "int64_data", "int32_data", "uint64_data")


def encode_tensor(tensor: Tensor) -> list[Buffer]:
    """A TensorProto in chunks; the elements are a view of the tensor's memory, not a copy."""
    head = b"".join(varint(_DIMS << 3) + varint(length) for length in tensor.data.shape)
    head += varint(_DATA_TYPE << 3) + varint(tensor.data_type)
    if not tensor.data.size:
        return [head]
    elements = tensor.data.astype(_LITTLE_FLOAT32, copy=False).reshape(-1).view(np.uint8).data
    return [head + length_delimited(_FLOAT_DATA, len(elements)), elements]


def decode_tensor(message: anf_ir_pb2.TensorProto) -> Tensor:
    """A TensorProto as a value; data fields that only other writers use are read too.

    Raises:
        ValueError: the dimensions do not fit the number of elements.
    """
    elements = np.empty(0, np.float32)
    for field in _DATA_FIELDS:
        stored = getattr(message, field)
        if len(stored):
            elements = np.array(stored, dtype=np.float32)
            break
    shape = tuple(message.dims)
    if int(np.prod(shape, dtype=object)) != elements.size:
        raise ValueError(f"tensor of dims {shape} holds {elements.size} elements")
    return Tensor(elements.reshape(shape), DataType(message.data_type))
