"""Records how a run was made (its lineage) while a Trainer runs.

The collector and the lineage callbacks share it.

What is known is written at the start, at each checkpoint and at the end, so that a killed run keeps
its lineage; results of evaluations also in between, but not every few steps: each time, the file is
replaced and fsynced.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mindsummary_lightning.collection.loss import loss_of
from mindsummary_lightning.conversion.flattening import value_or_default
from mindsummary_lightning.conversion.numeric import finite_metrics, metric_json
from mindsummary_lightning.dataset.loader_sizes import UNKNOWN, CheckedSizes
from mindsummary_lightning.dataset.pipeline import dataset_graph
from mindsummary_lightning.graph.loss_name import WatchedLosses, loss_name
from mindsummary_lightning.reading.run_status import STARTED
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.trainer.checkpoint_state import save_rates
from mindsummary_lightning.trainer.hook_guard import HookGuard, guarded_hooks
from mindsummary_lightning.trainer.trainer_info import (
    CheckpointFile,
    KnownCheckpoints,
    absolute_path,
    arithmetic,
    earlier_checkpoint,
    environment,
    evaluation_dataset,
    first_learning_rates,
    first_rates_by_group,
    hyperparameters,
    learning_rates,
    settings,
    train_lineage,
)
from mindsummary_lightning.trainer.trainer_state import (
    epochs_done,
    evaluation,
    has_read_all,
    reads_in_turn,
    training_loader,
)
from mindsummary_lightning.values import EvaluationInfo, RunInfo, UserDefinedInfo
from mindsummary_lightning.values.events import LineageValue
from mindsummary_lightning.values.lineage_info import AddedEvaluation, CustomValue, DatasetGraph

_BETWEEN_EVALUATIONS_S = 10.0
# of manual optimization; each is observed, which takes about as long as a second step
_MOST_SILENT_BATCHES = 8


@dataclass(slots=True)
class _WaitingEvaluation:
    """An evaluation whose lineage is not written yet.

    Attributes:
        kind: ``validation`` or ``test``.
        loaders: its loader, or a list or dict of them.
        samples: number of samples that were read of each loader, ``None`` where it is not known.
        metrics: its metrics, together with the metrics of earlier evaluations that were not written
            either.
    """

    kind: str
    loaders: Any
    samples: list[int | None]
    metrics: dict[str, float]


class LineageRecorder:
    """Writes the lineage of a run: its settings, data, results and checkpoints.

    ``custom`` data override everything else; ``timer`` is a monotonic clock.

    Attributes:
        record: the record that the lineage is written with.
        records_training: whether it writes the training's lineage, and not only that of
            evaluations.
        read_loss: gives the loss of the last step, if there is one; may wait for it.
        first_rates: the learning rates that each parameter group was made with.
        awaits_loss: whether no batch of the fit has shown its loss, as one that ``training_step``
            skips does not.
    """

    def __init__(
        self,
        record: RunRecorder,
        custom: Mapping[str, CustomValue] | None = None,
        timer: Callable[[], float] = time.monotonic,
        records_training: bool = True,
    ) -> None:
        self.record = record
        self.records_training = records_training
        self.read_loss: Callable[[], Any] = lambda: None
        self._has_begun = self._has_saved_checkpoint = False
        self._checkpoints: Any = None  # the Trainer's first checkpoint callback
        self._best_path = ""  # as it was written last
        # of a callback that another fit has used
        self._earlier_checkpoint: CheckpointFile | None = None
        # that was saved when an exception ended the fit
        self._exception_checkpoint: str | None = None
        self._custom = dict(custom or {})
        self._timer = timer
        self.first_rates: list[float] = []
        self._has_scheduled = False  # whether the rate has been another one
        # the metrics when the evaluation that runs began
        self._before: dict[str, Any] | None = None
        self._has_all_batches = False  # whether that evaluation has seen all of its batches
        # of each loader of the present evaluation
        self._evaluated: dict[int, CheckedSizes | None] = {}
        self._waiting: _WaitingEvaluation | None = None
        self._drops_earlier_metrics = False  # those in the file are of another fit
        self._sizes: CheckedSizes | None = None  # from the first batch on
        self._data_graph: DatasetGraph | None = None
        self._watched: WatchedLosses | None = None  # until a batch has shown its loss
        self._losses: dict[str | None, None] = {}  # names of those of that batch, as an ordered set
        self.awaits_loss: bool = False
        self._batches_without_loss = 0  # since the fit began
        self._steps_before = 0  # as the Trainer counted them when the fit began
        self._next_evaluation = -math.inf

    def custom(
        self, trainer: Any, module: Any, with_run: bool = True, notes_end: bool = True
    ) -> None:
        """Write the custom data, the precision and the parameter groups.

        ``with_run``: write settings and the environment, too.

        ``notes_end``: how the run ends is going to be recorded, so that a run that has no end was
        killed.
        """
        data, info = dict(self._custom), arithmetic(trainer)
        if with_run:
            data = {
                **settings(trainer, self.first_rates),
                **hyperparameters(trainer, module),
                **data,
            }
            info |= environment(trainer)
            if notes_end:
                info["status"] = STARTED
        info = {name: value for name, value in info.items() if name not in data}
        self.record.write_lineage(
            *([UserDefinedInfo(data)] if data else ()), *([RunInfo(info)] if info else ())
        )

    def call_begins(self) -> None:
        """Prepare for a call of the Trainer, which may be a fit or an evaluation."""
        self._has_begun = self._has_saved_checkpoint = False
        self._exception_checkpoint = None

    def fit_begins(self, trainer: Any) -> None:
        """Begin a fit.

        A fit that begins at the first step has no metrics yet, whatever the file says.
        """
        self._drops_earlier_metrics = trainer.global_step == 0

    def training_begins(self, trainer: Any, saved_rates: Sequence[float]) -> None:
        """Determine the learning rates that the optimizers were made with.

        ``saved_rates`` are the rates in the checkpoint, if there is one.
        """
        self.fit_begins(trainer)
        self._has_begun, self._checkpoints = True, trainer.checkpoint_callback
        self._best_path = getattr(self._checkpoints, "best_model_path", "")
        self._earlier_checkpoint = earlier_checkpoint(trainer)
        self.first_rates = list(saved_rates) or first_learning_rates(trainer)
        self._sizes, self._data_graph, self._losses = None, None, {}
        self.awaits_loss, self._batches_without_loss = True, 0
        self._steps_before = trainer.global_step

    def begin_batch(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> None:
        """At the start of a batch, write the lineage if a checkpoint was saved.

        Also check the number of batches that the loader states.
        """
        self.write_saved_checkpoint(trainer, module)
        self.flush_when_due()
        if self.awaits_loss and self._sizes is None:
            loader = training_loader(trainer)
            self._sizes = value_or_default(
                None, CheckedSizes, loader, batch, trainer.num_training_batches
            )
            self._data_graph = dataset_graph(loader, batch)
            self._stop_watching()
            self._watched = WatchedLosses(trainer.lightning_module)
        if self._sizes is not None:
            self._sizes.see(batch_idx, batch)
        if batch_idx == 0:
            self.record.write_lineage(*self._joined_groups(trainer))

    def end_epoch(self, trainer: Any) -> None:
        """At the end of an epoch, note whether the loader was read completely."""
        if self._sizes is not None and has_read_all(trainer):
            self._sizes.end_epoch()

    def loss_computed(self, loss: Any, observed: Mapping[int, str]) -> None:
        """Record the name of the loss function before the backward pass.

        ``observed`` is as for :func:`loss_name`.
        """
        watched = {} if self._watched is None else self._watched.names
        self._losses[value_or_default(None, loss_name, loss, {**watched, **observed})] = None

    def end_early_batch(
        self, trainer: Any, module: Any, outputs: Any, has_dataset: bool = True
    ) -> None:
        """Write the lineage values that became known in a batch.

        Called while ``awaits_loss``.

        ``outputs`` is what ``training_step`` returned. Of batches without a loss only the first is
        written.
        """
        if self._has_loss(trainer, module, outputs):
            self.awaits_loss = False
            self._stop_watching()
        elif self._watched is not None:
            self._watched.names.clear()
        is_news = not self.awaits_loss or self._batches_without_loss == 1
        if self.records_training and is_news:
            self.training(trainer, module)
        if has_dataset and self._data_graph is not None:
            self.record.write_lineage(self._data_graph)
        self._data_graph = None

    def _has_loss(self, trainer: Any, module: Any, outputs: Any) -> bool:
        """Tell whether the model was trained on a batch, as far as this can be seen.

        With manual optimization ``training_step`` need not return a loss, and may call ``backward``
        on it and step optimizers that Lightning does not know. So a few batches that show none are
        taken for such ones.
        """
        if self._losses or loss_of(outputs) is not None:
            return True
        self._batches_without_loss += 1
        if module.automatic_optimization:
            return False
        has_stepped = trainer.global_step != self._steps_before
        return has_stepped or self._batches_without_loss >= _MOST_SILENT_BATCHES

    def checkpoint_saved(self, checkpoint: dict[str, Any]) -> None:
        """Put the first learning rates into a checkpoint.

        Its own path and size are written at the next batch.
        """
        if self._has_begun:  # a tuner saves one before any training
            self._has_saved_checkpoint = True
            save_rates(checkpoint, self.first_rates)

    def write_saved_checkpoint(self, trainer: Any, module: Any) -> None:
        """Write the lineage if a checkpoint was saved since the lineage was written."""
        # Of weights that are saved alone no callback is told.
        if (
            self._has_saved_checkpoint
            or getattr(self._checkpoints, "best_model_path", "") != self._best_path
        ):
            self.progress(trainer, module)

    def progress(self, trainer: Any, module: Any) -> None:
        """Write the lineage of the training so far.

        The waiting evaluation is written, too. Before the training began there is no lineage.
        """
        self._has_saved_checkpoint, self._best_path = (
            False,
            getattr(self._checkpoints, "best_model_path", ""),
        )
        if self.records_training and self._has_begun:
            loss = self.read_loss()
            self.training(
                trainer, module, None if loss is None else float(loss), epochs_done(trainer)
            )
        self.flush()

    def exception_checkpoint_saved(self, trainer: Any, module: Any, path: str) -> None:
        """Write into the lineage the checkpoint that was saved after an exception."""
        self._exception_checkpoint = absolute_path(path)
        self.progress(trainer, module)
        if self.records_training and self._has_begun:
            self.record.write_lineage(RunInfo({"exception_checkpoint": self._exception_checkpoint}))

    def training(
        self, trainer: Any, module: Any, loss: float | None = None, epochs: int | None = None
    ) -> None:
        """Write the present lineage of the training job.

        The waiting evaluation is written in the same replacement of the file.

        ``loss`` and ``epochs`` (done) as far as there are any.
        """
        first_rate = next(iter(self.first_rates), None)
        names = [name for name in self._losses if name is not None]
        name = ", ".join(names) if len(names) == len(self._losses) else None
        sizes = UNKNOWN if self._sizes is None else self._sizes.sizes
        known = KnownCheckpoints(self._earlier_checkpoint, self._exception_checkpoint)
        values = [
            train_lineage(trainer, module, loss, epochs, first_rate, sizes, name or None, known)
        ]
        rates = learning_rates(trainer)
        self._has_scheduled |= bool(rates) and rates[0] != first_rate
        final = {"final_learning_rate": rates[0]} if self._has_scheduled and rates else {}
        self.record.write_lineage(
            *self._take_evaluation(),
            *values,
            *self._joined_groups(trainer),
            *self._custom_data(final),
        )

    def _joined_groups(self, trainer: Any) -> list[UserDefinedInfo]:
        joined = first_learning_rates(trainer)[len(self.first_rates) :]
        if not joined:
            return []
        self.first_rates += joined  # a callback has added groups to the optimizer
        return self._custom_data(first_rates_by_group(self.first_rates))

    def _custom_data(self, values: Mapping[str, CustomValue]) -> list[UserDefinedInfo]:
        own = {name: value for name, value in values.items() if name not in self._custom}
        return [UserDefinedInfo(own)] if own else []

    def evaluation_begins(self, trainer: Any) -> None:
        """Remember the present metrics, to tell apart the metrics of the evaluation."""
        self._before, self._evaluated, self._has_all_batches = (
            dict(trainer.callback_metrics),
            {},
            False,
        )

    def evaluation_batch(self, trainer: Any, batch: Any, number: int, index: int) -> None:
        """Count the samples in a batch that an evaluation has read from a loader."""
        if index not in self._evaluated:
            _, loaders, batches = evaluation(trainer)
            every = list(loaders.values()) if isinstance(loaders, Mapping) else loaders
            loader = every[index] if isinstance(every, (list, tuple)) else every
            limit = batches[index] if index < len(batches) else math.inf
            sizes = value_or_default(None, CheckedSizes, loader, batch, limit)
            self._evaluated[index] = sizes if reads_in_turn(trainer) else None
        if (checked := self._evaluated[index]) is not None:
            checked.see(number, batch)

    def evaluation_has_all_batches(self) -> None:
        """Note that the evaluation has read all batches, and only its hooks remain."""
        self._has_all_batches = True

    def evaluation_broke_off(self, trainer: Any) -> None:
        """Record an evaluation that an exception ended, if it had read all batches.

        If the exception came out of a hook at the end of an evaluation, that evaluation is
        complete.
        """
        if self._before is not None and self._has_all_batches:
            self.evaluation_ends(trainer)

    def evaluation_ends(self, trainer: Any) -> None:
        """Record the evaluation's metrics.

        The metrics are written now, or ten seconds after the last metrics.

        ``metric`` holds the newest value of each metric of all evaluations of the run.
        ``valid_dataset`` is the data set of the last evaluation.
        """
        # During an evaluation the Trainer replaces the tensors of the evaluation's metrics and
        # leaves the others.
        metrics, before = dict(trainer.callback_metrics), self._before or {}
        own = finite_metrics(
            {name: metrics[name] for name in metrics if before.get(name) is not metrics[name]}
        )
        self._before = None
        if not own:
            return
        kind, loaders, _ = evaluation(trainer)
        if self._waiting is not None and self._waiting.kind != kind:
            self.flush()
        earlier = {} if self._waiting is None else self._waiting.metrics
        samples = [self._samples_read(checked) for checked in self._evaluated.values()]
        self._waiting = _WaitingEvaluation(kind, loaders, samples, {**earlier, **own})
        self.flush_when_due()

    @staticmethod
    def _samples_read(checked: CheckedSizes | None) -> int | None:
        if checked is None:
            return None
        checked.end_epoch()
        return checked.sizes.dataset_size

    def flush_when_due(self) -> None:
        """Write a waiting evaluation, but at most one evaluation every ten seconds.

        Cheap enough for every batch.
        """
        if self._waiting is not None and self._timer() >= self._next_evaluation:
            self.flush()

    def end(self) -> None:
        """Finish the lineage of a run, which may have ended in its first batch."""
        self._stop_watching()
        self.flush()

    def _stop_watching(self) -> None:
        if self._watched is not None:
            self._watched.end()

    def flush(self) -> None:
        """Write the evaluation that is not written yet, if any."""
        self.record.write_lineage(*self._take_evaluation())

    def _take_evaluation(self) -> list[LineageValue]:
        if self._waiting is None:
            return []
        waiting, self._waiting = self._waiting, None
        path, size = evaluation_dataset(waiting.loaders, waiting.samples)
        self._next_evaluation = self._timer() + _BETWEEN_EVALUATIONS_S
        kind = EvaluationInfo if self._drops_earlier_metrics else AddedEvaluation
        self._drops_earlier_metrics = False
        return [kind(metric_json(waiting.metrics), path, size)]


@guarded_hooks
class EvaluationHooks:
    """Callback hooks that record the lineage of validations and tests.

    The class that mixes them in gives the recorder.
    """

    _guard: HookGuard

    if not TYPE_CHECKING:  # it would make every name known

        def __getattr__(self, name: str) -> Any:
            if name in ("finalize", "log_metrics"):  # what Lightning calls of a logger
                raise TypeError(
                    f"the Trainer's logger must be a logger, got a {type(self).__name__}. "
                    "Give it as callbacks=[...]"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _evaluation_recorder(self) -> LineageRecorder | None:
        """Return the recorder for evaluations, or ``None`` if they are not recorded."""
        raise NotImplementedError

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Remember the metrics that exist before the evaluation."""
        recorder = self._evaluation_recorder()
        if recorder is not None and not trainer.sanity_checking:
            recorder.evaluation_begins(trainer)

    def on_validation_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Count the samples in a batch of an evaluation."""
        recorder = self._evaluation_recorder()
        if recorder is not None and not trainer.sanity_checking:
            recorder.evaluation_batch(trainer, batch, batch_idx, dataloader_idx)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Record the evaluation's metrics as evaluation lineage."""
        recorder = self._evaluation_recorder()
        if recorder is not None and not trainer.sanity_checking:
            recorder.evaluation_ends(trainer)

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Remember that the evaluation is complete.

        A later hook of another callback may raise.
        """
        recorder = self._evaluation_recorder()
        if recorder is not None:
            recorder.evaluation_has_all_batches()

    on_test_start = on_validation_start
    on_test_end = on_validation_end
    on_test_batch_start = on_validation_batch_start
    on_test_epoch_end = on_validation_epoch_end

    def _end_broken_evaluation(self, trainer: Any) -> None:
        recorder = self._evaluation_recorder()
        if recorder is not None:
            with self._guard("the last evaluation"):
                recorder.evaluation_broke_off(trainer)
