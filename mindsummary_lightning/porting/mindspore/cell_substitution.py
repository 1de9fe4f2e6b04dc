"""``CellSubstitution``: runs a MindSpore port's cells on the original's values."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import mindspore
import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.conversion.calling_line import calling_line
from mindsummary_lightning.porting.mindspore.cell_calls import CellCalls
from mindsummary_lightning.porting.mindspore.cell_tensors import as_array, dtype_name
from mindsummary_lightning.porting.mindspore.cell_tree import (
    arguments,
    network_cells,
    parameters,
    tensors,
    with_arguments,
    with_tensors,
)
from mindsummary_lightning.porting.mindspore.gradient_taps import (
    is_differentiable,
    substituted,
    with_injection,
)
from mindsummary_lightning.porting.mindspore.trained_cells import TrainedCells, loss_scale_of
from mindsummary_lightning.porting.mindspore.weight_gradients import shown_gradients
from mindsummary_lightning.porting.port_check.port_frames import (
    CallAnswer,
    PairedCall,
    PairedOutput,
    PortModule,
    PortTensor,
)
from mindsummary_lightning.porting.port_check.substituted_step import SubstitutedStep

# Any, in this module: MindSpore's cells and tensors, and what the user's cells take and return.
_UNIT = 2.0**-23  # distance of neighbouring float32 numbers, relative


class CellSubstitution:
    """Compares the tensors and gradients of cells with the original's.

    It also replaces them by the original's, so that a mistake does not affect later cells.

    Args:
        trained: network and optimizer of the port.
        step: compares the port with the original, and provides the original's values.
        injected: gradients for outputs that no gradient reaches, by the call's order of entering
            and the output's path.

    Attributes:
        optimizer_calls: how many times the optimizer was called.
        weights_with_gradients: names of the weights that the backward pass gave a gradient.
    """

    def __init__(
        self,
        trained: TrainedCells,
        step: SubstitutedStep,
        injected: Mapping[tuple[int, str], NDArray[Any]],
    ) -> None:
        self._network = trained.network
        self._optimizer = trained.optimizer
        self._step = step
        self._injected = injected
        self._to_inject: list[tuple[Any, NDArray[Any]]] = []
        self._cells = network_cells(trained.network, trained.optimizer)
        self._modules = {
            id(cell): port_module(name, cell) for name, cell in trained.network.cells_and_names()
        }
        self._running: list[tuple[Any, ...] | None] = []  # arguments of the calls that run
        self._hooks = ExitStack()
        self._is_paused = False
        self.optimizer_calls: int = 0
        self.weights_with_gradients: set[str] = set()

    def watch(self) -> None:
        """Compare and replace tensors until :meth:`remove` is called."""
        names = {id(tensor): name for name, _, tensor in parameters(self._network)}
        self._hooks.enter_context(
            shown_gradients(
                lambda parameter, gradient: self._weight_gradient(
                    names.get(id(parameter)), gradient
                )
            )
        )
        CellCalls.add(self)

    def remove(self) -> None:
        """Stop replacing tensors."""
        CellCalls.remove(self)
        self._hooks.close()

    # ---- CellCalls calls these

    def enter(
        self, cell: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Compare the inputs of a cell, and return the inputs that replace them."""
        if cell is self._optimizer:
            self.optimizer_calls += 1
            self._compare_stepped(args)
        if self._is_paused or not self._is_compared(cell):
            self._running.append(None)
            return args, kwargs
        found = arguments(args, kwargs)
        answer = self._step.forward.enter(
            self._modules[id(cell)], _port_tensors(found), calling_line()
        )
        values = iter(zip(answer.values, answer.heals, strict=True))
        args, kwargs = with_arguments(
            args, kwargs, lambda tensor: self._input(tensor, *next(values))
        )
        self._running.append((args, kwargs))
        return args, kwargs

    def _compare_stepped(self, args: tuple[Any, ...]) -> None:
        """Compare the gradients that the optimizer is called with."""
        gradients = args[0] if args else ()
        weights = getattr(self._optimizer, "parameters", ())
        if not isinstance(gradients, (tuple, list)) or len(gradients) != len(weights):
            return
        names = {id(tensor): name for name, _, tensor in parameters(self._network)}
        scale = loss_scale_of(self._optimizer)
        stepped = {}
        for weight, gradient in zip(weights, gradients, strict=True):
            if id(weight) in names and isinstance(gradient, mindspore.Tensor):
                stepped[names[id(weight)]] = as_array(gradient) / scale
        self._step.parts.stepped_gradients(stepped)

    def leave(self, cell: Any, output: Any) -> Any:
        """Compare the outputs of a cell, and return the outputs that replace them."""
        arguments_ = self._running.pop()
        if arguments_ is None:
            return output
        found = list(tensors(output))
        answer = self._step.forward.leave(
            _port_tensors(found), None, lambda: self._run_again(cell, *arguments_)
        )
        if answer.call is not None and self._trains_nothing(cell, answer.call):
            entered = answer.call.frame.entered
            keys = {(entered, each.port) for each in answer.call.outputs}
            self._step.gradients.outputs.needs_none.update(keys)
        places = iter(range(len(found)))
        return with_tensors(
            output, lambda tensor: self._output(tensor, found, answer, next(places))
        )

    def abandon(self, cell: Any) -> None:
        """Discard a call that raised an error, with which the run of the step ends."""
        self._running.pop()

    def _is_compared(self, cell: Any) -> bool:
        """Tell whether a call is part of the network's forward pass.

        A second call in the backward pass, for recomputation, is not.
        """
        if id(cell) not in self._cells:
            return False
        _, repeated = self._cells[id(cell)]
        if repeated is None:
            return True
        running = self._step.forward.running
        if running is None:
            return False
        return any(frame.module.name == repeated for frame in (running, *running.ancestors()))

    def _trains_nothing(self, cell: Any, call: PairedCall) -> bool:
        """Tell whether the outputs of a call need no gradient.

        This holds if no trained weight is in the call or before it.
        """
        if any(parameter.requires_grad for parameter in cell.get_parameters()):
            return False
        is_of_batch = self._step.reference.is_of_batch
        for each in call.frame.inputs:
            if each.array.dtype.kind == "f" and not is_of_batch(each.array):
                return False
        return True

    # ---- tensors

    def _input(self, tensor: Any, value: NDArray[Any] | None, heals: bool) -> Any:
        if value is None or np.array_equal(as_array(tensor), value):
            return tensor
        if heals and _heal(tensor, value):
            return tensor
        return self._with_value(tensor, value)

    def _with_value(self, tensor: Any, value: NDArray[Any]) -> Any:
        other = mindspore.Tensor(np.array(value), tensor.dtype)
        return substituted(tensor, other) if is_differentiable(tensor) else other

    def _output(
        self, tensor: Any, found: Sequence[tuple[str, Any]], answer: CallAnswer, place: int
    ) -> Any:
        value = answer.values[place]
        call = answer.call
        output = None if call is None else _output_of(call, found[place][0])
        if value is None and output is None:
            return tensor
        value = as_array(tensor) if value is None else value
        if call is None or output is None or not is_differentiable(tensor):
            return self._with_value(tensor, value)
        return self._with_gradient(tensor, value, call, output)

    def _with_gradient(
        self, tensor: Any, value: NDArray[Any], call: PairedCall, output: PairedOutput
    ) -> Any:
        """Return the original's values as a tensor with a watched gradient.

        The gradient is compared and replaced by the original's.
        """
        key = call.frame.entered, output.port
        if key in self._injected:
            self._to_inject.append((tensor, self._injected[key]))
            return self._with_value(tensor, value)  # no gradient reaches it: that is reported again
        other = mindspore.Tensor(np.array(value), tensor.dtype)

        def replace_gradient(gradient: Any) -> Any:
            expected = self._step.gradients.outputs.check(call, output, as_array(gradient))
            return (
                None if expected is None else mindspore.Tensor(np.array(expected), gradient.dtype)
            )

        replaced = substituted(tensor, other, replace_gradient)
        if output.gradient is not None and self._to_inject:
            replaced = self._with_injections(replaced)
        return replaced

    def _with_injections(self, carrier: Any) -> Any:
        for tensor, gradient in self._to_inject:
            carrier = with_injection(
                carrier, tensor, mindspore.Tensor(np.array(gradient), tensor.dtype)
            )
        self._to_inject = []
        return carrier

    def _weight_gradient(self, name: str | None, gradient: Any) -> Any:
        """Compare a weight's gradient, and return the original's gradient instead."""
        if name is None or not isinstance(gradient, mindspore.Tensor):
            return gradient
        array = as_array(gradient)
        self.weights_with_gradients.add(name)
        value = self._missing_gradient(name, array) if not array.any() else None
        if value is None:
            value = self._step.gradients.weights.check(name, array)
        return gradient if value is None else mindspore.Tensor(np.array(value), gradient.dtype)

    def _missing_gradient(self, name: str, array: NDArray[Any]) -> NDArray[Any] | None:
        """Return the original's gradient for a weight that no gradient reaches.

        MindSpore returns zeros for such a weight. ``None``: the gradient is not missing.
        """
        found = dict(self._step.gradients.weights.missing({name: array.shape}))
        return found.get(name)

    # ---- a second run of one cell

    def _run_again(
        self, cell: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[NDArray[Any]] | None:
        """Run a MindSpore layer again on inputs that are changed as by rounding.

        Every input element is moved by one unit in the last place.

        The outputs differ from the first run by as much as rounding may cause.
        """
        if not self._modules[id(cell)].is_library:
            return None
        state = saved_parameters(cell)
        self._is_paused = True
        try:
            moved, named = with_arguments(args, kwargs, _moved)
            with mindspore._no_grad():
                return [as_array(tensor) for _, tensor in tensors(cell(*moved, **named))]
        except (RuntimeError, TypeError, ValueError):
            return None
        finally:
            self._is_paused = False
            restore_parameters(state)


def port_module(name: str, cell: Any) -> PortModule:
    """Describe a cell of the port for the check, by its name and its class."""
    is_library = type(cell).__module__.startswith("mindspore.")
    return PortModule(name, type(cell).__name__, is_library)


def saved_parameters(cell: Any) -> list[tuple[Any, NDArray[Any], Any]]:
    """List the parameters of a cell with their values and dtypes."""
    return [(each, each.asnumpy().copy(), each.dtype) for each in cell.get_parameters()]


def restore_parameters(state: Sequence[tuple[Any, NDArray[Any], Any]]) -> None:
    """Restore the saved values of parameters."""
    for parameter, values, dtype in state:
        if parameter.asnumpy().tobytes() != values.tobytes():
            set_values(parameter, mindspore.Tensor(values, dtype))


def set_values(parameter: Any, values: Any) -> None:
    """Overwrite the values of a parameter in its own memory.

    ``set_data`` would leave it with memory that an optimizer does not wait for.
    """
    mindspore.ops.assign(parameter, values)
    parameter.asnumpy()  # waits


def _port_tensors(found: Sequence[tuple[str, Any]]) -> list[PortTensor]:
    return [PortTensor(path, as_array(tensor), dtype_name(tensor)) for path, tensor in found]


def _output_of(call: PairedCall, path: str) -> PairedOutput | None:
    return next((output for output in call.outputs if output.port == path), None)


def _heal(tensor: Any, value: NDArray[Any]) -> bool:
    """Overwrite a wrong tensor, so that later code gets the right values.

    Returns whether that was possible.

    The memory is written, as an operator in place would end the gradient of what has computed the
    tensor.
    """
    own = as_array(tensor)  # waits for what computes it
    is_plain = not isinstance(tensor, mindspore.Parameter) and dtype_name(tensor) == str(own.dtype)
    if (
        mindspore.get_context("device_target") != "CPU"
        or not is_plain
        or not tensor.is_contiguous()
    ):
        return False
    written = np.ascontiguousarray(value, own.dtype)
    ctypes.memmove(tensor.data_ptr(), written.ctypes.data, written.nbytes)
    return bool(np.array_equal(as_array(tensor), written))


def _moved(tensor: Any) -> Any:
    """Change every element of a tensor by one unit in the last place."""
    if not is_differentiable(tensor):
        return tensor
    signs = np.random.default_rng(0).choice([-_UNIT, _UNIT], tensor.shape)
    return mindspore.Tensor(as_array(tensor) * (1 + signs), tensor.dtype)
