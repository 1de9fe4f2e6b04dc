"""``CellChain``: computes the output statistics of a MindSpore training step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import mindspore
import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.conversion.array_statistics import array_statistics
from mindsummary_lightning.conversion.calling_line import calling_line
from mindsummary_lightning.porting.mindspore.cell_calls import CellCalls
from mindsummary_lightning.porting.mindspore.cell_tree import (
    arguments,
    network_cells,
    parameters,
    tensors,
)
from mindsummary_lightning.porting.mindspore.optimizer_settings import group_settings
from mindsummary_lightning.values.step_chain import Link, OutputRow

# Any, in this module: MindSpore's cells, tensors and optimizers, and what the user's cells take and
# return.
_ORDER: tuple[Link, ...] = ("data", "weights", "forward", "loss", "gradients", "settings", "update")
_Reduced = tuple[str, tuple[int, ...], NDArray[np.float64]]


class CellChain:
    """Collects the output statistics of a MindSpore training step while it runs.

    Args:
        network: the ``Cell`` that is trained, without its loss.
        optimizer: the ``Cell`` that is called with the gradients, or ``None``.
        guarded: makes of a function one that raises nothing.
    """

    def __init__(
        self, network: Any, optimizer: Any, guarded: Callable[[Callable[..., None]], Any]
    ) -> None:
        self._network = network
        self._taken: dict[OutputRow, NDArray[np.float64]] = {}
        self._calls: Counter[str] = Counter()
        self._running: list[tuple[Any, OutputRow, list[tuple[str, _Reduced]]]] = []
        self._depths: list[int] = []  # of _running, as each cell was called
        self._enter, self._leave = guarded(self._add_inputs), guarded(self._add_outputs)
        self._optimize = guarded(self._add_gradients)
        self._cells: dict[int, tuple[str, str | None]] = {}
        self._optimizer = optimizer

    def watch(self) -> None:
        """Record all calls of cells and of the optimizer until :meth:`remove`."""
        self._cells = network_cells(self._network, self._optimizer)
        CellCalls.add(self)

    def remove(self) -> None:
        """Stop recording calls."""
        CellCalls.remove(self)

    def enter(
        self, cell: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Record the inputs of a cell."""
        if cell is self._optimizer:
            self._optimize(cell, args)
        self._depths.append(len(self._running))
        if id(cell) in self._cells:
            self._enter(cell, args, kwargs)
        return args, kwargs

    def leave(self, cell: Any, output: Any) -> Any:
        """Record the outputs of a cell."""
        if len(self._running) > self._depths[-1]:
            self._leave(output)
        self.abandon(cell)
        return output

    def abandon(self, cell: Any) -> None:
        """Discard a call that raised an error."""
        del self._running[self._depths.pop() :]

    def add_batch(self, batch: Any) -> None:
        """Record the tensors of a batch."""
        for path, tensor in tensors(batch):
            self._add(OutputRow("data", path), _reduced(tensor))

    def add_weights(self, link: Link) -> None:
        """Record parameters and running statistics, at the start or end of the step."""
        for name, kind, tensor in parameters(self._network):
            self._add(OutputRow(link, name, kind), _reduced(tensor))

    def add_loss(self, loss: Any) -> None:
        """Record the loss: the first scalar tensor that a step returned."""
        for _, tensor in tensors(loss):
            if tensor.size == 1:
                self._add(
                    OutputRow("loss", "", call=sum(row.link == "loss" for row in self._taken)),
                    _reduced(tensor),
                )
                return

    @property
    def rows(self) -> list[tuple[OutputRow, NDArray[np.float64]]]:
        """Return the rows in recorded order, with the values of columns after ``order``."""
        return sorted(self._taken.items(), key=lambda taken: _ORDER.index(taken[0].link))

    def _add(self, row: OutputRow, reduced: _Reduced) -> None:
        dtype, shape, columns = reduced
        self._taken[replace(row, dtype=dtype, shape=shape)] = columns

    def _add_inputs(self, cell: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        """Record the inputs of a cell, unless it runs again in the backward pass."""
        name, repeated = self._cells[id(cell)]
        if repeated is not None and all(row.name != repeated for _, row, _ in self._running):
            return
        row = OutputRow(
            "forward", name, type(cell).__name__, self._calls[name], line=calling_line()
        )
        self._calls[name] += 1
        self._running.append((cell, row, []))
        self._running[-1][2].extend(
            (path, _reduced(tensor)) for path, tensor in arguments(args, kwargs)
        )

    def _add_outputs(self, output: Any) -> None:
        _, row, inputs = self._running[-1]
        for path, reduced in inputs:
            self._add(replace(row, port="input", path=path), reduced)
        for path, tensor in tensors(output):
            self._add(replace(row, port="output", path=path), _reduced(tensor))

    def _add_gradients(self, optimizer: Any, args: Any) -> None:
        """Record the optimizer's input gradients and its settings."""
        own = {id(parameter): (name, kind) for name, kind, parameter in parameters(self._network)}
        scale = float(getattr(optimizer, "loss_scale", None) or 1.0)
        calls: Counter[str] = Counter(
            row.name for row in self._taken if row.link in ("gradients", "settings")
        )
        for parameter, gradient in zip(optimizer.parameters, args[0], strict=True):
            if id(parameter) in own and isinstance(gradient, mindspore.Tensor):
                name, kind = own[id(parameter)]
                row = OutputRow("gradients", name, kind, calls[name], "gradient")
                self._add(row, _reduced(gradient, scale))
        for number, settings in enumerate(group_settings(optimizer)):
            name = f"group {number}"
            for port, path, value in settings:
                self._add(
                    OutputRow("settings", name, call=calls[name] and 1, port=port, path=path),
                    _number(float(value)),
                )


def _reduced(tensor: Any, scale: float = 1.0) -> _Reduced:
    dtype = str(tensor.dtype).lower()
    array = (tensor.astype(mindspore.float32) if dtype == "bfloat16" else tensor).asnumpy()
    statistics = array_statistics(array / scale if scale != 1.0 else array)
    return {"bool_": "bool"}.get(dtype, dtype), tuple(map(int, tensor.shape)), statistics


def _number(value: float) -> _Reduced:
    return "float64", (), array_statistics(np.array(value))
