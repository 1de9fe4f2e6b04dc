"""Metrics as evaluation lineage keeps them: a JSON object of finite numbers.

A NaN in it is no JSON, and the browser would then show the lineage of no run at all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from mindsummary_lightning.conversion.numeric import to_scalar
from mindsummary_lightning.values.text import utf8_text

__all__ = ["finite_metrics", "metric_json"]

_DEEPEST = 16  # levels; a mapping that holds itself ends here


def finite_metrics(metrics: Mapping[Any, Any]) -> dict[str, float]:
    """The metrics that are one finite number each; nested mappings become ``outer/inner`` keys, all else is left out.

    Args:
        metrics: names to numbers, tensors of one element, or mappings of these.
    """
    kept: dict[str, float] = {}
    _gather("", metrics, 0, kept)
    return kept


def _gather(prefix: str, metrics: Mapping[Any, Any], depth: int, kept: dict[str, float]) -> None:
    for key, value in metrics.items():
        try:
            name = prefix + utf8_text(str(key))
            if not isinstance(value, Mapping):
                number = to_scalar(value)
                if math.isfinite(number):
                    kept[name] = number
            elif depth < _DEEPEST:
                _gather(f"{name}/", value, depth + 1, kept)
        except Exception:  # whatever a user's object does when it is read, the other metrics are kept
            continue


def metric_json(metrics: Mapping[str, float]) -> str:
    """The metrics as the JSON text of an object."""
    return json.dumps(dict(metrics), allow_nan=False)
