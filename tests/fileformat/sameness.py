"""Equality of values, bit for bit: NaN equals NaN, and arrays equal arrays.

Which NaN it is does not count: protobuf 3 without its C extension reads each as one and the same.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np


def same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        is_alike = one.dtype == other.dtype and one.shape == other.shape
        return is_alike and (one.tobytes() == other.tobytes() or _bytes(one) == _bytes(other))
    if isinstance(one, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if dataclasses.is_dataclass(one):
        return all(
            same(getattr(one, field.name), getattr(other, field.name))
            for field in dataclasses.fields(one)
        )
    return bool(one == other)


def _bytes(array: np.ndarray[Any, Any]) -> bytes:
    return (
        np.where(array == array, array, np.array(np.nan, array.dtype)).tobytes()
        if array.dtype.kind == "f"
        else array.tobytes()
    )
