"""Converts metrics that Lightning or the user logs to tags and scalars."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mindsummary_lightning.conversion.flattening import items_of, leaves
from mindsummary_lightning.conversion.numeric import to_scalar
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.trainer.trainer_frames import is_called_by_trainer
from mindsummary_lightning.values import SummaryValue

_MAX_EXACT = 2**53  # ints below it are floats


class MetricScalars:
    """Converts metrics to tags and numbers, with a prefix before every name.

    A value that is not a number is skipped or raises, as the record's options say.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        # of the names seen so far: a training logs the same ones at every step
        self._tags: dict[str, str] = {}

    def pairs(self, metrics: Any, record: RunRecorder) -> list[tuple[str, SummaryValue]]:
        """Return pairs of tag and number; nested mappings become tags ``outer/inner``."""
        tags = self._tags
        pairs: list[tuple[str, SummaryValue]] = []
        for name, value in metrics.items() if type(metrics) is dict else _items(metrics, record):
            kind = type(value)
            if name in tags and (
                kind is float or (kind is int and -_MAX_EXACT < value < _MAX_EXACT)
            ):
                pairs.append((tags[name], float(value)))
            else:
                pairs.extend(self._convert(name, value, record))
        return pairs

    def _convert(
        self, name: Any, value: Any, record: RunRecorder
    ) -> list[tuple[str, SummaryValue]]:
        pairs: list[tuple[str, SummaryValue]] = []
        if name == "":
            record.policy.warnings.warn(
                "metric without a name", "a metric without a name is not recorded. Give it a name"
            )
        for key, leaf in leaves({name: value}):
            tag = f"{self._prefix}{key}"
            number = record.policy.converted("metric", tag, to_scalar, leaf, per_tag=True)
            if number is not None:
                pairs.append((tag, number))
                if key == name:
                    self._tags[key] = tag
        return pairs


def _items(metrics: Any, record: RunRecorder) -> Iterable[tuple[Any, Any]]:
    return record.policy.converted("metrics of", "log_metrics", items_of, metrics) or []


def without_added_epoch(metrics: Any, logger: Any) -> Any:
    """Return the logged metrics without the ``epoch`` that Lightning adds.

    That ``epoch`` is an int and comes after all other metrics.

    ``logger_connector.log_metrics`` does so (lightning 2.4 to 2.6.6); what a user logs with
    ``self.log`` comes from there as a float. Calls from elsewhere are the user's: only theirs is
    the word on what they log.
    """
    if type(metrics) is not dict or "epoch" not in metrics:  # on the hot path of a training loop
        return metrics
    is_added = next(reversed(metrics)) == "epoch" and type(metrics["epoch"]) is int
    if is_added and is_called_by_trainer(logger):
        return {name: value for name, value in metrics.items() if name != "epoch"}
    return metrics


def checked_step(step: Any, last_step: int, record: RunRecorder) -> int | None:
    """Convert a step to an int; for ``None``, return the step after the last step.

    The result is ``None`` if the values are skipped with a warning.
    """
    if type(step) is int:
        return step
    return last_step + 1 if step is None else record.policy.step("step", "log_metrics", step)
