"""Conversion of numbers to scalar and tensor values, by the rules of MindSpore's recorder."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindsummary_lightning.conversion.arrays import to_array
from mindsummary_lightning.errors import RecordTooLargeError
from mindsummary_lightning.values import Tensor, data_type_of
from mindsummary_lightning.values.limits import MAX_ELEMENTS


def to_scalar(value: Any) -> float:
    """The one number that ``value`` holds, as a Python float.

    Args:
        value: anything that ``to_array`` accepts, of exactly one element and any number of dimensions.

    Returns:
        Its value; NaN and the infinities are kept. The file keeps it as float32.

    Raises:
        TypeError: ``value`` holds no real number.
        ValueError: it holds none or several.
    """
    if type(value) is float:
        return value
    array = to_array(value)
    if array.size != 1:
        raise ValueError(f"a scalar needs exactly one element, found {array.size} in shape {array.shape}")
    return float(array.item())


def to_tensor(value: Any) -> Tensor:
    """A tensor value: every element as float32, with the name of the dtype it had.

    Args:
        value: anything that ``to_array`` accepts, of at least one dimension and at most 10,000,000 elements.

    Returns:
        A value with memory of its own. Elements beyond float32 become infinite, integers beyond 2**24 lose digits, and
        bfloat16 is named float32 (MindInsight does not know it).

    Raises:
        TypeError: ``value`` holds no real numbers.
        ValueError: it has no dimension.
        RecordTooLargeError: it has more than 10,000,000 elements, which MindInsight does not show.
    """
    array = to_array(value)
    if array.ndim == 0:
        raise ValueError("a tensor needs at least one dimension, found a single number: record it as a scalar")
    if array.size > MAX_ELEMENTS:
        raise RecordTooLargeError(
            f"a tensor of shape {array.shape} has {array.size} elements; MindInsight shows at most {MAX_ELEMENTS}: "
            f"record a part of it or its histogram"
        )
    with np.errstate(over="ignore"):
        return Tensor(array, data_type_of(array.dtype))
