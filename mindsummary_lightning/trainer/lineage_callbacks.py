"""``TrainLineage`` and ``EvalLineage``: record lineage without a collector.

The Trainer is read in `trainer_info`, the lineage written by `lineage_recorder`.
"""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import Any, TypeAlias

from mindsummary_lightning.collection.loss import loss_alone, mean_loss
from mindsummary_lightning.conversion.arguments import (
    checked_bool,
    checked_directory,
    refuse_file_in_the_way,
)
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.recording.summary_record import SummaryRecord, recorder_of
from mindsummary_lightning.trainer.checkpoint_state import saved_state
from mindsummary_lightning.trainer.exception_checkpoints import ExceptionCheckpoints
from mindsummary_lightning.trainer.hook_guard import HookGuard, guarded_hooks
from mindsummary_lightning.trainer.lineage_recorder import EvaluationHooks, LineageRecorder
from mindsummary_lightning.trainer.logger import MindInsightLogger
from mindsummary_lightning.trainer.namespaces import CallbackBase

_LOG = logging.getLogger(__name__)

Target: TypeAlias = "SummaryRecord | MindInsightLogger | str | os.PathLike[str]"


@guarded_hooks
class _LineageCallback(CallbackBase):
    """The base class of the two callbacks, which opens and closes the record."""

    def __init__(self, summary_record: Target, raise_exception: bool = False) -> None:
        super().__init__()
        checked_bool("raise_exception", raise_exception)
        self._guard = HookGuard(_LOG, type(self).__name__, raise_exception)
        self._logger: MindInsightLogger | None = None
        self._recorder: RunRecorder | None = None
        self._owns_recorder = isinstance(summary_record, (str, os.PathLike))
        if isinstance(summary_record, MindInsightLogger):
            self._logger = summary_record
        elif isinstance(summary_record, SummaryRecord):
            self._recorder = recorder_of(summary_record)
        elif isinstance(summary_record, (str, os.PathLike)):
            directory = checked_directory("summary_record", summary_record)
            self._recorder = RunRecorder(directory, raise_exception=raise_exception)
        else:
            raise TypeError(
                "summary_record must be a SummaryRecord, a MindInsightLogger or a directory, got "
                f"{summary_record!r}"
            )
        self._lineage: LineageRecorder | None = None

    def __repr__(self) -> str:
        target = self._logger if self._recorder is None else self._recorder.directory
        return f"{type(self).__name__}({target!r})"

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Prepare to record, on rank zero and outside ``fast_dev_run``."""
        if trainer.fast_dev_run:
            return
        if self._owns_recorder and self._recorder is not None:
            refuse_file_in_the_way(self._recorder.directory)
        with self._guard("in setup"):
            if self._logger is not None:
                self._logger._run.begin(trainer)
            if not trainer.is_global_zero:
                return
            recorder = self._recorder if self._logger is None else self._logger._run.recorder()
            if recorder is not None and (
                self._lineage is None or self._lineage.record is not recorder
            ):
                self._lineage = LineageRecorder(recorder)
            if self._lineage is not None:
                self._lineage.call_begins()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Write the last evaluation if not yet written, and close this callback's files."""
        if self._lineage is not None:
            with self._guard("the last evaluation"):
                self._lineage.end()
        if self._owns_recorder and self._recorder is not None:
            self._recorder.release()
        self._guard.log_total()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Call ``teardown``, because Lightning does not call it after an exception."""
        self.teardown(trainer, pl_module, "")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lineage": None}


@guarded_hooks
class TrainLineage(_LineageCallback):
    """A callback that records the lineage of a training job.

    The lineage holds network, optimizer, loss, data set, hyper-parameters and checkpoint.

    It is written when training starts, after each checkpoint and when training ends, so that a
    killed run keeps it.

    Args:
        summary_record: a :class:`SummaryRecord`, the Trainer's :class:`MindInsightLogger`, or a
            directory.
        raise_exception: raise when the lineage cannot be recorded, instead of logging it and
            continuing.

    Raises:
        TypeError: an argument has the wrong type.

    Example:
        >>> callback = TrainLineage("runs/lineage_only")
    """

    def __init__(self, summary_record: Target, raise_exception: bool = False) -> None:
        super().__init__(summary_record, raise_exception)
        self._saved_rates: list[float] = []
        self._exception_checkpoints = ExceptionCheckpoints()

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Prepare to record, on rank zero and outside ``fast_dev_run``."""
        super().setup(trainer, pl_module, stage)
        self._exception_checkpoints.end()
        self._saved_rates = []

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Write the lineage that is known before the first step."""
        if self._lineage is not None:
            self._lineage.training_begins(trainer, self._saved_rates)
            self._lineage.read_loss = lambda: None
            self._lineage.training(trainer, pl_module)
            self._lineage.custom(trainer, pl_module, notes_end=self._logger is not None)

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Write the lineage if a checkpoint was saved since the last batch.

        The first batch is inspected as well.
        """
        if self._lineage is not None:
            self._lineage.begin_batch(trainer, pl_module, batch, batch_idx)

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        """Find the name of the loss function that computed the first loss."""
        if self._lineage is not None and self._lineage.awaits_loss:
            self._lineage.loss_computed(loss, {})

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Keep the loss of this batch for the lineage."""
        if self._lineage is None:
            return
        accumulated = trainer.accumulate_grad_batches if pl_module.automatic_optimization else 1
        self._lineage.read_loss = partial(mean_loss, loss_alone(outputs), accumulated)
        if self._lineage.awaits_loss:
            self._lineage.end_early_batch(trainer, pl_module, outputs)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Check whether the loader gave as many batches as its length states."""
        if self._lineage is not None:
            self._lineage.end_epoch(trainer)

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Put the first learning rates into a checkpoint.

        The checkpoint's path and size are recorded at the next batch.
        """
        if self._lineage is not None:
            self._lineage.checkpoint_saved(checkpoint)

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Read from a checkpoint the initial learning rates of the resumed run."""
        self._saved_rates = saved_state(checkpoint)["learning_rates"]

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Write the final lineage."""
        if self._lineage is not None:
            self._lineage.progress(trainer, pl_module)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Write the lineage so far and close the files."""
        with self._guard("the train lineage"):
            self.on_train_end(trainer, pl_module)
        super().on_exception(trainer, pl_module, exception)
        if self._lineage is not None:
            self._exception_checkpoints.follow(
                trainer, pl_module, self._lineage, self._guard, self._owns_recorder
            )

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Write the lineage if a checkpoint was saved at the end, and close the files."""
        if self._lineage is not None:
            with self._guard("the train lineage"):
                self._lineage.write_saved_checkpoint(trainer, pl_module)
        super().teardown(trainer, pl_module, stage)


@guarded_hooks
class EvalLineage(EvaluationHooks, _LineageCallback):
    """A callback that records the lineage of every validation and test.

    The lineage holds the metrics and the data set.

    Lineage is written at most every ten seconds, and at the end.

    Args:
        summary_record: a :class:`SummaryRecord`, the Trainer's :class:`MindInsightLogger`, or a
            directory.
        raise_exception: raise when the lineage cannot be recorded, instead of logging it and
            continuing.

    Raises:
        TypeError: an argument has the wrong type.

    Example:
        >>> callback = EvalLineage("runs/lineage_only")
    """

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Note that a fit begins, so that metrics of an earlier run are not used."""
        if self._lineage is not None:
            self._lineage.fit_begins(trainer)

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Write the last evaluation if not yet written and ten seconds have passed."""
        if self._lineage is not None:
            self._lineage.flush_when_due()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Write an evaluation that an exception in a callback ended; close the files."""
        self._end_broken_evaluation(trainer)
        super().on_exception(trainer, pl_module, exception)

    def _evaluation_recorder(self) -> LineageRecorder | None:
        return self._lineage
