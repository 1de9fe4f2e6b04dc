"""Metrics as Lightning and its users log them -> tags and scalars."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from mindsummary_lightning.conversion.flattening import leaves
from mindsummary_lightning.conversion.numeric import to_scalar
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.values import SummaryValue

_MAX_EXACT = 2**53  # ints below it are floats


class MetricScalars:
    """Converts metrics, ``prefix/`` before each name; what is not a number is skipped as the record's policy says."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._tags: dict[str, str] = {}  # of the names seen so far: a training logs the same ones at every step

    def pairs(self, metrics: Any, record: RunRecorder) -> list[tuple[str, SummaryValue]]:
        """Tags and numbers, in order; mappings in mappings give ``outer/inner``."""
        tags = self._tags
        pairs: list[tuple[str, SummaryValue]] = []
        for name, value in metrics.items() if type(metrics) is dict else _items(metrics, record):
            kind = type(value)
            if name in tags and (kind is float or (kind is int and -_MAX_EXACT < value < _MAX_EXACT)):
                pairs.append((tags[name], float(value)))
            else:
                pairs.extend(self._convert(name, value, record))
        return pairs

    def _convert(self, name: Any, value: Any, record: RunRecorder) -> list[tuple[str, SummaryValue]]:
        pairs: list[tuple[str, SummaryValue]] = []
        for key, leaf in leaves({name: value}):
            tag = f"{self._prefix}/{key}" if self._prefix else key
            number = record.policy.converted("metric", tag, to_scalar, leaf, per_tag=True)
            if number is not None:
                pairs.append((tag, number))
                if key == name:
                    self._tags[key] = tag
        return pairs


def _items(metrics: Any, record: RunRecorder) -> Iterable[tuple[Any, Any]]:
    return record.policy.converted("metrics of", "log_metrics", lambda: dict(metrics).items()) or []


def without_added_epoch(metrics: Any) -> Any:
    """The metrics of a Trainer without the ``epoch`` that Lightning adds to them: an int, behind all others.

    ``logger_connector.log_metrics`` does so (lightning 2.4 to 2.6.6). What a user logs comes from there as a float.
    """
    if type(metrics) is dict and next(reversed(metrics), None) == "epoch" and type(metrics["epoch"]) is int:
        return {name: value for name, value in metrics.items() if name != "epoch"}
    return metrics


def checked_step(step: Any, last_step: int) -> int:
    """The step as an int; the one after the last where there is none, or none that can be read."""
    if type(step) is int:
        return step
    with contextlib.suppress(TypeError, ValueError, OverflowError, RuntimeError):
        return int(step)
    return last_step + 1
