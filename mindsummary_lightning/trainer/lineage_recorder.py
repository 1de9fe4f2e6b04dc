"""Writing of a run's lineage: when, and with what; shared by the collector and the lineage callbacks.

What is known is written at the start, at each checkpoint and at the end, so that a killed run keeps its lineage;
results of evaluations also in between, but not every few steps: each time, the file is replaced and fsynced.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mindsummary_lightning.conversion.numeric import finite_metrics, metric_json
from mindsummary_lightning.dataset.pipeline import dataset_graph
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.trainer.hook_guard import HookGuard, guarded_hooks
from mindsummary_lightning.trainer.trainer_info import (
    environment,
    evaluation_dataset,
    first_learning_rates,
    hyperparameters,
    learning_rates,
    settings,
    train_lineage,
)
from mindsummary_lightning.trainer.trainer_state import evaluation, training_loader
from mindsummary_lightning.values import EvaluationInfo, RunInfo, UserDefinedInfo
from mindsummary_lightning.values.lineage_info import CustomValue

_BETWEEN_EVALUATIONS_S = 10.0


class LineageRecorder:
    """Writes the lineage of one run; ``custom`` data override everything else, ``timer`` is a monotonic clock."""

    def __init__(
        self,
        record: RunRecorder,
        custom: Mapping[str, CustomValue] | None = None,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self.record = record
        self._custom = dict(custom or {})
        self._timer = timer
        self.first_rates: list[float] = []  # that each parameter group was made with
        self._has_scheduled = False  # whether the rate has been another one
        self._metrics: dict[str, dict[str, float]] = {}  # of the newest evaluation of each kind
        self._before: dict[str, Any] = {}
        # Kind, loaders and most batches of each, of an evaluation that is not written yet.
        self._waiting: tuple[str, Any, list[float]] | None = None
        self._next_evaluation = -math.inf

    def custom(self, trainer: Any, module: Any) -> None:
        """Write settings, hyper-parameters and the custom data, the last above the first, and the environment."""
        data = {**settings(trainer, self.first_rates), **hyperparameters(trainer, module), **self._custom}
        if data:
            self.record.write_lineage(UserDefinedInfo(data))
        info = {name: value for name, value in environment(trainer).items() if name not in data}
        if info:
            self.record.write_lineage(RunInfo(info))

    def training_begins(self, trainer: Any, saved_rates: Sequence[float]) -> None:
        """Determine the learning rates that the optimizers were made with: ``saved_rates`` of a checkpoint, if any."""
        self.first_rates = list(saved_rates) or first_learning_rates(trainer)

    def training(self, trainer: Any, module: Any, loss: float | None = None, epochs: int | None = None) -> None:
        """Write what is known of the training job now; ``loss`` and ``epochs`` (done) as far as there are any."""
        first_rate = next(iter(self.first_rates), None)
        self.record.write_lineage(train_lineage(trainer, module, loss, epochs, first_rate))
        rates = learning_rates(trainer)
        self._has_scheduled |= bool(rates) and rates[0] != first_rate
        if self._has_scheduled and rates:
            self.record.write_lineage(UserDefinedInfo({"final_learning_rate": rates[0]}))

    def dataset(self, trainer: Any) -> None:
        """Write the training data pipeline, if it is known."""
        graph = dataset_graph(training_loader(trainer))
        if graph is not None:
            self.record.write_lineage(graph)

    def evaluation_begins(self, trainer: Any) -> None:
        """Remember which metrics there are, to tell the evaluation's own from those of training."""
        self._before = dict(trainer.callback_metrics)

    def evaluation_ends(self, trainer: Any) -> None:
        """Take the evaluation's metrics; they are written now, or ten seconds after the last ones were.

        ``metric`` and ``valid_dataset`` are those of the last evaluation. Metrics that only evaluations of another
        kind have found become custom data, under their own names.
        """
        # During an evaluation the Trainer replaces the tensors of the evaluation's metrics and leaves the others.
        metrics = dict(trainer.callback_metrics)
        found = finite_metrics({name: metrics[name] for name in metrics if self._before.get(name) is not metrics[name]})
        self._before = {}
        if not found:
            return
        waiting = evaluation(trainer)
        if self._waiting is not None and self._waiting[0] != waiting[0]:
            self.flush()
        self._metrics.setdefault(waiting[0], {}).update(found)
        self._waiting = waiting
        self.flush_when_due()

    def flush_when_due(self) -> None:
        """Write the evaluation that waits, if the last one is ten seconds old; cheap, for every batch."""
        if self._waiting is not None and self._timer() >= self._next_evaluation:
            self.flush()

    def flush(self) -> None:
        """Write the evaluation that waits, if one does."""
        if self._waiting is None:
            return
        (kind, loaders, batches), self._waiting = self._waiting, None
        path, size = evaluation_dataset(loaders, batches)
        newest = self._metrics[kind]
        self.record.write_lineage(EvaluationInfo(metric_json(newest), path, size))
        others = {name: value for metrics in self._metrics.values() for name, value in metrics.items()}
        custom: dict[str, CustomValue] = {name: value for name, value in others.items() if name not in newest}
        if custom:
            self.record.write_lineage(UserDefinedInfo(custom))
        self._next_evaluation = self._timer() + _BETWEEN_EVALUATIONS_S


@guarded_hooks
class EvaluationHooks:
    """Hooks around a validation or test; the class that mixes them in gives the recorder."""

    _guard: HookGuard

    def _evaluation_recorder(self) -> LineageRecorder | None:
        """Where evaluations are recorded, or ``None`` if they are not."""
        raise NotImplementedError

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Remember the metrics from before the evaluation."""
        recorder = self._evaluation_recorder()
        if recorder is not None and not trainer.sanity_checking:
            recorder.evaluation_begins(trainer)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Record the evaluation's metrics as evaluation lineage."""
        recorder = self._evaluation_recorder()
        if recorder is not None and not trainer.sanity_checking:
            recorder.evaluation_ends(trainer)

    on_test_start, on_test_end = on_validation_start, on_validation_end
