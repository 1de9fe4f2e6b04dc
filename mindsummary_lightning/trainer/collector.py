"""``SummaryCollector``: which hook of a Lightning run collects what, with the semantics of MindSpore's callback.

The values of a step are ``step_collector.py``'s business, the choice of steps ``collect/schedule.py``'s, lineage
``lineage/recorder.py``'s.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
from typing import Any

from mindsummary_lightning.collection.options import (
    CollectOptions,
    SpecifiedData,
    checked_custom_lineage,
    checked_gradients,
    hyper_config,
)
from mindsummary_lightning.collection.parameter_selection import parameter_names
from mindsummary_lightning.collection.schedule import Schedule
from mindsummary_lightning.collection.step_collector import StepCollector
from mindsummary_lightning.conversion.arguments import (
    check_export_options,
    check_flag,
    checked,
    checked_count,
    checked_directory,
)
from mindsummary_lightning.dataset.pipeline import dataset_graph
from mindsummary_lightning.landscape.checkpoints import LandscapeCheckpointWriter
from mindsummary_lightning.recording.summary_record import SummaryRecord
from mindsummary_lightning.trainer.checkpoint_state import first_step, save_state, saved_state
from mindsummary_lightning.trainer.graph_recorder import GraphRecorder, module_fingerprint
from mindsummary_lightning.trainer.lineage_recorder import LineageRecorder
from mindsummary_lightning.trainer.logger import MindInsightLogger
from mindsummary_lightning.trainer.namespaces import CallbackBase, pass_over

__all__ = ["SummaryCollector"]

_LOG = logging.getLogger(__name__)

_IDLE = ("on_before_zero_grad", "on_before_backward", "on_after_backward")  # hooks of every batch that collect nothing


class SummaryCollector(CallbackBase):
    """Collects loss, input images, parameter histograms, graph, data pipeline and lineage of a Lightning run.

    Steps are optimizer steps, counted from 1. The first, every ``collect_freq``-th and the last step are collected:
    the loss as scalar ``loss/auto``, the input as image ``input_data/auto``, parameters as histograms ``<name>/auto``.
    Only rank zero writes. Nothing is written in ``fast_dev_run``.

    Args:
        summary_dir: where the files go; ``None``: the directory of the Trainer's :class:`MindInsightLogger`.
        collect_freq: gap between collected steps, at least 1.
        collect_specified_data: what to collect; any of ``collect_metric``, ``collect_graph``,
            ``collect_train_lineage``, ``collect_eval_lineage``, ``collect_input_data``, ``collect_dataset_graph``
            (bools), ``histogram_regular`` (an expression matched from the start of a parameter's name; ``None``: the
            first five) and ``collect_landscape`` (a dict with ``landscape_size``, ``unit``, ``num_samples``,
            ``create_landscape``, ``intervals``; ``None``: none).
        keep_default_action: collect everything that ``collect_specified_data`` does not name, too; with False only what
            it names.
        custom_lineage_data: str keys to str, int or float, shown on the lineage pages above the captured
            hyper-parameters.
        collect_tensor_freq: gap between steps whose tensors are collected; ``None``: at most 20 steps of the run.
        max_file_size: bytes after which a new summary file is begun; ``None``: never.
        export_options: ``{"tensor_format": "npy"}`` also saves recorded tensors as npy files.
        collect_gradients: record gradients as histograms ``<name>.gradient`` and their global norm as scalar
            ``gradient_norm``: ``True`` for the parameters that have histograms, or an expression for others.
        collect_input_freq: gap between steps whose input images are collected; ``None``: as tensors.
        landscape_max_bytes: most bytes that the checkpoints for landscapes may take, at least 1.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument has a value that cannot be used; or, when training begins, the Trainer has two
            SummaryCollectors.

    Example:
        >>> collector = SummaryCollector(collect_freq=10, collect_specified_data={"histogram_regular": "conv.*"})
    """

    def __init__(
        self,
        summary_dir: str | os.PathLike[str] | None = None,
        collect_freq: int = 10,
        collect_specified_data: SpecifiedData | None = None,
        keep_default_action: bool = True,
        custom_lineage_data: dict[str, str | int | float] | None = None,
        collect_tensor_freq: int | None = None,
        max_file_size: int | None = None,
        export_options: dict[str, str | None] | None = None,
        *,
        collect_gradients: bool | str | None = None,
        collect_input_freq: int | None = None,
        landscape_max_bytes: int = 2**30,
    ) -> None:
        super().__init__()
        self._summary_dir = None if summary_dir is None else checked_directory("summary_dir", summary_dir)
        self._freq = checked_count("collect_freq", collect_freq)
        self._tensor_freq = _optional_count("collect_tensor_freq", collect_tensor_freq)
        self._input_freq = _optional_count("collect_input_freq", collect_input_freq)
        check_flag("keep_default_action", keep_default_action)
        self._specified = CollectOptions.from_dict(collect_specified_data, keep_default_action)
        self._custom_lineage = checked_custom_lineage(custom_lineage_data)
        checked("max_file_size", max_file_size)
        check_export_options(export_options)
        self._file_options: dict[str, Any] = {"max_file_size": max_file_size, "export_options": export_options}
        self._gradients = checked_gradients(collect_gradients)
        self._landscape_max_bytes = checked_count("landscape_max_bytes", landscape_max_bytes)
        self._is_on = False
        self._record: SummaryRecord | None = None
        self._owns_record = False
        self._lineage: LineageRecorder | None = None
        self._steps: StepCollector | None = None
        self._trail: LandscapeCheckpointWriter | None = None
        self._global_step = 0
        self._has_saved_checkpoint = False
        self._graph: GraphRecorder | None = None
        self._graph_modules: str | None = None
        self._resumed: dict[str, Any] = {}
        self._reported: set[str] = set()
        pass_over(self, SummaryCollector, _IDLE if self._gradients else (*_IDLE, "on_before_optimizer_step"))

    # ---- the run begins

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Find out where to record, and whether at all."""
        self._resumed, self._steps, self._has_saved_checkpoint = {}, None, False
        if sum(isinstance(callback, SummaryCollector) for callback in trainer.callbacks) > 1:
            raise ValueError("a Trainer may have one SummaryCollector; give one that collects everything")
        logger = next((logger for logger in trainer.loggers if isinstance(logger, MindInsightLogger)), None)
        self._is_on = not trainer.fast_dev_run and (self._summary_dir is not None or logger is not None)
        if not self._is_on:
            if not trainer.fast_dev_run and not _is_tuning(trainer):
                self._report(
                    "nowhere",
                    "SummaryCollector records nothing: give it a summary_dir or the Trainer a MindInsightLogger",
                )
            return
        if logger is not None:
            logger.adopt_version(trainer.strategy.broadcast(logger.version))
        if not trainer.is_global_zero:
            return
        record = self._record
        if self._summary_dir is None and logger is not None:
            record = logger.experiment
        elif record is None and self._summary_dir is not None:
            record = SummaryRecord(self._summary_dir, **self._file_options)
            record.set_mode("eval")  # values of summary operators are taken step by step
        self._owns_record = self._summary_dir is not None
        if record is not None and record is not self._record:
            self._record = record
            self._lineage = LineageRecorder(record, {**hyper_config(), **self._custom_lineage})

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Learn how long the run is and what it optimizes, and write what is known of it."""
        if not self._is_on:
            return
        self._global_step = trainer.global_step
        schedule = Schedule(self._freq, self._tensor_freq, self._input_freq, _total_steps(trainer))
        named = parameter_names(pl_module, trainer.optimizers)
        step = first_step(self._resumed, trainer, pl_module, self._record)
        if self._resumed and self._record is not None:
            self._record.begin_file()
        self._steps = StepCollector(self._specified, schedule, named, self._gradients, step, self._record is None)
        if self._record is None or self._lineage is None:
            return
        lineage = self._lineage
        if self._specified.collect_train_lineage:
            lineage.training(trainer, pl_module)
        if self._specified.collect_dataset_graph:
            self._guarded("the data graph", lambda: lineage.dataset(dataset_graph(trainer.train_dataloader)))
        lineage.custom(trainer, pl_module)
        if self._specified.collect_graph:
            self._guarded("the computational graph", lambda: self._plan_graph(pl_module))
        if self._specified.landscape is not None:
            batches = trainer.num_training_batches
            self._trail = LandscapeCheckpointWriter(
                self._record.directory,
                type(pl_module).__name__,
                self._specified.landscape,
                self._landscape_max_bytes,
                max(1, int(batches)) if math.isfinite(batches) else 1,
                self._record.file_mode,
            )

    # ---- the hot path

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Record what earlier steps left on their way, and take what summary operators are going to give."""
        steps = self._steps
        if steps is None or not self._is_on:
            return
        if steps.has_in_flight:
            self._harvest()
        if self._has_saved_checkpoint and self._record is not None:
            self._record_progress(trainer, pl_module)
        if self._lineage is not None:
            self._lineage.flush_when_due()
        steps.begin_batch()
        if self._graph is not None:
            self._graph.begin_batch()

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Collect gradients, if asked for: accumulated, unscaled and not clipped yet."""
        if self._is_on and self._steps is not None:
            self._steps.take_gradients([parameter for group in optimizer.param_groups for parameter in group["params"]])

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Record the step, if an optimizer stepped and the step is collected."""
        steps = self._steps
        if steps is None or not self._is_on:
            return
        global_step = trainer.global_step
        has_stepped = global_step != self._global_step  # once, however many optimizers stepped
        self._global_step = global_step
        accumulated = trainer.accumulate_grad_batches if pl_module.automatic_optimization else 1
        steps.end_batch(outputs, accumulated, has_stepped, batch)
        if steps.has_in_flight:
            self._harvest()
        if has_stepped and not steps.has_in_flight:
            self._record_graph()
        if has_stepped and self._trail is not None:
            self._save_parameters("step", steps.step, pl_module)

    def _plan_graph(self, module: Any) -> None:
        """Observe the first training step, unless the graph of these modules is in the run already."""
        if isinstance(self._resumed.get("graph"), str) and self._resumed.get("directory") == self._record.directory:  # type: ignore[union-attr]
            self._graph_modules = self._resumed["graph"]
        modules = module_fingerprint(module)
        if modules != self._graph_modules:
            self._graph = GraphRecorder(module, self._record)  # type: ignore[arg-type]  # there is one on rank zero
            self._graph_modules = modules

    def _record_graph(self) -> None:
        """Record the graph behind the values of the first step.

        MindInsight drops the tags it saw first when a run has more than 300, the graph's two among them.
        """
        if self._graph is not None and self._graph.write_when_observed():
            self._graph = None

    def _harvest(self, wait: bool = False) -> None:
        if self._steps is not None:
            for step, values in self._steps.collect_finished(wait):
                if self._record is not None:
                    self._record.write_values(step, values)
                    self._record_graph()

    # ---- epochs, checkpoints, evaluation

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Save the parameters of an epoch that belongs to a landscape."""
        self._save_parameters("epoch", trainer.current_epoch + 1, pl_module)

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Put the step and the run directory into it; its own path and size are recorded at the next batch."""
        if self._is_on and self._steps is not None:  # a tuner saves one before any training
            self._has_saved_checkpoint = True
            save_state(checkpoint, self._steps.step, self._record, self._graph_modules if self._graph is None else None)

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Remember where the run that is being resumed was."""
        self._resumed = saved_state(checkpoint)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Remember the metrics from before the validation."""
        if self._collects_evaluation(trainer):
            self._lineage.evaluation_begins(trainer)  # type: ignore[union-attr]  # checked just before

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Record the validation's metrics as evaluation lineage."""
        if self._collects_evaluation(trainer):
            self._lineage.evaluation_ends(trainer, trainer.val_dataloaders)  # type: ignore[union-attr]

    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        """Remember the metrics from before the test."""
        self.on_validation_start(trainer, pl_module)

    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        """Record the test's metrics as evaluation lineage."""
        if self._collects_evaluation(trainer):
            self._lineage.evaluation_ends(trainer, trainer.test_dataloaders)  # type: ignore[union-attr]

    def _collects_evaluation(self, trainer: Any) -> bool:
        wanted = self._is_on and self._specified.collect_eval_lineage and not trainer.sanity_checking
        return wanted and self._lineage is not None

    def _record_progress(self, trainer: Any, module: Any) -> None:
        self._has_saved_checkpoint = False
        if self._lineage is None:
            return
        self._lineage.flush()
        if self._specified.collect_train_lineage:
            loss = self._steps.last_loss() if self._steps is not None else None
            self._lineage.training(trainer, module, loss, trainer.current_epoch)

    # ---- the run ends

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Record the last step, if it was not collected, and the final lineage."""
        if not self._is_on:
            return
        if self._steps is not None:
            self._steps.end_run()
            self._harvest(wait=True)
        self._record_progress(trainer, pl_module)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Write what is on its way and the lineage so far."""
        if self._is_on and self._steps is not None and trainer.state.fn == "fit":
            self._steps.abandon()
            if self._record is not None:
                self._guarded("the last step", lambda: self._harvest(wait=True))
            self._guarded("the train lineage", lambda: self._record_progress(trainer, pl_module))
        self._end("failed")

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Record checkpoints saved at the very end, and let go of the files."""
        if self._has_saved_checkpoint and self._is_on:
            self._record_progress(trainer, pl_module)
        self._end("success")

    def _end(self, status: str) -> None:
        if not self._is_on or self._record is None or self._lineage is None:
            return
        if self._graph is not None:
            self._graph.end()
            self._graph = None
        self._lineage.flush()
        if not self._owns_record:
            return
        if self._record.has_recorded:
            self._lineage.status(status)
        self._record.release()

    # ---- pieces

    def _save_parameters(self, unit: str, number: int, module: Any) -> None:
        settings = self._specified.landscape
        if self._trail is None or settings is None or settings.unit != unit or not self._trail.wants(number):
            return
        trail = self._trail
        self._guarded("the parameters for a landscape", lambda: trail.save(number, module.state_dict()))

    def _guarded(self, what: str, action: Any) -> None:
        try:
            action()
        except Exception as error:  # recording never stops training
            self._report(what, f"{what} could not be recorded: {type(error).__name__}: {error}")

    def _report(self, reason: str, text: str) -> None:
        if reason not in self._reported:
            self._reported.add(reason)
            _LOG.warning(text)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_record": None, "_lineage": None, "_steps": None, "_trail": None, "_graph": None}


def _optional_count(name: str, count: Any) -> int | None:
    return None if count is None else checked_count(name, count)


def _total_steps(trainer: Any) -> int | None:
    total: Any = None
    with contextlib.suppress(Exception):  # accumulation that changes with the epoch, loaders of unknown length
        total = trainer.estimated_stepping_batches
    return int(total) if isinstance(total, (int, float)) and 0 < total < math.inf else None


def _is_tuning(trainer: Any) -> bool:
    return any(type(logger).__name__ == "DummyLogger" for logger in trainer.loggers)
