"""Data types of tensors and graph edges in summary files.

Numbers and names are those of MindInsight 2.3.1 and MindSpore 2.7.0.
"""

from __future__ import annotations

import enum

import numpy as np


class DataType(enum.IntEnum):
    """Data types of tensors, graph attributes and graph edges in summary files.

    They are named ``DT_...`` in the protobuf definition.

    Numbers from 43 on are MindSpore's; MindInsight shows them as undefined.
    """

    UNDEFINED = 0
    BOOL = 1
    INT8 = 2
    INT16 = 3
    INT32 = 4
    INT64 = 5
    UINT8 = 6
    UINT16 = 7
    UINT32 = 8
    UINT64 = 9
    FLOAT16 = 10
    FLOAT32 = 11
    FLOAT64 = 12
    STRING = 13
    TENSOR = 14
    GRAPH = 15
    BOOLS = 16
    INTS8 = 17
    INTS16 = 18
    INTS32 = 19
    INTS64 = 20
    UINTS8 = 21
    UINTS16 = 22
    UINTS32 = 23
    UINTS64 = 24
    FLOATS16 = 25
    FLOATS32 = 26
    FLOATS64 = 27
    STRINGS = 28
    TENSORS = 29
    GRAPHS = 30
    TUPLE = 31
    LIST = 32
    DICT = 33
    NONE = 34
    SYM_INST = 35
    BASE_INT = 36
    BASE_UINT = 37
    BASE_FLOAT = 38
    TYPE = 39
    ANYTHING = 40
    REFKEY = 41
    REF = 42
    COMPLEX64 = 43
    COMPLEX128 = 44
    BASE_COMPLEX = 45
    BFLOAT16 = 46
    BFLOATS16 = 47
    INT4 = 48
    SLICE = 49


_OF_NUMPY = {
    kind.name.lower(): kind for kind in DataType if DataType.BOOL <= kind <= DataType.FLOAT64
}


def data_type_of(dtype: np.dtype) -> DataType:
    """Return the data type with which summary files store a NumPy dtype.

    Raises:
        TypeError: summary files have no number for the dtype (complex, text, objects, ...).
    """
    try:
        return _OF_NUMPY[dtype.name]
    except KeyError:
        raise TypeError(
            f"dtype must be one of {', '.join(_OF_NUMPY)} for summary files, got {dtype}"
        ) from None
