"""Metrics as evaluation lineage keeps them: a JSON object of finite numbers.

A NaN in it is no JSON, and the browser would then show the lineage of no run at all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from mindsummary_lightning.arrays import scalar_of
from mindsummary_lightning.values.text import utf8_text

__all__ = ["finite_metrics", "metric_json"]


def finite_metrics(metrics: Mapping[Any, Any]) -> dict[str, float]:
    """The metrics that are one finite number each; nested mappings become ``outer/inner`` keys, all else is left out.

    Args:
        metrics: names to numbers, tensors of one element, or mappings of these.
    """
    kept: dict[str, float] = {}
    for key, value in metrics.items():
        name = utf8_text(str(key))
        if isinstance(value, Mapping):
            kept.update((f"{name}/{inner}", number) for inner, number in finite_metrics(value).items())
            continue
        try:
            number = scalar_of(value)
        except (TypeError, ValueError):
            continue
        if math.isfinite(number):
            kept[name] = number
    return kept


def metric_json(metrics: Mapping[str, float]) -> str:
    """The metrics as the JSON text of an object."""
    return json.dumps(dict(metrics), allow_nan=False)
