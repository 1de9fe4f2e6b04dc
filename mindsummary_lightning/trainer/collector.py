"""``SummaryCollector``: collects values in the hooks of a Lightning run.

What it collects and when follows MindSpore's callback.

The values of a step are collected in `step_collector`, the steps chosen in `schedule`, lineage
written by `lineage_recorder`.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from mindsummary_lightning.collection.loss import loss_alone, mean_loss
from mindsummary_lightning.collection.options import (
    CollectOptions,
    checked_custom_lineage,
    checked_gradients,
    checked_parameter_statistics,
    hyper_config,
    output_statistics_options,
)
from mindsummary_lightning.collection.parameter_selection import ParameterNames
from mindsummary_lightning.collection.parameter_statistics import ParameterStatistics
from mindsummary_lightning.collection.schedule import Schedule
from mindsummary_lightning.collection.step_collector import StepCollector
from mindsummary_lightning.conversion.arguments import (
    check_export_options,
    checked_bool,
    checked_directory,
    checked_name,
    drops_num_process,
    max_file_bytes,
    optional_positive_int,
    positive_int,
    refuse_file_in_the_way,
)
from mindsummary_lightning.fileio.whole_step_file import DEFAULT_MAX_BYTES
from mindsummary_lightning.recording.row_descriptions import RowDescriptions
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.trainer.chain_recorder import ChainRecorder
from mindsummary_lightning.trainer.checkpoint_state import (
    continued_state,
    save_state,
    saved_state,
    steps_before_fit,
)
from mindsummary_lightning.trainer.current_run import CurrentRun
from mindsummary_lightning.trainer.exception_checkpoints import ExceptionCheckpoints
from mindsummary_lightning.trainer.graph_recorder import GraphRecorder
from mindsummary_lightning.trainer.hook_guard import HookGuard, guarded_hooks
from mindsummary_lightning.trainer.landscape_writer import LandscapeSaver
from mindsummary_lightning.trainer.lineage_recorder import EvaluationHooks, LineageRecorder
from mindsummary_lightning.trainer.logger import MindInsightLogger
from mindsummary_lightning.trainer.namespaces import CallbackBase, rank_zero_info
from mindsummary_lightning.trainer.statistics_names import statistics_names
from mindsummary_lightning.trainer.trainer_state import (
    is_tuning,
    loss_scale,
    planned_steps,
    scales_loss,
)
from mindsummary_lightning.values.specified_data import SpecifiedData
from mindsummary_lightning.values.text import listed
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)


@guarded_hooks
class SummaryCollector(EvaluationHooks, CallbackBase):
    """A callback that records a run's loss, inputs, histograms, graph and lineage.

    Steps are optimizer steps, counted from 1. The first, every ``collect_freq``-th and the last
    step are collected: the loss as scalar ``loss/auto``, the input as image ``input_data/auto``,
    parameters as histograms ``<name>/auto``. Only rank zero writes. Nothing is written in
    ``fast_dev_run``. A failure to record is logged and never raised into the training, unless the
    :class:`MindInsightLogger` that it records with has ``raise_exception=True``.

    Args:
        summary_dir: local directory of the files; ``None``: that of the Trainer's
            :class:`MindInsightLogger`.
        collect_freq: gap between collected steps, at least 1.
        collect_specified_data: what to collect; any of ``collect_metric``, ``collect_graph``,
            ``collect_train_lineage``, ``collect_eval_lineage``, ``collect_input_data``,
            ``collect_dataset_graph`` (bools), ``histogram_regular`` (an expression matched from the
            start of a parameter's name; ``None``: the first five) and ``collect_landscape`` (a dict
            with ``landscape_size``, ``unit``, ``num_samples``, ``create_landscape``, ``intervals``;
            ``None``: none).
        keep_default_action: collect what ``collect_specified_data`` does not name, too; False: only
            what it names.
        custom_lineage_data: names to str, int or float, on the lineage pages above the captured
            hyper-parameters.
        collect_tensor_freq: gap between steps whose tensors are collected; ``None``: at most 20
            steps of the run.
        max_file_size: bytes after which a new summary file is started; ``None``: never, or as the
            logger says.
        export_options: ``{"tensor_format": "npy"}`` also saves tensors as npy files; ``None``: as
            the logger says.
        num_process: MindSpore's number of writer processes; accepted and ignored, because none are
            needed. An int after ``collect_freq``, its position in MindSpore 2, is ignored too.
        collect_gradients: record gradients as histograms ``<name>.gradient`` and their global norm
            as scalar ``gradient_norm``: ``True`` for the parameters that have histograms, or an
            expression for others.
        collect_input_freq: gap between steps whose input images are collected; ``None``: at most 10
            steps of the run.
        landscape_max_bytes: most bytes that the checkpoints for landscapes may take, at least 1. If
            ``collect_landscape`` is not given, they are saved only if all of them fit.
        collect_parameter_statistics: record a table with statistics of parameters, their gradients
            and weights, as tensor ``parameter_statistics``, and a picture of it: ``True`` for every
            parameter of an optimizer, or an expression for others.
        collect_parameter_updates: have the ratio of each update to its weight in the table, which
            takes a copy of the weights during a collected step. Implies
            ``collect_parameter_statistics=True`` where that is ``None``.
        collect_output_statistics: record batch, weights, outputs of modules, loss, gradients and
            update of a step as tensor ``output_statistics``: ``True`` for the first three steps and
            at most 20 others, or the numbers of the steps, counted from 1.
        output_statistics_modules: an expression matched from the start of a module's name; only
            these modules have output statistics. ``None``: every module. Implies
            ``collect_output_statistics=True`` where that is ``None``.
        whole_tensors: write every tensor of these steps, or of the first, to files for
            :class:`PortCheck`.
        whole_tensors_max_bytes: greatest size of such a file, at least 1; of a larger step a
            warning states the size.
        loss: name of a logged metric that is recorded as ``loss/auto``; ``None``: what
            ``training_step`` returns.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument has a value that cannot be used; or, when training begins, the
            Trainer has two SummaryCollectors or a MindInsightLogger with other file options.

    Example:
        >>> collector = SummaryCollector(
        ...     collect_freq=10, collect_specified_data={"histogram_regular": "conv.*"}
        ... )
    """

    @drops_num_process(position=3)
    def __init__(
        self,
        summary_dir: str | os.PathLike[str] | None = None,
        collect_freq: int = 10,
        collect_specified_data: SpecifiedData | None = None,
        keep_default_action: bool = True,
        custom_lineage_data: Mapping[str, str | int | float] | None = None,
        collect_tensor_freq: int | None = None,
        max_file_size: int | None = None,
        export_options: Mapping[str, str | None] | None = None,
        *,
        num_process: int | None = None,
        collect_gradients: bool | str | None = None,
        collect_input_freq: int | None = None,
        landscape_max_bytes: int = 2**26,
        loss: str | None = None,
        collect_parameter_statistics: bool | str | None = None,
        collect_parameter_updates: bool = False,
        collect_output_statistics: bool | Sequence[int] | None = None,
        output_statistics_modules: str | None = None,
        whole_tensors: bool = False,
        whole_tensors_max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        super().__init__()
        self._summary_dir = (
            None if summary_dir is None else checked_directory("summary_dir", summary_dir)
        )
        self._freq = positive_int("collect_freq", collect_freq)
        self._tensor_freq = optional_positive_int("collect_tensor_freq", collect_tensor_freq)
        self._input_freq = optional_positive_int("collect_input_freq", collect_input_freq)
        checked_bool("keep_default_action", keep_default_action)
        self._specified = CollectOptions.from_dict(collect_specified_data, keep_default_action)
        self._custom = checked_custom_lineage(custom_lineage_data)
        check_export_options(export_options)
        self._file_options = {
            "max_file_size": max_file_bytes(max_file_size),
            "export_options": export_options,
        }
        self._own_run: CurrentRun | None = None
        if self._summary_dir is not None:
            self._own_run = CurrentRun.in_directory(self._summary_dir, self._file_options)
        self._runs: list[CurrentRun] = []  # that it records into, and that of a logger beside it
        # until setup, and on ranks above zero; so is the next one
        self._record: RunRecorder | None = None
        self._lineage: LineageRecorder | None = None
        self._gradients = checked_gradients(collect_gradients)
        statistics = checked_parameter_statistics(
            collect_parameter_statistics, collect_parameter_updates
        )
        self._statistics, self._has_updates = statistics.expression, statistics.has_updates
        self._statistics_names: RowDescriptions[str] | None = None
        self._landscape_max_bytes = positive_int("landscape_max_bytes", landscape_max_bytes)
        self._loss_name = (
            None if loss is None else checked_name(loss, "loss, the name of a logged metric,")
        )
        self._guard = HookGuard(_LOG, "SummaryCollector")
        output_statistics = output_statistics_options(
            collect_output_statistics,
            output_statistics_modules,
            whole_tensors,
            whole_tensors_max_bytes,
        )
        self._chain = ChainRecorder(output_statistics, self._guard)
        self._warn_once = WarnOnce(_LOG)
        self._steps: StepCollector | None = None
        self._names = ParameterNames()
        self._landscape = LandscapeSaver(self._guard)
        self._global_step = 0
        self._graph = GraphRecorder()
        self._exception_checkpoints = ExceptionCheckpoints()
        self._resumed: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(summary_dir={self._summary_dir!r}, collect_freq={self._freq})"
        )

    # ---- the run begins

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Determine the directory to record into, if the run is recorded."""
        if sum(isinstance(callback, SummaryCollector) for callback in trainer.callbacks) > 1:
            raise ValueError(
                "a Trainer must have at most one SummaryCollector, got several. Give one that "
                "collects everything"
            )
        runs = self._runs_of(trainer)
        if runs and self._own_run is not None:
            refuse_file_in_the_way(self._own_run.directory)
        with self._guard("in setup"):
            self._exception_checkpoints.end()
            self._drop_earlier_fit(trainer, is_needed=stage != "fit" and bool(runs))
            self._runs = runs
            for run in runs:
                run.begin(trainer)
            self._open(trainer)

    def _runs_of(self, trainer: Any) -> list[CurrentRun]:
        """Return the runs into which a Trainer's call is recorded, the collector's first."""
        if trainer.fast_dev_run:
            return []
        logger = next(
            (logger for logger in trainer.loggers if isinstance(logger, MindInsightLogger)), None
        )
        if logger is None:
            self._warn_if_nowhere(trainer)
            return [] if self._own_run is None else [self._own_run]
        if self._own_run is not None and logger._run.is_at(self._own_run.directory):
            self._summary_dir = self._own_run = None  # it is the logger's
        if self._own_run is not None:
            return [self._own_run, logger._run]
        logger._run.take_options(self._file_options)
        return [logger._run]

    def _warn_if_nowhere(self, trainer: Any) -> None:
        if self._own_run is None and trainer.is_global_zero and not is_tuning(trainer):
            self._warn_once.warn(
                "nowhere",
                "SummaryCollector has no directory and records nothing. "
                "Pass summary_dir=..., or use Trainer(logger=MindInsightLogger(...))",
            )

    def _drop_earlier_fit(self, trainer: Any, is_needed: bool) -> None:
        """Drop an earlier fit's state, except the values that a continuing fit needs.

        ``is_needed``: the call is a recorded evaluation, and the user may save a checkpoint
        after it.
        """
        is_at_same_step = trainer.global_step == self._global_step
        self._resumed = {}
        if self._steps is not None and is_at_same_step:
            self._resumed = continued_state(self._steps)
        self._landscape = LandscapeSaver(self._guard)
        if not (is_needed and is_at_same_step):
            self._steps = None

    def _open(self, trainer: Any) -> None:
        """Start recording with the recorder of the first run."""
        if not self._runs:
            self._record, self._lineage = None, None
            return
        if trainer.is_global_zero:
            self._use(self._runs[0].recorder())
        if self._lineage is not None:
            self._lineage.call_begins()

    def _use(self, record: RunRecorder) -> None:
        if record is self._record:
            return
        self._graph.forget()
        custom = {**hyper_config(), **self._custom}
        training = self._specified.collect_train_lineage
        self._record = record
        self._lineage = LineageRecorder(record, custom, records_training=training)
        self._guard.raise_exception = record.policy.raise_exception

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Read the number of steps and the optimizers, and write the first lineage."""
        if not self._runs:
            return
        record, lineage, self._global_step = self._record, self._lineage, trainer.global_step
        directory = (
            None if record is None or self._runs[0].has_explained_resume else record.directory
        )
        step = steps_before_fit(self._resumed, trainer, pl_module, directory)
        total, used = planned_steps(trainer), self._resumed.get("default_steps_used")
        schedule = Schedule(
            self._freq, self._tensor_freq, self._input_freq, total, step, used, self._chain.steps
        )
        named = self._names.of(pl_module, trainer.optimizers)
        statistics: ParameterStatistics | None = None
        if self._statistics is not None:
            self._statistics_names = None if record is None else statistics_names(record)
            names = [] if self._statistics_names is None else self._statistics_names.recorded
            statistics = ParameterStatistics(
                names, schedule, self._has_updates, scales_loss(trainer)
            )
        self._chain.plan(pl_module, record)
        self._steps = StepCollector(
            self._specified, schedule, named, self._gradients, step, record is not None,
            statistics, self._statistics, self._chain.chain,
        )  # fmt: skip
        self._steps.raises = self._guard.raise_exception
        if record is None or lineage is None:
            return
        with self._guard("the train lineage"):
            lineage.training_begins(trainer, self._resumed.get("learning_rates", []))
            lineage.read_loss = self._steps.last_loss
            if self._specified.collect_train_lineage:
                lineage.training(trainer, pl_module)
        with self._guard("custom lineage"):
            lineage.custom(trainer, pl_module, self._specified.collect_train_lineage)
        with self._guard("the computational graph"):
            if self._specified.collect_graph:
                self._graph.plan(pl_module, record, self._resumed)
        self._landscape.begin(
            record, self._specified, self._landscape_max_bytes, trainer, pl_module
        )
        self._runs[0].announce(self._landscape.note)

    # ---- the hot path

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Record the earlier steps whose values are on the CPU, and begin a new step."""
        steps = self._steps
        if steps is None:
            return
        steps.begin_batch(partial(self._names.of, pl_module, trainer.optimizers))
        if steps.has_in_flight:
            self._record_finished()
        if self._lineage is not None:
            self._lineage.begin_batch(trainer, pl_module, batch, batch_idx)
        self._chain.begin_batch(steps.takes_chain, steps.step + 1)
        self._graph.begin_batch()

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: torch.Tensor) -> None:
        """Collect the loss before the backward pass, if the loss is needed.

        The first loss tells which loss function the module uses.
        """
        self._chain.before_backward(loss)
        if self._lineage is not None and self._lineage.awaits_loss:
            self._graph.confirm()
            self._lineage.loss_computed(loss, self._graph.losses)

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Collect the gradients before an optimizer step, if the step is collected.

        The gradients are accumulated and unscaled, and not clipped yet.
        """
        if (self._gradients or self._statistics) and self._steps is not None:
            self._steps.take_gradients(
                optimizer, partial(loss_scale, trainer, pl_module, optimizer)
            )
        self._chain.before_optimizer_step(trainer, pl_module, optimizer)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Collect the step if an optimizer has stepped and the step is due."""
        steps = self._steps
        if steps is None:
            return
        global_step = trainer.global_step
        has_stepped = global_step != self._global_step  # once, however many optimizers stepped
        self._global_step = global_step
        accumulated = trainer.accumulate_grad_batches if pl_module.automatic_optimization else 1
        read_loss: Callable[[], torch.Tensor | None] = partial(
            mean_loss, loss_alone(outputs), accumulated
        )
        if self._loss_name is not None:
            read_loss = (
                partial(self._logged_loss, weakref.ref(trainer)) if has_stepped else lambda: None
            )
            # a mean, or a validation's, may take its place
            if has_stepped and trainer.is_last_batch:
                read_loss = partial(mean_loss, read_loss())
        steps.end_batch(read_loss, has_stepped, batch)
        self._chain.end_batch()
        if self._lineage is not None and self._lineage.awaits_loss:
            with self._guard("the train lineage"):
                self._lineage.end_early_batch(
                    trainer, pl_module, outputs, self._specified.collect_dataset_graph
                )
            self._graph.confirm(not self._lineage.awaits_loss)
        if steps.has_in_flight:
            self._record_finished()
        if has_stepped and not steps.has_in_flight:
            self._graph.write_when_observed()
        if has_stepped:
            self._landscape.end_step(steps.step, pl_module)

    def _record_finished(self, wait: bool = False) -> None:
        if self._steps is not None:
            for step, values in self._steps.drain(wait):
                if self._record is not None:
                    if self._statistics_names is not None:
                        self._statistics_names.add(self._steps.statistics_names)
                    self._chain.describe()
                    self._record.write_values(step, values)
                    self._graph.write_when_observed()

    def _logged_loss(self, trainer: weakref.ref[Any]) -> torch.Tensor | None:
        value = getattr(trainer(), "callback_metrics", {}).get(self._loss_name)
        if value is None:
            self._warn_once.warn(
                "loss",
                "loss/auto is not recorded, because training_step has not logged %r. Log this "
                "metric",
                self._loss_name,
            )
        return mean_loss(value)

    # ---- epochs, checkpoints, evaluation

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Save the parameters after an epoch that a loss landscape needs."""
        if self._steps is None:
            return
        self._steps.close_operators()  # they are open if the module skipped the rest of the epoch
        if self._lineage is not None:
            self._lineage.end_epoch(trainer)
        self._landscape.end_epoch(self._steps.step, trainer.current_epoch + 1, pl_module)

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Save the step and the run directory in a checkpoint.

        The checkpoint's path and size are recorded at the next batch.
        """
        if self._steps is not None:  # a tuner saves one before any training
            # a callback before this one saves it
            is_in_step = trainer.global_step != self._global_step
            runs = [] if self._record is None else self._runs
            directories = [*dict.fromkeys(os.path.abspath(run.directory) for run in runs)]
            save_state(checkpoint, self._steps, is_in_step, directories, self._graph.recorded)
            if self._lineage is not None:
                self._lineage.checkpoint_saved(checkpoint)

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Read from a checkpoint the state of the run that is resumed."""
        self._resumed = saved_state(checkpoint)

    def _evaluation_recorder(self) -> LineageRecorder | None:
        return self._lineage if self._specified.collect_eval_lineage else None

    # ---- the run ends

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Record the final lineage, and the last step if it was not recorded before."""
        if self._steps is None:
            return
        with self._guard("the last step"):
            self._steps.end_run(partial(self._names.of, pl_module, trainer.optimizers))
            self._record_finished(wait=True)
        if self._lineage is not None:
            self._lineage.progress(trainer, pl_module)
            self._say_what_is_not_recorded(trainer)

    def _say_what_is_not_recorded(self, trainer: Any) -> None:
        """Warn that metrics which the module logs are not recorded without a logger.

        A library that makes its own Trainer may have omitted our logger.
        """
        logged = [name for name in trainer.logged_metrics if name not in ("epoch", "step")]
        has_logger = any(isinstance(logger, MindInsightLogger) for logger in trainer.loggers)
        if logged and not has_logger:
            rank_zero_info(
                f"SummaryCollector does not record logged metrics ({listed(logged, 3)}). "
                "Add a logger: trainer.loggers = [*trainer.loggers, MindInsightLogger('runs')]"
            )

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Write the steps collected so far, and the lineage, after an exception."""
        self._end_broken_evaluation(trainer)
        if self._steps is not None and trainer.state.fn == "fit":
            self._steps.close_operators(is_over=True)
            with self._guard("the last step"):
                self._record_finished(wait=self._record is not None)
            if self._lineage is not None:
                with self._guard("the train lineage"):
                    self._lineage.progress(trainer, pl_module)
        self._end("failed", trainer, pl_module)
        if self._lineage is not None:
            self._exception_checkpoints.follow(
                trainer, pl_module, self._lineage, self._guard, self._own_run is not None
            )

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Record checkpoints that were saved after ``on_train_end``, and close the files."""
        if self._lineage is not None:
            self._lineage.write_saved_checkpoint(trainer, pl_module)
        self._end("success", trainer, pl_module)

    def _end(self, status: str, trainer: Any, pl_module: Any) -> None:
        if self._steps is not None:
            self._landscape.end(self._steps.step, trainer.current_epoch, pl_module)
            self._steps.release()
        self._guard.log_total()
        self._graph.end()
        self._names.release()
        self._chain.end()
        if self._lineage is not None:
            self._lineage.end()
            if self._own_run is not None:
                self._own_run.end(status, trainer, self._specified.collect_train_lineage)

    def __getstate__(self) -> dict[str, Any]:
        dropped = ("_steps", "_record", "_lineage", "_statistics_names")
        new = {"_names": ParameterNames(), "_landscape": LandscapeSaver(self._guard)}
        return {**self.__dict__, **dict.fromkeys(dropped), **new}
