"""Metrics as evaluation lineage keeps them: a JSON object of finite numbers.

A NaN in it is not JSON, and the browser would then show the lineage of no run at all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from mindsummary_lightning.conversion.flattening import leaves, value_or_default
from mindsummary_lightning.conversion.numeric import to_scalar


def finite_metrics(metrics: Mapping[Any, Any]) -> dict[str, float]:
    """The metrics that are one finite number each; nested mappings become ``outer/inner`` keys, the rest is skipped.

    Args:
        metrics: names to numbers, tensors of one element, or mappings of these.
    """
    numbers = {name: value_or_default(math.nan, to_scalar, value) for name, value in leaves(metrics)}
    return {name: number for name, number in numbers.items() if math.isfinite(number)}


def metric_json(metrics: Mapping[str, float]) -> str:
    """The metrics as the JSON text of an object."""
    return json.dumps(dict(metrics), allow_nan=False)
