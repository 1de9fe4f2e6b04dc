"""``ChainCollector``: computes the output statistics of a running training step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from mindsummary_lightning.collection.loss import mean_loss
from mindsummary_lightning.collection.operators import in_backward
from mindsummary_lightning.collection.step_values import StepValues
from mindsummary_lightning.conversion.calling_line import calling_line
from mindsummary_lightning.conversion.flattening import batch_items, leaves
from mindsummary_lightning.graph.module_calls import ModuleCalls, Watcher
from mindsummary_lightning.graph.module_names import (
    ModuleNames,
    Place,
    module_class_name,
    unwrapped,
)
from mindsummary_lightning.graph.observation import named_tensors
from mindsummary_lightning.porting.chain.open_step import ChainPart, OpenStep, Reduced
from mindsummary_lightning.porting.chain.whole_step_recorder import WholeStepRecorder
from mindsummary_lightning.values import SummaryValue, Tensor
from mindsummary_lightning.values.step_chain import COLUMNS, OUTPUT_STATISTICS_TAG, Link, OutputRow

# Any, in this module: batches, and arguments and results of the user's modules.
# settings that change no number
_HOW = frozenset({"foreach", "fused", "capturable", "differentiable"})


@dataclass(frozen=True, slots=True)
class _Call:
    """A running module call, with the statistics of its inputs."""

    place: Place
    row: OutputRow | None = None
    inputs: Sequence[tuple[str, Reduced]] = ()


class ChainCollector(Watcher):
    """Collects the output statistics of training steps in tables.

    Nothing that it is given is kept, and nothing waits for a device; what fails is noted, not
    raised. Of modules those whose names an expression matches from their start are taken, ``None``:
    all.

    Attributes:
        rows: what the rows of the tables are of. Those of an earlier fit into the run come first;
            none is removed.
    """

    def __init__(
        self,
        rows: Sequence[OutputRow] = (),
        modules: str | None = None,
        whole: WholeStepRecorder | None = None,
    ) -> None:
        self.rows: list[OutputRow] = [*rows]
        self._whole = whole
        self._numbers = {row.key: number for number, row in enumerate(self.rows)}
        self._modules = re.compile(modules or "")
        self._step: OpenStep | None = None
        self._running: list[_Call | None] = []

    @property
    def is_open(self) -> bool:
        """Whether a step has begun and is not finished."""
        return self._step is not None

    def begin(self, network: nn.Module, step: int = 0) -> None:
        """Start to record a step, with its weights and running statistics."""
        if self._step is None:
            self._step, self._running = (
                OpenStep(ModuleNames(network, lambda *_: ""), self._number_of),
                [],
            )
            self._add_weights(self._step, "weights")
            if self._whole is not None:
                with self._step.taking("whole tensors"):
                    self._whole.begin(self._step.names, step)

    def clear(self) -> None:
        """Discard the values of an unfinished step."""
        self._step = None
        if self._whole is not None:
            self._whole.clear()

    def call(
        self,
        batch: Any,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Call a loss function, and record its batch, its module calls and its loss."""
        step = self._step
        if step is None:
            return function(*args, **kwargs)
        self.add_batch(batch)
        losses = step.counted("loss")
        with ModuleCalls.told_to(self):
            output = function(*args, **kwargs)
        if step.counted("loss") == losses:
            self.add_loss(output)
        return output

    def add_batch(self, batch: Any) -> None:
        """Record the tensors of a batch."""
        if (step := self._step) is not None:
            number = step.count("data")
            with step.taking("the batch"):
                tensors = [*_tensors(batch)]
                for path, tensor in tensors:
                    step.add(OutputRow("data", path, call=number), tensor)
                if self._whole is not None:
                    self._whole.add_batch(tensors)

    def add_loss(self, output: Any) -> None:
        """Record the loss that a step returned."""
        if (step := self._step) is not None:
            with step.taking("the loss"):
                if (loss := mean_loss(output)) is not None:
                    step.add(OutputRow("loss", "", call=step.count("loss")), loss)
                    if self._whole is not None:
                        self._whole.add_loss(loss)

    def scale_gradients(self, scale: float) -> None:
        """Store the factor by which the loss is scaled in the step's backward pass."""
        if self._whole is not None:
            self._whole.loss_scale = scale

    def add_gradients(
        self, optimizer: Optimizer, first_group: int, scale: torch.Tensor | None
    ) -> None:
        """Record an optimizer's gradients and settings before it updates the weights.

        The recorded gradients are multiplied by ``scale``.

        The optimizer's groups are numbered from ``first_group`` on.
        """
        if (step := self._step) is None:
            return
        self._add_gradients(step, "gradients", optimizer, scale)
        if self._whole is not None:
            with step.taking("whole tensors"):
                self._whole.add_optimizer(optimizer, scale)
        with step.taking("settings"):
            for number, group in enumerate(optimizer.param_groups, first_group):
                name = f"group {number}"
                call = step.count("settings", name)
                for port, path, value in _settings(optimizer, group):
                    step.add(OutputRow("settings", name, call=call, port=port, path=path), value)

    def add_clipped(self, optimizer: Optimizer, scale: torch.Tensor | None) -> None:
        """Record an optimizer's gradients a second time, after clipping."""
        if (step := self._step) is not None:
            self._add_gradients(step, "clipped", optimizer, scale)
            if self._whole is not None:
                with step.taking("whole tensors"):
                    self._whole.add_optimizer(optimizer, scale)

    def _add_gradients(
        self, step: OpenStep, link: Link, optimizer: Optimizer, scale: torch.Tensor | None
    ) -> None:
        with step.taking("gradients"):
            held = {
                id(parameter) for group in optimizer.param_groups for parameter in group["params"]
            }
            for name, kind, parameter in step.names.tensors():
                gradient = parameter.grad if id(parameter) in held else None
                if gradient is not None:
                    # of an embedding
                    gradient = gradient if gradient.layout is torch.strided else gradient.to_dense()
                    unscaled = (
                        gradient if scale is None else gradient.float() / scale.to(gradient.device)
                    )
                    step.add(
                        OutputRow(link, name, kind, step.count(link, name), "gradient"), unscaled
                    )

    def move_into(self, values: StepValues) -> None:
        """Finish the step: add its recorded rows and final weights to ``values``."""
        if (step := self._step) is not None:
            self._add_weights(step, "update")
            # of what no optimizer holds, which so is told from what is frozen
            with step.taking("gradients"):
                for name, kind, parameter in step.names.tensors():
                    if parameter.grad is not None and not step.counted("gradients", name):
                        step.add(OutputRow("gradients", name, kind, 0, "gradient"), parameter.grad)
            if self._whole is not None:
                with step.taking("whole tensors"):
                    self._whole.finish()
            self._step = None
            step.move_into(values)

    def finish(self, pairs: Sequence[tuple[str, Any]]) -> list[tuple[str, SummaryValue]]:
        """Return a step's values, with all its recorded rows merged into a single table."""
        parts: list[ChainPart] = []
        others: list[tuple[str, SummaryValue]] = []
        for tag, value in pairs:
            if isinstance(value, ChainPart):
                parts.append(value)
            else:
                others.append((tag, value))
        if not parts:
            return others
        table = np.full((len(self.rows), len(COLUMNS)), np.nan, np.float32)
        with np.errstate(over="ignore"):
            for part in parts:
                table[part.rows] = part.values
        return [*others, (OUTPUT_STATISTICS_TAG, Tensor(table))]

    def _add_weights(self, step: OpenStep, link: Link) -> None:
        with step.taking("weights"):
            for name, kind, tensor in step.names.tensors():
                if not is_lazy(tensor):
                    step.add(OutputRow(link, name, kind), tensor)

    def _number_of(self, row: OutputRow) -> int:
        number = self._numbers.setdefault(row.key, len(self.rows))
        if number == len(self.rows):
            self.rows.append(row)
        return number

    # ---- what ModuleCalls tells

    def wants_calls(self) -> bool:
        """Tell whether module calls are recorded now.

        Not in a backward pass, where checkpointing computes a second time.
        """
        return self._step is not None and not in_backward()

    def enter_module(self, module: nn.Module, is_whole: bool, arguments: Any) -> None:
        """Record the inputs of a module before it can change them in place."""
        running, step = self._running, self._step
        running.append(None)
        if step is None:
            return
        with step.taking("a module's inputs"):
            running[-1] = self._entered(step, module, is_whole, arguments)
        if self._whole is not None:
            with step.taking("whole tensors"):
                self._enter_whole(self._whole, running[-1], arguments)

    def _entered(self, step: OpenStep, module: nn.Module, is_whole: bool, arguments: Any) -> _Call:
        caller = next(
            (call.place for call in reversed(self._running) if call is not None), step.names.root
        )
        place = step.names.place(module, caller)
        if place.path == caller.path and place.module not in (
            caller.module,
            step.names.root.module,
        ):
            place = place._replace(path=f"{place.path}.{module_class_name(module)}".lstrip("."))
        is_wrapper = unwrapped(module) is not module and not is_whole
        if is_wrapper or not self._modules.match(place.path):
            return _Call(place)
        number = step.count("forward", place.path)
        row = OutputRow(
            "forward", place.path, module_class_name(module), number, line=calling_line()
        )
        each = ((path, step.reduced(tensor)) for path, tensor in _arguments(*arguments))
        return _Call(place, row, [(path, reduced) for path, reduced in each if reduced is not None])

    @staticmethod
    def _enter_whole(whole: WholeStepRecorder, call: _Call | None, arguments: Any) -> None:
        if call is None or call.row is None:
            whole.enter_unseen()
        else:
            whole.enter(call.row.name, call.row.kind, call.row.line, _arguments(*arguments))

    def leave_module(self, is_whole: bool, arguments: Any, output: Any) -> None:
        """Record the outputs of the innermost running module."""
        call, step = self._running.pop(), self._step
        if step is None:
            return
        if self._whole is not None:
            with step.taking("whole tensors"):
                self._whole.leave([*_tensors(output)])
        if call is None or call.row is None:
            return
        with step.taking("a module's outputs"):
            for path, reduced in call.inputs:
                step.add(_at(call.row, "input", path), reduced)
            for path, tensor in _tensors(output):
                step.add(_at(call.row, "output", path), tensor)

    def fail(self, error: Exception) -> None:
        """Note an error that kept module calls of this step from being recorded."""
        if self._step is not None:
            self._step.note(error)


