"""Collects the values of the steps that a schedule chooses.

Values arrive from hooks and become tags and values that are ready to be written.

It counts the steps and asks the schedule; tensors are converted in `step_values`, and nothing is
written here.
"""

from __future__ import annotations

import difflib
import logging
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from mindsummary_lightning.collection import operator_buffer
from mindsummary_lightning.collection.gradients import GradientCollector
from mindsummary_lightning.collection.loss import mean_of_losses
from mindsummary_lightning.collection.options import CollectOptions
from mindsummary_lightning.collection.parameter_selection import NamedParameter, select_parameters
from mindsummary_lightning.collection.parameter_statistics import ParameterStatistics
from mindsummary_lightning.collection.schedule import Schedule
from mindsummary_lightning.collection.sharding import is_flattened, is_sharded
from mindsummary_lightning.collection.step_values import StepPart, StepValues
from mindsummary_lightning.conversion.flattening import batch_items, leaves
from mindsummary_lightning.errors import error_text, named_error
from mindsummary_lightning.values import SummaryValue
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)

_MAX_IN_FLIGHT = 2  # steps; a device further behind is waited for, so that memory stays bounded
_CLOSEST = 3  # parameter names that a warning proposes


class _Selection(NamedTuple):
    """The parameters to record, by the kind of record.

    They have a histogram, a histogram of their gradients, or a row of statistics.
    """

    histograms: Sequence[NamedParameter]
    gradients: Sequence[NamedParameter]
    statistics: Sequence[NamedParameter]


