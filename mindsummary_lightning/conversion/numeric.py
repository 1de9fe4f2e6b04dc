"""Convert numbers to scalars, tensors and lineage metrics.

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
    """Convert a number, or a tensor or array with one element, to a float.

    NaN and the infinities are kept.

    Raises:
        TypeError: ``value`` holds no real number.
        ValueError: ``value`` holds no number or several numbers, or an int too large for a float.
    """
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise ValueError(
                f"an int of {value.bit_length()} bits is too large for a float"
            ) from None
    array = to_array(value)
    if array.size != 1:
        raise ValueError(
            f"a scalar needs exactly one element, found {array.size} in shape {array.shape}"
        )
    return float(array.item())


def to_tensor(value: Any) -> Tensor:
    """Convert an array or tensor to a recorded tensor of float32 elements.

    The name of the original dtype is kept. Elements beyond float32 become infinite, integers beyond
    2**24 lose digits, and bfloat16 is named float32 (MindInsight does not know it).

    Raises:
        TypeError: ``value`` holds no real numbers.
        ValueError: ``value`` has no dimension.
        RecordTooLargeError: ``value`` has more than 10,000,000 elements, which MindInsight does not
            show.
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
    """Return the metrics that are a single finite number, by name.

    Nested mappings get ``outer/inner`` keys; all other values are skipped.
    """
    numbers = {
        name: value_or_default(math.nan, to_scalar, value) for name, value in leaves(metrics)
    }
    return {name: number for name, number in numbers.items() if math.isfinite(number)}


def metric_json(metrics: Mapping[str, float]) -> str:
    """Convert metrics to the JSON text of an object.

    NaN is not allowed, because it is not valid JSON: the browser would show the lineage of no run.
    """
    return json.dumps(dict(metrics), allow_nan=False)
