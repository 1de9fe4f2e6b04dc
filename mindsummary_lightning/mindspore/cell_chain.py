"""``CellChain``: batch, weights, cells, loss, gradients and update of one step of a MindSpore network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import mindspore
import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.conversion.array_statistics import array_statistics
from mindsummary_lightning.conversion.calling_line import calling_line
from mindsummary_lightning.mindspore.cell_calls import CellCalls
from mindsummary_lightning.mindspore.optimizer_settings import group_settings
from mindsummary_lightning.values.step_chain import ChainRow, Link

# Any, in this module: MindSpore's cells, tensors and optimizers, and what the user's cells take and return.
_ORDER: tuple[Link, ...] = ("data", "weights", "forward", "loss", "gradients", "settings", "update")
_STATISTICS = ("moving_", "running_", "num_batches")  # how the last part of a running statistic's name begins
_Reduced = tuple[str, tuple[int, ...], NDArray[np.float64]]


class CellChain:
    """Takes the chain of one step while it runs.

    Args:
        network: the ``Cell`` that is trained, without its loss.
        optimizer: the ``Cell`` that is called with the gradients, or ``None``.
        guarded: makes of a function one that raises nothing.
    """

    def __init__(self, network: Any, optimizer: Any, guarded: Callable[[Callable[..., None]], Any]) -> None:
        self._network = network
        self._taken: dict[ChainRow, NDArray[np.float64]] = {}
        self._calls: Counter[str] = Counter()
        self._running: list[tuple[Any, ChainRow, list[tuple[str, _Reduced]]]] = []
        self._depths: list[int] = []  # of _running, as each cell was called
        self._enter, self._leave = guarded(self._add_inputs), guarded(self._add_outputs)
        self._optimize = guarded(self._add_gradients)
        self._cells: dict[int, tuple[str, Any]] = {}  # by identity: name, and the cell above that computes it again
        self._optimizer = optimizer

    def watch(self) -> None:
        """Take every call of a cell, and what the optimizer is called with, until :meth:`remove`."""
        for name, cell in reversed([*self._network.cells_and_names()]):
            is_inner = type(cell).__name__.startswith("_") and type(cell).__module__.startswith("mindspore.")
            if not (is_inner or isinstance(cell, mindspore.nn.Optimizer) or cell is self._optimizer):
                self._cells[id(cell)] = name, _recomputed_above(self._network, name)
        CellCalls.add(self)

    def remove(self) -> None:
        """Take nothing more."""
        CellCalls.remove(self)

    def enter(self, cell: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Take what a cell is called with."""
        if cell is self._optimizer:
            self._optimize(cell, args)
        self._depths.append(len(self._running))
        if id(cell) in self._cells:
            self._enter(cell, args, kwargs)
        return args, kwargs

    def leave(self, cell: Any, output: Any) -> Any:
        """Take what a cell has returned."""
        if len(self._running) > self._depths[-1]:
            self._leave(output)
        self.abandon(cell)
        return output

    def abandon(self, cell: Any) -> None:
        """Forget a call."""
        del self._running[self._depths.pop() :]

    def add_batch(self, batch: Any) -> None:
        """Take the tensors of a batch."""
        for path, tensor in _tensors(batch):
            self._add(ChainRow("data", path), _reduced(tensor))

    def add_weights(self, link: Link) -> None:
        """Take parameters and running statistics: ``weights`` as the step begins, ``update`` after it."""
        for name, kind, tensor in _parameters(self._network):
            self._add(ChainRow(link, name, kind), _reduced(tensor))

    def add_loss(self, loss: Any) -> None:
        """Take the loss: the first tensor of one element in what a step returned."""
        for _, tensor in _tensors(loss):
            if tensor.size == 1:
                self._add(ChainRow("loss", "", call=sum(row.link == "loss" for row in self._taken)), _reduced(tensor))
                return

    @property
    def rows(self) -> list[tuple[ChainRow, NDArray[np.float64]]]:
        """Rows in the order of the step, and their columns behind ``order``."""
        return sorted(self._taken.items(), key=lambda taken: _ORDER.index(taken[0].link))

    def _add(self, row: ChainRow, reduced: _Reduced) -> None:
        dtype, shape, columns = reduced
        self._taken[replace(row, dtype=dtype, shape=shape)] = columns

    def _add_inputs(self, cell: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        """Take what a cell is called with; below a cell that computes again in the backward pass only within that."""
        name, repeated = self._cells[id(cell)]
        if repeated is not None and all(cell is not repeated for cell, _, _ in self._running):
            return
        row = ChainRow("forward", name, type(cell).__name__, self._calls[name], line=calling_line())
        self._calls[name] += 1
        self._running.append((cell, row, []))
        self._running[-1][2].extend((path, _reduced(tensor)) for path, tensor in _arguments(args, kwargs))

    def _add_outputs(self, output: Any) -> None:
        _, row, inputs = self._running[-1]
        for path, reduced in inputs:
            self._add(replace(row, port="input", path=path), reduced)
        for path, tensor in _tensors(output):
            self._add(replace(row, port="output", path=path), _reduced(tensor))

    def _add_gradients(self, optimizer: Any, args: Any) -> None:
        """Take the gradients that the optimizer is called with, and its settings."""
        own = {id(parameter): (name, kind) for name, kind, parameter in _parameters(self._network)}
        scale = float(getattr(optimizer, "loss_scale", None) or 1.0)
        calls: Counter[str] = Counter(row.name for row in self._taken if row.link in ("gradients", "settings"))
        for parameter, gradient in zip(optimizer.parameters, args[0], strict=True):
            if id(parameter) in own and isinstance(gradient, mindspore.Tensor):
                name, kind = own[id(parameter)]
                row = ChainRow("gradients", name, kind, calls[name], "gradient")
                self._add(row, _reduced(gradient, scale))
        for number, settings in enumerate(group_settings(optimizer)):
            name = f"group {number}"
            for port, path, value in settings:
                self._add(
                    ChainRow("settings", name, call=calls[name] and 1, port=port, path=path), _number(float(value))
                )


def _recomputed_above(network: Any, name: str) -> Any:
    """The innermost cell above that computes its outputs again in the backward pass; ``None`` without one."""
    found, cell = None, network
    for part in name.split(".") if name else ():
        found = cell if getattr(cell, "_recompute_cell", None) is not None else found
        cell = getattr(cell, "_cells", {}).get(part)
    return found


def _parameters(network: Any) -> Iterator[tuple[str, str, Any]]:
    """Name in the network, as its cells have it, kind and tensor of each parameter and running statistic, once.

    A cell around the network, such as a loss of the user's, puts its own word before ``Parameter.name``.
    """
    for name, parameter in network.parameters_and_names():
        is_statistic = not parameter.requires_grad and name.rpartition(".")[2].startswith(_STATISTICS)
        yield name, "buffer" if is_statistic else "parameter", parameter
    for name, buffer in getattr(network, "named_buffers", tuple)():
        yield name, "buffer", buffer


def _reduced(tensor: Any, scale: float = 1.0) -> _Reduced:
    dtype = str(tensor.dtype).lower()
    array = (tensor.astype(mindspore.float32) if dtype == "bfloat16" else tensor).asnumpy()
    statistics = array_statistics(array / scale if scale != 1.0 else array)
    return {"bool_": "bool"}.get(dtype, dtype), tuple(map(int, tensor.shape)), statistics


def _number(value: float) -> _Reduced:
    return "float64", (), array_statistics(np.array(value))


def _tensors(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every tensor in a batch, input or output, with its dotted path; ``""`` if it is one itself."""
    if isinstance(value, mindspore.Tensor):
        yield path, value
        return
    if isinstance(value, Mapping):
        parts = [(str(key), part) for key, part in value.items()]
    elif isinstance(value, (tuple, list)):
        keys = getattr(value, "_fields", range(len(value)))
        parts = [(str(key), part) for key, part in zip(keys, value, strict=True)]
    else:
        parts = [*vars(value).items()] if hasattr(value, "__dataclass_fields__") else []
    for key, part in parts:
        yield from _tensors(part, f"{path}.{key}" if path else key)


def _arguments(args: Any, kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The tensors that a cell is called with; of one alone the path is ``""``."""
    tensors = [*_tensors({**{str(place): value for place, value in enumerate(args)}, **kwargs})]
    return [("", tensors[0][1])] if len(tensors) == 1 and tensors[0][0] == "0" else tensors
