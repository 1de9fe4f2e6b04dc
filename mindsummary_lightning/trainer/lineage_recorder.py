"""When a run's lineage is written, and with what: shared by the collector and the lineage callbacks.

What is known is written at the start, at each checkpoint and at the end, so that a killed run keeps its lineage; what
evaluations found also in between, but not every few steps: each time, the file is replaced and forced to the disk.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from mindsummary_lightning.conversion.metrics import finite_metrics, metric_json
from mindsummary_lightning.recording.summary_record import SummaryRecord
from mindsummary_lightning.trainer.trainer_info import (
    environment,
    evaluation_dataset,
    hyperparameters,
    train_lineage,
)
from mindsummary_lightning.values import DatasetGraph, EvaluationInfo, UserDefinedInfo
from mindsummary_lightning.values.lineage_info import CustomValue

__all__ = ["LineageRecorder"]

_LOG = logging.getLogger(__name__)

_BETWEEN_EVALUATIONS_S = 10.0


class LineageRecorder:
    """Writes the lineage of one run.

    Args:
        record: where it goes.
        custom: custom data that stands above everything found.
        timer: seconds that only grow.
    """

    def __init__(
        self,
        record: SummaryRecord,
        custom: Mapping[str, CustomValue] | None = None,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._record = record
        self._custom = dict(custom or {})
        self._timer = timer
        self._metrics: dict[str, float] = {}
        self._before: dict[str, Any] = {}
        self._evaluated: set[str] = set()
        self._has_evaluation = False
        self._loaders: Any = None
        self._next_evaluation = -math.inf

    def custom(self, trainer: Any, module: Any) -> None:
        """Write hyper-parameters, the environment and the custom data, the last above the first."""
        data = {**environment(trainer), **hyperparameters(trainer, module), **self._custom}
        if data:
            self._record.write_lineage(UserDefinedInfo(data))

    def training(self, trainer: Any, module: Any, loss: float | None = None, epochs: int | None = None) -> None:
        """Write what is known of the training job; ``loss`` and ``epochs`` (done) as far as there are any."""
        self._record.write_lineage(train_lineage(trainer, module, loss, epochs))

    def dataset(self, graph: DatasetGraph | None) -> None:
        """Write the data pipeline, if it is known."""
        if graph is not None:
            self._record.write_lineage(graph)

    def evaluation_begins(self, trainer: Any) -> None:
        """Remember which metrics there are, to tell the evaluation's own from those of training."""
        self._before = dict(trainer.callback_metrics)

    def evaluation_ends(self, trainer: Any, loaders: Any) -> None:
        """Take the evaluation's metrics; those of other evaluations of this run stay beside them.

        They are written at once, but not within ten seconds after others; then they wait for :meth:`flush_when_due`.
        """
        # During an evaluation the Trainer replaces the tensors of the evaluation's metrics and leaves the others.
        metrics = dict(trainer.callback_metrics)
        self._evaluated |= {name for name, value in metrics.items() if self._before.get(name) is not value}
        self._before = {}
        self._metrics.update(finite_metrics({name: metrics[name] for name in metrics if name in self._evaluated}))
        self._has_evaluation, self._loaders = True, loaders
        self.flush_when_due()

    def flush_when_due(self) -> None:
        """Write the evaluation that waits, if one does and the last one is ten seconds old; cheap, for every batch."""
        if self._has_evaluation and self._timer() >= self._next_evaluation:
            self.flush()

    def flush(self) -> None:
        """Write the evaluation that waits, if one does."""
        if not self._has_evaluation:
            return
        loaders, self._loaders, self._has_evaluation = self._loaders, None, False
        path, size = evaluation_dataset(loaders)
        self._record.write_lineage(EvaluationInfo(metric_json(self._metrics), path, size))
        self._next_evaluation = self._timer() + _BETWEEN_EVALUATIONS_S

    def status(self, status: str) -> None:
        """Write how the run ended."""
        self._record.write_lineage(UserDefinedInfo({"status": status}))