class StepCollector:
    """Collects the values of a run's steps in the order of the training's hooks.

    ``step`` is the number of steps done, with the steps of a resumed run.

    ``named`` are the parameters that the run begins with; each collected step asks for them again.
    Gradients are those of the parameters that have histograms (``True``), or of others by an
    expression. On ranks above zero, only what all ranks must collect together is collected.

    Attributes:
        step: number of steps done.
        takes_chain: whether the output statistics of the present step are recorded.
        raises: whether an unrecordable value raises an error when the values of its step are
            handed out, instead of skipped with a warning.
    """

    def __init__(
        self,
        specified: CollectOptions,
        schedule: Schedule,
        named: Sequence[NamedParameter],
        gradients: str | bool | None,
        step: int,
        is_rank_zero: bool,
        statistics: ParameterStatistics | None = None,
        statistics_pattern: str | None = None,
        chain: StepPart | None = None,
    ) -> None:
        self.step: int = step
        self.raises = False
        self._specified = specified
        self._schedule = schedule
        self._is_rank_zero = is_rank_zero
        self._warn_once = WarnOnce(_LOG)
        self._pattern = gradients
        self._gradients = GradientCollector() if gradients else None
        if gradients and any(is_flattened(each.parameter) for each in named):
            self._warn("fsdp1", _FSDP1)
            self._gradients = None
        self._statistics = statistics
        self._statistics_pattern = statistics_pattern
        self._chain = chain
        self.takes_chain: bool = False
        self._unmatched: set[str] = set()  # options whose expression matched no parameter
        # of the last step, and of what
        self._selected: tuple[Sequence[NamedParameter], _Selection] | None = None
        self._has_lazy = False
        self._use(lambda: named)
        self._selection()  # warns of what matches none
        self._use(None)
        self._operators = operator_buffer.OperatorBuffer()
        operator_buffer.begin_training(self._operators)
        weakref.finalize(self, operator_buffer.end_training, self._operators).atexit = False
        self._values: StepValues | None = None
        self._in_flight: deque[tuple[int, StepValues]] = deque()
        self._last_statistics = step  # the last one handed out
        self._last_state = step  # after which the state was collected, or nothing was done yet
        self._read_loss: Callable[[], torch.Tensor | None] = lambda: None
        # of the batches that a step accumulates
        self._earlier_losses: list[Callable[[], torch.Tensor | None]] = []

    @property
    def has_in_flight(self) -> bool:
        """Tell whether there are steps whose values have not been returned yet."""
        return bool(self._in_flight)

    @property
    def default_steps_used(self) -> tuple[int, int]:
        """Return how many default steps with tensors and with images are done.

        A run that resumes from here has this many fewer.
        """
        return self._schedule.default_steps_until(self.step)

    @property
    def statistics_names(self) -> Sequence[str]:
        """Return the row names of the parameter statistics tables recorded so far."""
        if self._statistics is None:
            return []
        return self._statistics.names

    def begin_batch(self, parameters: Callable[[], Sequence[NamedParameter]]) -> None:
        """Begin a batch.

        If its step is collected, values of summary operators are collected, and its ``parameters``
        later.
        """
        if not self._schedule.collects_anything(self.step + 1):
            return
        self._use(parameters)
        if self._values is None:
            self._values = StepValues()
            self.takes_chain = self._chain is not None and self._schedule.collects_chain(
                self.step + 1
            )
        if self._is_rank_zero:
            self._operators.begin_pass()
            operator_buffer.open_for(self._operators)

    def take_gradients(
        self, optimizer: Optimizer, scale: Callable[[], torch.Tensor | None]
    ) -> None:
        """Collect the gradients before an optimizer steps, and before they are clipped.

        Of several steps in a batch the last counts.

        ``scale`` gives what the gradients are still multiplied by, ``None`` for nothing; called on
        collected steps.
        """
        if self._values is None or not self._schedule.collects(self.step + 1):
            return
        factor = scale()
        parameters = [
            parameter for group in optimizer.param_groups for parameter in group["params"]
        ]
        if self._gradients is not None:
            self._gradients.take(id(optimizer), parameters, self._selection().gradients, factor)
        if self._statistics is not None:
            self._statistics.take_gradients(
                id(optimizer), parameters, self._selection().statistics, factor
            )

    def end_batch(
        self, read_loss: Callable[[], torch.Tensor | None], has_stepped: bool, batch: Any
    ) -> None:
        """End a batch; if an optimizer stepped, the step ends, too.

        ``read_loss`` is called if the loss is needed.

        The loss of a collected step is the mean of its batches.
        """
        if self._values is not None:
            operator_buffer.close(self._operators)
        if not has_stepped:
            if self._values is not None:
                self._earlier_losses.append(read_loss)
            return
        self.step += 1
        self._read_loss = read_loss
        if self._earlier_losses:
            self._read_loss = partial(mean_of_losses, [*self._earlier_losses, read_loss])
            self._earlier_losses = []
        values, self._values = self._values, None
        if values is None:
            return
        step, schedule = self.step, self._schedule
        if (
            self._specified.collect_input_data
            and schedule.collects_inputs(step)
            and self._is_rank_zero
        ):
            self._add_input(values, batch)
        self._add_operators(values)
        if schedule.collects(step):
            self._add_state(values)
        if self._chain is not None and self.takes_chain:
            self._chain.move_into(values)
            self.takes_chain = False
        self._send(values)

    def end_run(self, parameters: Callable[[], Sequence[NamedParameter]]) -> None:
        """Collect the final state at the end of a run.

        The state after its last step is collected, if that step was not collected.
        """
        self.close_operators(is_over=True)
        if self._last_state != self.step:
            for taken in (self._gradients, self._statistics):
                if taken is not None:
                    taken.clear()
            values = StepValues()
            self._use(parameters)
            self._add_state(values)
            self._send(values)

    def close_operators(self, is_over: bool = False) -> None:
        """Stop collecting operator values until a batch begins.

        Call it when the epoch or, with ``is_over``, the run has ended.
        """
        (operator_buffer.end_training if is_over else operator_buffer.close)(self._operators)
        self._use(None)

    def drain(self, wait: bool = False) -> Iterator[tuple[int, list[tuple[str, SummaryValue]]]]:
        """Yield the steps whose values have arrived on the CPU, oldest first.

        With ``wait`` the run ends: all in-flight steps, and what the last of them has left for the
        end.
        """
        in_flight = self._in_flight
        while in_flight and (wait or len(in_flight) > _MAX_IN_FLIGHT or in_flight[0][1].is_ready()):
            step, values = in_flight.popleft()
            pairs = list(values.drain())
            if self._statistics is not None and self._is_rank_zero:
                pairs = self._statistics.finish(step, pairs)
                self._last_statistics = step
            if self._chain is not None:
                pairs = self._chain.finish(pairs)
            for tag, problem in values.problems:
                self._warn(tag, "%s is not recorded: %s", tag, error_text(problem))
            yield step, pairs
            if self.raises and self._is_rank_zero and values.problems:
                raise named_error(*values.problems[0])
        if wait and self._statistics is not None:
            yield self._last_statistics, self._statistics.rest()

    def release(self) -> None:
        """Drop all references to parameters at the end of a fit."""
        self._use(None)
        self._selected = None
        if self._statistics is not None:
            self._statistics.release()

    def last_loss(self) -> float | None:
        """Return the loss of the last finished step, waiting for it if needed."""
        loss = self._read_loss()
        return None if loss is None else float(loss)

    def _add_input(self, values: StepValues, batch: Any) -> None:
        images = image_batch(batch)
        if images is not None:
            values.add_image("input_data/auto", images)
        else:
            self._report_absent(
                "collect_input_data",
                "input_data/auto is not recorded: the batch holds no image tensor, of shape "
                "(N, 1, H, W) or (N, 3, H, W)",
            )

    def _add_state(self, values: StepValues) -> None:
        self._last_state = self.step
        for each in self._selection().histograms:
            values.add_histogram(f"{each.name}/auto", each.value())
        # The single numbers come last: of more than 300 tags MindInsight drops those it saw first.
        if self._gradients is not None:
            self._gradients.move_into(values)
        if self._statistics is not None:
            self._statistics.move_into(values, self._selection().statistics)
        if self._specified.collect_metric and self._is_rank_zero:
            loss = self._read_loss()
            if loss is not None:
                values.add_scalar("loss/auto", loss)
            else:
                self._report_absent(
                    "collect_metric", "loss/auto is not recorded: training_step returned no loss"
                )

    def _add_operators(self, values: StepValues) -> None:
        for plugin, name, value in self._operators.take():
            is_due = (
                self._schedule.collects_tensors if plugin == "tensor" else self._schedule.collects
            )
            if is_due(self.step):
                getattr(values, f"add_{plugin}")(name, value)

    def _send(self, values: StepValues) -> None:
        values.send()
        self._use(None)
        self._in_flight.append((self.step, values))

    def _use(self, parameters: Callable[[], Sequence[NamedParameter]] | None) -> None:
        """Set the function that returns the present step's parameters, or ``None``."""
        self._parameters = parameters
        self._named: Sequence[NamedParameter] | None = None

    def _selection(self) -> _Selection:
        """Select the parameters to record, again if the model has changed."""
        if self._named is None:
            self._named = [] if self._parameters is None else self._parameters()
        named = self._named
        if self._selected is None or self._selected[0] is not named or self._has_lazy:
            self._has_lazy = False
            histograms: Sequence[NamedParameter] = []
            if self._specified.histograms:
                histograms = self._select(
                    named, "histogram_regular", self._specified.histogram_regular
                )
            gradients = histograms
            if isinstance(self._pattern, str) and self._gradients is not None:
                gradients = self._select(named, "collect_gradients", self._pattern)
            statistics: Sequence[NamedParameter] = []
            if self._statistics is not None:
                statistics = self._select(
                    named, "collect_parameter_statistics", self._statistics_pattern
                )
            self._selected = named, _Selection(histograms, gradients, statistics)
        return self._selected[1]

    def _select(
        self, named: Sequence[NamedParameter], option: str, pattern: str | None
    ) -> Sequence[NamedParameter]:
        """Select the parameters that match an option's pattern and can be recorded."""
        selected = select_parameters(named, pattern)
        if pattern is not None and not selected and named and option not in self._unmatched:
            self._unmatched.add(option)
            closest = difflib.get_close_matches(
                pattern, [each.name for each in named], _CLOSEST, cutoff=0
            )
            self._warn(
                option,
                "%s %r matches no parameter of an optimizer, so no parameter is recorded. The "
                "closest parameter names are %s",
                *(option, pattern, ", ".join(closest)),
            )
        whole = [each for each in selected if not is_flattened(each.parameter)]
        if len(whole) < len(selected):
            self._warn("fsdp1", _FSDP1)
        # Those of a lazy module that has not run yet: the same objects become parameters when it
        # does.
        ready = [each for each in whole if not is_lazy(each.parameter)]
        self._has_lazy |= len(ready) < len(whole)
        if self._is_rank_zero:
            return ready
        return [each for each in ready if is_sharded(each.parameter)]

    def _warn(self, key: str, message: str, *args: object, level: int = logging.WARNING) -> None:
        """Log a message once.

        Ranks above zero log nothing, because rank zero finds the same.
        """
        if self._is_rank_zero:
            self._warn_once.warn(key, message, *args, level=level)

    def _report_absent(self, option: str, message: str) -> None:
        """Warn that a value is absent, if the user asked for it by name.

        A default value that is absent is omitted without a warning.
        """
        level = logging.WARNING if option in self._specified.named else logging.DEBUG
        self._warn(option, message, level=level)


_FSDP1 = (
    "with FSDP1 (strategy='fsdp') each rank holds only part of a parameter, and the part looks "
    "like a whole parameter, so histograms and statistics of parameters and gradients are not "
    "recorded. Use ModelParallelStrategy with fully_shard (FSDP2), which records them"
)


def image_batch(batch: Any) -> torch.Tensor | None:
    """Find the first image batch in a batch, depth first; ``None`` without images.

    Its shape is ``(N, C, H, W)`` with C 1 or 3.

    A batch is a tensor, or any nesting of lists, tuples, mappings and objects with attributes.
    (MindSpore looks at the first column only.)
    """
    parts = (
        part for _, part in leaves({"batch": batch}, batch_items) if isinstance(part, torch.Tensor)
    )
    return next(
        (part for part in parts if part.ndim == 4 and part.shape[1] in (1, 3) and part.numel()),
        None,
    )
