"""``Observation``: calls of modules and torch functions, turned into a graph while they happen.

It holds no tensor: what computed a tensor is kept under a weak reference. How the calls are seen is done in
``instruments``.
"""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from mindsummary_lightning.graph.graph_builder import GraphBuilder
from mindsummary_lightning.graph.module_names import (
    ModuleNames,
    is_torch_module,
    module_class_name,
    module_properties,
    unwrapped,
)
from mindsummary_lightning.graph.node_details import attribute_value, attributes_of, graph_type, tensor_type
from mindsummary_lightning.graph.op_names import familiar_name, is_arithmetic
from mindsummary_lightning.graph.tensors import named_tensors, tensors_in
from mindsummary_lightning.values.graph_nodes import Graph

__all__ = ["Observation"]

# Any, in this module: arguments and results of whatever the user calls.
_MAX_WALKED_GRADIENTS = 10_000
_BACKWARD = re.compile(r"Backward\d*$")
_SETTINGS = frozenset({"requires_grad_", "retain_grad", "register_hook"})  # of a tensor: they compute nothing
# What these packages call in a training step is theirs: logging, gradient clipping, updates of weights, sharding.
_HIDDEN = ("torch.optim.", "torch.nn.utils.clip_grad", "torch.amp.", "torch.distributed.fsdp.")
_LIGHTNING = ("lightning.pytorch.", "lightning.fabric.", "pytorch_lightning.", "lightning_fabric.")
_MODELS_OF_LIGHTNING = ("lightning.pytorch.demos.", "pytorch_lightning.demos.")


class _Call(NamedTuple):
    module: nn.Module
    place: tuple[str, str]  # its path and scope
    nodes_before: int


