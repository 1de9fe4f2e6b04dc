"""``TrainLineage`` and ``EvalLineage``: the lineage of a run without a SummaryCollector.

What is read from the Trainer is ``inspect_trainer.py``'s business, when it is written ``recorder.py``'s.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any, TypeAlias

from mindsummary_lightning.collection.loss import mean_loss
from mindsummary_lightning.conversion.arguments import check_flag
from mindsummary_lightning.dataset.pipeline import dataset_graph
from mindsummary_lightning.recording.summary_record import SummaryRecord
from mindsummary_lightning.trainer.lineage_recorder import LineageRecorder
from mindsummary_lightning.trainer.logger import MindInsightLogger
from mindsummary_lightning.trainer.namespaces import CallbackBase

__all__ = ["EvalLineage", "TrainLineage"]

_LOG = logging.getLogger(__name__)

Target: TypeAlias = "SummaryRecord | MindInsightLogger | str | os.PathLike[str]"


class _LineageCallback(CallbackBase):
    """What the two callbacks share: where they record, and that recording does not stop training."""

    def __init__(self, summary_record: Target, raise_exception: bool = False) -> None:
        super().__init__()
        check_flag("raise_exception", raise_exception)
        self._raise_exception = raise_exception
        self._target: SummaryRecord | MindInsightLogger
        self._owns_record = isinstance(summary_record, (str, os.PathLike))
        if isinstance(summary_record, (SummaryRecord, MindInsightLogger)):
            self._target = summary_record
        elif isinstance(summary_record, (str, os.PathLike)):
            self._target = SummaryRecord(summary_record, raise_exception=raise_exception)
            self._target.set_mode("eval")  # only lineage is recorded with it
        else:
            raise TypeError(
                f"summary_record must be a SummaryRecord, a MindInsightLogger or a directory, not {summary_record!r}"
            )
        self._lineage: LineageRecorder | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Begin to record, on rank zero and outside ``fast_dev_run``."""
        if self._lineage is None and trainer.is_global_zero and not trainer.fast_dev_run:
            target = self._target
            record = target.experiment if isinstance(target, MindInsightLogger) else target
            self._lineage = LineageRecorder(record)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Write what waits, and let go of the files, if this callback opened them."""
        self._write("evaluation", LineageRecorder.flush)
        if self._owns_record and isinstance(self._target, SummaryRecord):
            self._target.release()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Write what waits, and let go of the files; ``teardown`` is not called after an exception."""
        self.teardown(trainer, pl_module, "")

    def _write(self, what: str, write: Callable[[LineageRecorder], None]) -> None:
        if self._lineage is None:
            return
        try:
            write(self._lineage)
        except Exception as error:
            if self._raise_exception:
                raise
            _LOG.error("%s lineage could not be recorded: %s: %s", what, type(error).__name__, error)


class TrainLineage(_LineageCallback):
    """Records the lineage of a training job: network, optimizer, loss, data set, hyper-parameters, checkpoint.

    It is written when training starts, after each checkpoint and when training ends, so that a killed run keeps it.

    Args:
        summary_record: a :class:`SummaryRecord`, the Trainer's :class:`MindInsightLogger`, or a directory.
        raise_exception: raise when the lineage cannot be recorded, instead of logging it and training on.

    Raises:
        TypeError: an argument has the wrong type.

    Example:
        >>> callback = TrainLineage("runs/lineage_only")
    """

    def __init__(self, summary_record: Target, raise_exception: bool = False) -> None:
        super().__init__(summary_record, raise_exception)
        self._outputs: Any = None
        self._has_begun = False
        self._saved_checkpoint = False

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Begin to record, on rank zero and outside ``fast_dev_run``."""
        super().setup(trainer, pl_module, stage)
        self._has_begun = self._saved_checkpoint = False

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Write what is known before the first step."""

        def write(lineage: LineageRecorder) -> None:
            lineage.training(trainer, pl_module)
            lineage.dataset(dataset_graph(trainer.train_dataloader))
            lineage.custom(trainer, pl_module)

        self._outputs = None
        self._has_begun = True
        self._write("train", write)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Write the lineage with a checkpoint that was saved since the last batch."""
        if self._saved_checkpoint:
            self._write_progress(trainer, pl_module)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Keep the loss."""
        self._outputs = outputs

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Note that a checkpoint is being saved."""
        self._saved_checkpoint = self._has_begun  # a tuner saves one before any training

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Write the final lineage."""
        self._write_progress(trainer, pl_module)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Write the lineage so far and let go of the files."""
        if self._has_begun:
            self._write_progress(trainer, pl_module)
        super().on_exception(trainer, pl_module, exception)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Write the lineage with a checkpoint saved at the very end, and let go of the files."""
        if self._saved_checkpoint:
            self._write_progress(trainer, pl_module)
        super().teardown(trainer, pl_module, stage)

    def _write_progress(self, trainer: Any, module: Any) -> None:
        self._saved_checkpoint = False

        def write(lineage: LineageRecorder) -> None:
            loss = mean_loss(self._outputs, trainer.accumulate_grad_batches if module.automatic_optimization else 1)
            lineage.training(trainer, module, None if loss is None else float(loss), trainer.current_epoch)

        self._write("train", write)


class EvalLineage(_LineageCallback):
    """Records the lineage of an evaluation: its metrics and data set, after each validation and test.

    One that follows another within ten seconds waits that long, or for a later one, or for the end.

    Args:
        summary_record: a :class:`SummaryRecord`, the Trainer's :class:`MindInsightLogger`, or a directory.
        raise_exception: raise when the lineage cannot be recorded, instead of logging it and going on.

    Raises:
        TypeError: an argument has the wrong type.

    Example:
        >>> callback = EvalLineage("runs/lineage_only")
    """

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Remember the metrics from before."""
        if not trainer.sanity_checking:
            self._write("evaluation", lambda lineage: lineage.evaluation_begins(trainer))

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Record the validation's metrics."""
        if not trainer.sanity_checking:
            self._write("evaluation", lambda lineage: lineage.evaluation_ends(trainer, trainer.val_dataloaders))

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Write the validation that waited long enough."""
        self._write("evaluation", LineageRecorder.flush_when_due)

    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        """Remember the metrics from before."""
        self._write("evaluation", lambda lineage: lineage.evaluation_begins(trainer))

    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        """Record the test's metrics."""
        self._write("evaluation", lambda lineage: lineage.evaluation_ends(trainer, trainer.test_dataloaders))
