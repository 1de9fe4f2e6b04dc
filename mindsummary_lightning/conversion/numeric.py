"""Conversion of numbers to scalars, tensors, and the metrics of lineage.

The rules are those of MindSpore's recorder.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from mindsummary_lightning.conversion.arrays import to_array
from mindsummary_lightning.conversion.flattening import leaves, value_or_default
from mindsummary_lightning.errors import RecordTooLargeError
from mindsummary_lightning.values import Tensor, data_type_of
from mindsummary_lightning.values.limits import MAX_ELEMENTS


def to_scalar(value: Any) -> float:
    """The single number of ``value``, in any number of dimensions.

    NaN and the infinities are kept.

    Raises:
        TypeError: ``value`` holds no real number.
        ValueError: it holds none or several.
    """
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"an int of {value.bit_length()} bits is beyond every float") from None
    array = to_array(value)
    if array.size != 1:
        raise ValueError(
            f"a scalar needs exactly one element, found {array.size} in shape {array.shape}"
        )
    return float(array.item())


def to_tensor(value: Any) -> Tensor:
    """A tensor value: every element as float32, with the name of the dtype it had.

    Elements beyond float32 become infinite, integers beyond 2**24 lose digits, and bfloat16 is
    named float32 (MindInsight does not know it).

    Raises:
        TypeError: ``value`` holds no real numbers.
        ValueError: it has no dimension.
        RecordTooLargeError: it has more than 10,000,000 elements, which MindInsight does not show.
    """
    array = to_array(value)
    if array.ndim == 0:
        raise ValueError(
            "a tensor needs at least one dimension, found a single number: record it as a scalar"
        )
    if array.size > MAX_ELEMENTS:
        raise RecordTooLargeError(
            f"a tensor of shape {array.shape} has {array.size} elements; MindInsight shows at most "
            f"{MAX_ELEMENTS}: record a part of it or its histogram"
        )
    with np.errstate(over="ignore"):
        return Tensor(array, data_type_of(array.dtype))


def finite_metrics(metrics: Mapping[Any, Any]) -> dict[str, float]:
    """The metrics that are a single finite number.

    Nested mappings become ``outer/inner`` keys; the rest is skipped.
    """
    numbers = {
        name: value_or_default(math.nan, to_scalar, value) for name, value in leaves(metrics)
    }
    return {name: number for name, number in numbers.items() if math.isfinite(number)}


def metric_json(metrics: Mapping[str, float]) -> str:
    """The metrics as the JSON text of an object.

    A NaN is not JSON: the browser would show the lineage of no run.
    """
    return json.dumps(dict(metrics), allow_nan=False)
