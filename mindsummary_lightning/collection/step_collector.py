"""The values of a run's collected steps: from what hooks hand out to tags and values ready to be written.

It counts the steps and asks the schedule; where tensors are converted is ``collect/tensors.py``'s business, and nothing
is written here.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from mindsummary_lightning.collection import operator_buffer
from mindsummary_lightning.collection.gradients import gradients_of, total_norm
from mindsummary_lightning.collection.input_images import image_batch
from mindsummary_lightning.collection.loss import mean_loss
from mindsummary_lightning.collection.options import CollectOptions
from mindsummary_lightning.collection.parameter_selection import select_parameters
from mindsummary_lightning.collection.schedule import Schedule
from mindsummary_lightning.collection.sharding import is_sharded
from mindsummary_lightning.collection.step_values import StepValues
from mindsummary_lightning.values import SummaryValue

__all__ = ["StepCollector"]

_LOG = logging.getLogger(__name__)

_MAX_IN_FLIGHT = 2  # steps; a device further behind is waited for, so that memory stays bounded

NamedParameters = Sequence[tuple[str, nn.Parameter]]


class StepCollector:
    """Collects step after step of one run.

    Args:
        specified: what to collect.
        schedule: when.
        named: the optimized parameters with their names, in the optimizers' order.
        gradients: ``True`` for gradients of the parameters that have histograms, an expression for those of others.
        step: steps done before, by the run that is being resumed.
        only_collective: on ranks above zero, collect only what all ranks must collect together.

    Attributes:
        step: steps done so far; the first one is 1.
    """

    def __init__(
        self,
        specified: CollectOptions,
        schedule: Schedule,
        named: NamedParameters,
        gradients: str | bool | None,
        step: int,
        only_collective: bool,
    ) -> None:
        self.step = step
        self._specified = specified
        self._schedule = schedule
        self._steps_before = step
        histograms = select_parameters(named, specified.histogram_regular) if specified.histograms else []
        selected = histograms if gradients is True else []
        if isinstance(gradients, str):
            selected = select_parameters(named, gradients)
        if only_collective:
            histograms, selected = ([pair for pair in pairs if is_sharded(pair[1])] for pairs in (histograms, selected))
        self._histograms, self._gradients = histograms, selected
        self._collects_gradients = bool(gradients)
        self._only_collective = only_collective
        self._waiting = operator_buffer.OperatorBuffer()
        self._values: StepValues | None = None
        self._norm: list[torch.Tensor] = []
        self._sent: deque[tuple[int, StepValues]] = deque()
        self._last_state = 0
        self._last_loss: Any = None
        self._accumulated = 1
        self._reported: set[str] = set()

    @property
    def has_in_flight(self) -> bool:
        """Whether there is a step to collect_finished, arrived or not."""
        return bool(self._sent)

    def begin_batch(self) -> None:
        """A batch begins; take what summary operators give if its step is collected."""
        if not self._schedule.collects_anything(self.step + 1):
            return
        if self._values is None:
            self._values = StepValues()
            self._norm = []
        if not self._only_collective:
            self._waiting.begin_pass()
            operator_buffer.open_for(self._waiting)

    def take_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """An optimizer is about to step; its gradients are unscaled and not clipped yet."""
        if self._values is None or not self._collects_gradients or not self._schedule.collects(self.step + 1):
            return
        held = {id(parameter) for parameter in parameters}
        for name, parameter in self._gradients:
            if id(parameter) in held and parameter.grad is not None:
                self._values.add_histogram(f"{name}.gradient", parameter.grad)
        gradients = gradients_of(parameters)
        if gradients:
            self._norm.append(total_norm(gradients))

    def end_batch(self, outputs: Any, accumulated: int, has_stepped: bool, batch: Any) -> None:
        """A batch is done.

        Args:
            outputs: what the training step returned.
            accumulated: what Lightning divided the loss by.
            has_stepped: whether an optimizer stepped, which completes the step.
            batch: the batch, for its images.
        """
        if self._values is not None:
            operator_buffer.close(self._waiting)
        if not has_stepped:
            return
        self.step += 1
        self._last_loss, self._accumulated = outputs, accumulated
        values, self._values = self._values, None
        if values is None:
            return
        step, schedule = self.step, self._schedule
        if self._specified.collect_input_data and schedule.collects_inputs(step) and not self._only_collective:
            self._add_input(values, batch)
        self._add_operators(values)
        if schedule.collects(step):
            self._add_state(values)
        self._send(values)

    def end_run(self) -> None:
        """The run is over: collect the state after its last step, if that step was not collected."""
        operator_buffer.close(self._waiting)
        if self.step > self._steps_before and self._last_state != self.step:
            values = StepValues()
            self._add_state(values)
            self._send(values)

    def abandon(self) -> None:
        """The run broke off; nothing more is taken."""
        operator_buffer.close(self._waiting)

    def collect_finished(self, wait: bool = False) -> Iterator[tuple[int, list[tuple[str, SummaryValue]]]]:
        """The steps whose values have arrived, oldest first, and their values.

        Args:
            wait: for those that are still on their way, too.
        """
        while self._sent and (wait or self._sent[0][1].is_ready() or len(self._sent) > _MAX_IN_FLIGHT):
            step, values = self._sent.popleft()
            pairs = list(values.collect_finished())
            for tag, problem in values.problems:
                self._report(tag, f"{tag} is not recorded: {problem}")
            yield step, pairs

    def last_loss(self) -> float | None:
        """The loss of the last step done; waits for it."""
        loss = mean_loss(self._last_loss, self._accumulated)
        return None if loss is None else float(loss)

    def _add_input(self, values: StepValues, batch: Any) -> None:
        images = image_batch(batch)
        if images is None:
            self._report("input", "input_data/auto is not recorded: the batch holds no (N, 1 or 3, H, W) tensor")
        else:
            values.add_image("input_data/auto", images)

    def _add_state(self, values: StepValues) -> None:
        self._last_state = self.step
        for name, parameter in self._histograms:
            values.add_histogram(f"{name}/auto", parameter)
        # The single numbers come last: of more than 300 tags MindInsight drops those it saw first.
        if self._norm:
            values.add_scalar("gradient_norm", total_norm(self._norm))
            self._norm = []
        if self._specified.collect_metric and not self._only_collective:
            loss = mean_loss(self._last_loss, self._accumulated)
            if loss is None:
                self._report("loss", "loss/auto is not recorded: training_step returned nothing that holds a loss")
            else:
                values.add_scalar("loss/auto", loss)

    def _add_operators(self, values: StepValues) -> None:
        for plugin, name, value in self._waiting.take():
            is_due = self._schedule.collects_tensors if plugin == "tensor" else self._schedule.collects
            if is_due(self.step):
                getattr(values, f"add_{plugin}")(name, value)

    def _send(self, values: StepValues) -> None:
        values.send()
        self._sent.append((self.step, values))

    def _report(self, reason: str, text: str) -> None:
        if reason not in self._reported:
            self._reported.add(reason)
            _LOG.warning(text)
