"""``CellTensors``: writes every tensor of a MindSpore training step to a file."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import mindspore
import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.conversion.calling_line import calling_line
from mindsummary_lightning.fileio.whole_step_file import WholeStepWriter
from mindsummary_lightning.porting.mindspore.cell_calls import CellCalls
from mindsummary_lightning.porting.mindspore.cell_tree import (
    arguments,
    network_cells,
    parameters,
    tensors,
)
from mindsummary_lightning.porting.mindspore.gradient_taps import is_differentiable, tapped
from mindsummary_lightning.porting.mindspore.optimizer_settings import (
    group_members,
    group_settings,
    optimizer_state,
    plain_settings,
)
from mindsummary_lightning.porting.mindspore.trained_cells import TrainedCells, loss_scale_of
from mindsummary_lightning.porting.mindspore.weight_gradients import shown_gradients
from mindsummary_lightning.values.whole_step import (
    StoredCall,
    StoredModule,
    StoredOptimizer,
    StoredState,
    StoredTensor,
    StoredWeight,
    WholeStep,
)

# Any, in this module: MindSpore's cells, tensors and optimizers, and what the user's cells take and
# return.
_PRECISIONS = ("float64", "float32", "float16", "bfloat16")  # from the finest to the coarsest
_SETTING = (bool, int, float, str)


class CellTensors:
    """Writes the tensors of a training step to a file while the step runs.

    Args:
        trained: network, optimizer and loss scale.
        writer: of the step's file.
        guarded: makes of a function one that raises nothing.
    """

    def __init__(
        self,
        trained: TrainedCells,
        writer: WholeStepWriter,
        guarded: Callable[[Callable[..., None]], Callable[..., None]],
    ) -> None:
        self._network = trained.network
        self._optimizer = trained.optimizer
        self._loss_scale = trained.loss_scale
        self._writer = writer
        self._guarded = guarded
        self._cells = network_cells(trained.network, trained.optimizer)
        self._calls: list[StoredCall] = []
        self._numbers: Counter[str] = Counter()
        # indices in _calls; None for a cell that is not recorded
        self._running: list[int | None] = []
        self._order = 0
        self._precision = _PRECISIONS[0]
        self._members: dict[tuple[bytes, str, tuple[int, ...]], StoredTensor] = {}
        self._weights: list[StoredWeight] = []
        self._gradients: dict[str, NDArray[Any]] = {}
        self._hooks = ExitStack()
        self._batch: tuple[StoredTensor, ...] = ()
        self._losses: list[StoredTensor] = []
        self._optimizers: list[StoredOptimizer] = []

    def add_batch(self, batch: Any) -> None:
        """Write the tensors of the batch."""
        self._batch = self._stored_all(tensors(batch))

    def add_weights(self) -> None:
        """Write parameters and buffers at the start of the step."""
        for name, kind, tensor in parameters(self._network):
            stored = self._stored(tensor)
            self._weights.append(StoredWeight(name, kind, stored, is_hooked=_has_hooks(tensor)))

    def watch(self) -> None:
        """Write the tensors of all cell calls, and all gradients, until :meth:`remove`."""
        names = self._names_by_identity()
        take = self._guarded(self._take_gradient)

        def shown(parameter: Any, gradient: Any) -> Any:
            take(names.get(id(parameter)), gradient)
            return gradient

        self._hooks.enter_context(shown_gradients(shown))
        CellCalls.add(self)

    def _names_by_identity(self) -> dict[int, str]:
        return {id(tensor): name for name, _, tensor in parameters(self._network)}

    def remove(self) -> None:
        """Stop writing cell calls and gradients."""
        CellCalls.remove(self)
        self._hooks.close()

    def add_loss(self, loss: Any) -> None:
        """Write the loss: the first scalar tensor that a step returned."""
        for _, tensor in tensors(loss):
            if tensor.size == 1:
                self._losses.append(self._stored(tensor))
                return

    def finish(self, step: int) -> str:
        """Write the weights after the step, and the index.

        Returns:
            The path of the file.

        Raises:
            ValueError: the step is larger than the writer allows.
        """
        after = {name: self._stored(tensor) for name, _, tensor in parameters(self._network)}
        gradients = {name: self._add(gradient) for name, gradient in self._gradients.items()}
        weights = []
        for weight in self._weights:
            name = weight.name
            weights.append(replace(weight, after=after.get(name), gradient=gradients.get(name)))
        modules = []
        for name, cell in self._network.cells_and_names():
            if id(cell) in self._cells:
                kind, is_training = type(cell).__name__, bool(cell.training)
                modules.append(StoredModule(name, kind, is_training, _settings(cell)))
        return self._writer.finish(
            WholeStep(
                "mindspore",
                mindspore.__version__,
                step,
                self._precision,
                str(mindspore.get_context("device_target")).lower(),
                tuple(modules),
                tuple(self._calls),
                (self._batch,),
                tuple(weights),
                tuple(self._losses),
                tuple(self._optimizers),
                self._loss_scale,
            )
        )

    def discard(self) -> None:
        """Discard the step, and remove its file."""
        self._writer.discard()

    # ---- CellCalls calls these

    def enter(
        self, cell: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Write the inputs of a cell."""
        if cell is self._optimizer:
            self._guarded(self._add_update)(cell, args)
        self._running.append(None)
        if id(cell) in self._cells:
            self._guarded(self._add_call)(cell, args, kwargs)
        return args, kwargs

    def leave(self, cell: Any, output: Any) -> Any:
        """Write the outputs of a cell, and return outputs with watched gradients."""
        index = self._running.pop()
        if index is None:
            return output
        self._guarded(self._add_outputs)(index, output)
        return self._watched(index, output, "")

    def abandon(self, cell: Any) -> None:
        """Discard a call that raised an error."""
        self._running.pop()

    def _add_call(self, cell: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        name, repeated = self._cells[id(cell)]
        running = [index for index in self._running if index is not None]
        if repeated is not None:
            running_cells = [self._calls[index].module for index in running]
            if repeated not in running_cells:
                return  # computed again in the backward pass
        call = StoredCall(
            name,
            type(cell).__name__,
            self._numbers[name],
            running[-1] if running else -1,
            self._next_order(),
            -1,
            calling_line(),
            self._stored_all(arguments(args, kwargs)),
            draws_random=_draws_random(cell),
        )
        self._numbers[name] += 1
        self._running[-1] = len(self._calls)
        self._calls.append(call)

    def _add_outputs(self, index: int, output: Any) -> None:
        stored = self._stored_all(tensors(output))
        call = self._calls[index] = replace(
            self._calls[index], outputs=stored, left=self._next_order()
        )
        if call.draws_random and call.parent >= 0:
            self._calls[call.parent] = replace(self._calls[call.parent], draws_random=True)

    def _watched(self, index: int, value: Any, path: str) -> Any:
        """Return an output whose gradients will be written in the backward pass.

        Objects of the user's classes stay as they are.
        """
        if isinstance(value, mindspore.Tensor):
            watches = is_differentiable(value) and not isinstance(value, mindspore.Parameter)
            return tapped(value, self._output_gradient_taker(index, path)) if watches else value
        if type(value) in (tuple, list):
            parts = []
            for number, part in enumerate(value):
                parts.append(self._watched(index, part, _path_below(path, number)))
            return type(value)(parts)
        if type(value) is dict:
            watched = {}
            for key, part in value.items():
                watched[key] = self._watched(index, part, _path_below(path, key))
            return watched
        return value

    def _output_gradient_taker(self, index: int, path: str) -> Callable[[Any], None]:
        @self._guarded
        def take(gradient: Any) -> None:
            stored = replace(self._stored(gradient), path=path)
            call = self._calls[index]
            self._calls[index] = replace(call, output_gradients=(*call.output_gradients, stored))

        return take

    def _take_gradient(self, name: str | None, gradient: Any) -> None:
        if name is not None and isinstance(gradient, mindspore.Tensor):
            array = as_array(gradient)
            if name in self._gradients:
                array = array + self._gradients[name]
            self._gradients[name] = array

    def _add_update(self, optimizer: Any, args: tuple[Any, ...]) -> None:
        """Write gradients, settings and state at an optimizer step."""
        names = self._names_by_identity()
        stepped = self._stepped_gradients(optimizer, args[0], names)
        for index, weight in enumerate(self._weights):
            gradient = stepped.get(weight.name)
            if gradient is not None:
                self._weights[index] = replace(weight, stepped_gradient=gradient)
        groups = [plain_settings(group) for group in group_settings(optimizer)]
        members = [_names_of(group, names) for group in group_members(optimizer)]
        state = []
        for each in optimizer_state(optimizer):
            weight_name = names.get(id(each.weight), "")
            state.append(StoredState(weight_name, each.name, self._stored(each.tensor)))
        stored = StoredOptimizer(
            type(optimizer).__name__, tuple(groups), tuple(members), tuple(state)
        )
        self._optimizers.append(stored)

    def _stepped_gradients(
        self, optimizer: Any, gradients: Any, names: Mapping[int, str]
    ) -> dict[str, StoredTensor]:
        scale = loss_scale_of(optimizer)
        stepped = {}
        for parameter, gradient in zip(optimizer.parameters, gradients, strict=True):
            if id(parameter) in names and isinstance(gradient, mindspore.Tensor):
                array = as_array(gradient)
                unscaled = array / array.dtype.type(scale) if scale != 1.0 else array
                stepped[names[id(parameter)]] = self._add(unscaled)
        return stepped

    def _next_order(self) -> int:
        self._order += 1
        return self._order - 1

    def _stored_all(self, found: Any) -> tuple[StoredTensor, ...]:
        return tuple(replace(self._stored(tensor), path=path) for path, tensor in found)

    def _stored(self, tensor: Any) -> StoredTensor:
        dtype = dtype_name(tensor)
        if dtype in _PRECISIONS[_PRECISIONS.index(self._precision) :]:
            self._precision = dtype
        return self._add(as_array(tensor), dtype)

    def _add(self, array: NDArray[Any], dtype: str = "") -> StoredTensor:
        """Write an array, unless the file holds an equal array."""
        array = np.ascontiguousarray(array).reshape(array.shape)
        if dtype == "bfloat16":
            array = (array.view(np.uint32) >> 16).astype(np.uint16)
        dtype = dtype or str(array.dtype)
        key = hashlib.blake2b(array.data, digest_size=16).digest(), dtype, array.shape
        if key not in self._members:
            self._members[key] = self._writer.add(array, dtype=dtype)
        return self._members[key]


def _path_below(path: str, key: object) -> str:
    return f"{path}.{key}".lstrip(".")


def _names_of(weights: list[Any], names: Mapping[int, str]) -> tuple[str, ...]:
    return tuple(names[id(weight)] for weight in weights if id(weight) in names)


def as_array(tensor: Any) -> NDArray[Any]:
    """Convert a tensor to a NumPy array; bfloat16 becomes float32."""
    if dtype_name(tensor) == "bfloat16":
        tensor = tensor.astype(mindspore.float32)
    array: NDArray[Any] = tensor.asnumpy()
    return array


def dtype_name(tensor: Any) -> str:
    """Return NumPy's name for the dtype of a tensor."""
    name = str(tensor.dtype).lower()
    return "bool" if name == "bool_" else name


def _has_hooks(tensor: Any) -> bool | None:
    """Tell whether hooks may change a weight's gradient.

    ``None`` if MindSpore does not tell.
    """
    hooks = getattr(tensor, "hooks", None)
    return bool(hooks()) if callable(hooks) else None


def _draws_random(cell: Any) -> bool:
    """Tell whether a cell is a dropout that is active."""
    is_dropout = type(cell).__name__.startswith(("Dropout", "DropPath", "StochasticDepth"))
    rate = getattr(cell, "p", getattr(cell, "drop_prob", None))
    is_without_effect = isinstance(rate, (int, float)) and rate == 0
    return is_dropout and bool(cell.training and not is_without_effect)


def _settings(cell: Any) -> dict[str, Any]:
    """Return the numbers and texts that a cell was constructed with."""
    names = sorted(vars(cell).keys() - vars(_PLAIN_CELL).keys())
    settings = {}
    for name in names:
        value = None if name.startswith("_") else getattr(cell, name, None)
        if type(value) in _SETTING:
            settings[name] = value
    return settings


_PLAIN_CELL = mindspore.nn.Cell()