class Observation:
    """The graph of a network, built while it runs.

    Args:
        network: the root of the scopes.
    """

    def __init__(self, network: nn.Module) -> None:
        self._name = module_class_name(network)
        self._builder = GraphBuilder()
        self._names = ModuleNames(network, self._builder.scope)
        self._running = [_Call(unwrapped(network), ("", ""), 0)]
        # Names of nodes, parameters and constants. None stands for a gradient of a parameter, which is hidden.
        self._computed: dict[int, tuple[weakref.ref[torch.Tensor], str | None]] = {}  # by id of the tensor
        self._by_gradient: dict[int, str] = {}  # by sequence number of the grad_fn
        self._parameters: dict[str, str] = {}  # by dotted name

    def add_inputs(self, arguments: Iterable[tuple[str, Any]]) -> None:
        """Name the tensors in the arguments (names and values) of the observed call."""
        for name, value in arguments:
            for full_name, tensor in named_tensors(value, name):
                if not self._is_computed(tensor):
                    self._remember(tensor, self._builder.parameter(full_name, tensor_type(tensor)))

    def enter_module(self, module: nn.Module) -> None:
        """A module is about to be called."""
        place = self._names.place(module, self._running[-1].place)
        self._running.append(_Call(unwrapped(module), place, len(self._builder)))

    def leave_module(self, arguments: Any, output: Any) -> None:
        """The innermost module has returned ``output``, or raised (then it is ``None``)."""
        module, _, nodes_before = self._running[-1]
        if len(self._builder) == nodes_before and not module._modules and output is not None:
            self.add_whole(module, arguments, output)  # it runs C++ that torch does not know, or nothing at all
        self._running.pop()

    def add_operation(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any], output: Any) -> None:
        """A torch function has returned ``output``."""
        name = str(getattr(function, "__name__", "op"))
        if name == "__get__":
            self._add_property(str(getattr(function.__self__, "__name__", "")), args[0], output)
            return
        used = tensors_in((args, kwargs))
        results = [args[0]] if name == "__setitem__" else tensors_in(output)
        is_write = _writes_in_place(name, kwargs)
        if not is_write:
            known = {id(tensor) for tensor in used}
            results = [tensor for tensor in results if id(tensor) not in known and not self._is_computed(tensor)]
        if not results or name in _SETTINGS or not _is_users_call() or self._counts_batches(name, used):
            return
        if used and all(self._is_computed(tensor) and self._ref(tensor) is None for tensor in used):
            for tensor in results:  # computed from gradients alone
                self._remember(tensor, None)
            return
        options = [value for value in args if not tensors_in(value)]
        numbers = [value for value in options if is_arithmetic(name) and isinstance(value, (int, float))]
        properties = [(key, value) for key, value in kwargs.items() if value is not None and not tensors_in(value)]
        if options and not numbers:
            properties.insert(0, ("args", options[0] if len(options) == 1 else tuple(options)))
        ref = self._add(name, used, properties, args[0] if name == "__setitem__" else output, numbers)
        for tensor in results:
            self._remember(tensor, ref)
            if is_write and tensor._is_view() and tensor._base is not None:
                self._remember(tensor._base, ref)

    def add_whole(self, owner: nn.Module | None, arguments: Any, output: Any, name: str = "") -> None:
        """Something ran that is shown as one node: a compiled or scripted region, a fused kernel, a C++ extension.

        Args:
            owner: the module whose parameters and buffers it uses, if known.
            arguments: what it was called with.
            output: what it returned.
            name: its name; empty for the class of the module.
        """
        used = [tensor for _, tensor in named_tensors(arguments, "")]
        used += [] if owner is None else [*owner.parameters(), *owner.buffers()]
        results = [tensor for _, tensor in named_tensors(output, "")]
        if results:
            whole = self._running[-1].module if owner is None else owner
            ref = self._add(
                name or module_class_name(whole), list({id(tensor): tensor for tensor in used}.values()), [], output
            )
            for tensor in results:
                self._remember(tensor, ref)

    def finish(self, output: Any) -> Graph:
        """The graph of everything so far.

        Args:
            output: what the observed call returned.

        Raises:
            GraphCaptureError: no operation on a tensor was seen.
        """
        for _, tensor in named_tensors(output, ""):
            if (ref := self._ref(tensor)) is not None:
                self._builder.output(ref, tensor_type(tensor))
        return self._builder.build(self._name)

    def _add(
        self, name: str, used: Iterable[torch.Tensor], properties: Sequence[Any], output: Any, numbers: Any = ()
    ) -> str:
        module, (_, scope), _ = self._running[-1]
        inputs = [ref for ref in map(self._ref, used) if ref is not None]
        inputs += [self._builder.constant(attribute_value(number)) for number in numbers]
        module_class = module_class_name(module) if is_torch_module(module) else None
        op_type = familiar_name(name, module_class)
        if op_type == module_class:
            properties = module_properties(module)
        return self._builder.node(op_type, scope, inputs, attributes_of(properties, output), graph_type(output))

    def _add_property(self, name: str, tensor: torch.Tensor, output: Any) -> None:
        """``x.T``, ``x.data`` and ``x.real`` are the tensor seen another way, ``x.grad`` is a gradient."""
        for result in tensors_in(output):
            if name == "grad":
                self._remember(result, None)
            elif not self._is_computed(result) and result is not tensor:
                self._remember(result, self._ref(tensor))

    def _remember(self, tensor: torch.Tensor, ref: str | None) -> None:
        self._computed[id(tensor)] = (weakref.ref(tensor), ref)
        # Reading the grad_fn of a view may create one, which would change the order of the backward pass.
        if ref is not None and not tensor._is_view() and tensor.grad_fn is not None:
            self._by_gradient[tensor.grad_fn._sequence_nr()] = ref

    def _is_computed(self, tensor: torch.Tensor) -> bool:
        return id(tensor) in self._computed and self._computed[id(tensor)][0]() is tensor

    def _ref(self, tensor: torch.Tensor) -> str | None:
        """What computed a tensor: a node, a parameter or input, or a constant for a tensor from elsewhere."""
        if not self._is_computed(tensor):
            self._remember(tensor, self._find(tensor))
        return self._computed[id(tensor)][1]

    def _find(self, tensor: torch.Tensor) -> str | None:
        name = self._names.parameter_name(tensor, [(call.module, call.place[0]) for call in reversed(self._running)])
        if name is not None:
            if name not in self._parameters:
                self._parameters[name] = self._builder.parameter(name, tensor_type(tensor))
            return self._parameters[name]
        if tensor._is_view() and tensor._base is not None:
            return self._ref(tensor._base)
        if tensor.grad_fn is not None:
            return self._find_by_gradient(tensor.grad_fn, tensor)
        return self._builder.constant(tensor_type(tensor))

    def _find_by_gradient(self, function: torch.autograd.graph.Node, tensor: torch.Tensor) -> str:
        """A node for what autograd saw and torch functions did not: a custom autograd.Function, a C++ extension."""
        if (known := self._by_gradient.get(function._sequence_nr())) is not None:
            return known
        inputs: dict[str, None] = {}
        waiting, seen = [function], {function}
        while waiting and len(seen) < _MAX_WALKED_GRADIENTS:
            for source, _ in waiting.pop().next_functions:
                if source is None or source in seen:
                    continue
                seen.add(source)
                ref = self._by_gradient.get(source._sequence_nr())
                if ref is None and hasattr(source, "variable"):  # a leaf of autograd's graph
                    ref = self._ref(source.variable)
                if ref is not None:
                    inputs[ref] = None
                else:
                    waiting.append(source)
        op_type = _BACKWARD.sub("", function.name()).rpartition("::")[2]
        return self._builder.node(op_type, self._running[-1].place[1], list(inputs), (), tensor_type(tensor))

    def _counts_batches(self, name: str, used: Sequence[torch.Tensor]) -> bool:
        """Whether batch norm counts its batches, a number that is no part of what it computes."""
        return name == "add_" and used[0] is self._running[-1].module._buffers.get("num_batches_tracked")


def _writes_in_place(name: str, kwargs: dict[str, Any]) -> bool:
    if name.startswith("__"):
        return name == "__setitem__" or (name.startswith("__i") and name not in ("__invert__", "__index__", "__int__"))
    return name.endswith("_") or kwargs.get("out") is not None or kwargs.get("inplace") is True


def _is_users_call() -> bool:
    """Whether the function being observed was called by the user's code or model, not by Lightning or an optimizer."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_HIDDEN):
            return False
        if module != "torch" and not module.startswith(("torch.", "mindsummary_lightning.", "contextlib")):
            return module.startswith(_MODELS_OF_LIGHTNING) or not module.startswith(_LIGHTNING)
        frame = frame.f_back  # type: ignore[assignment]
    return True