def _at(row: OutputRow, port: str, path: str) -> OutputRow:
    return OutputRow(row.link, row.name, row.kind, row.call, port, path, line=row.line)


def _tensors(value: Any) -> Iterable[tuple[str, torch.Tensor]]:
    """Yield all tensors in a batch, input or output, with their dotted paths."""
    return [("", value)] if isinstance(value, torch.Tensor) else named_tensors(value)


def _arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """List the tensors that a module is called with.

    The path of a single tensor is ``""``.
    """
    tensors = [*_tensors({**{str(place): value for place, value in enumerate(args)}, **kwargs})]
    return [("", tensors[0][1])] if len(tensors) == 1 and tensors[0][0] == "0" else tensors


def _settings(
    optimizer: Optimizer, group: Mapping[str, Any]
) -> Iterator[tuple[str, str, torch.Tensor]]:
    """Yield every setting of a parameter group: its name, its path and its value."""
    for name, setting in group.items():
        if name in optimizer.defaults and name not in _HOW:
            for path, value in leaves({name: setting}, batch_items):
                if isinstance(value, torch.Tensor) and value.numel() == 1:
                    yield name, path[len(name) + 1 :], value
                elif isinstance(value, (bool, int, float)):
                    yield (
                        name,
                        path[len(name) + 1 :],
                        torch.tensor(float(value), dtype=torch.float64),
                    )
