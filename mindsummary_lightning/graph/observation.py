"""``Observation``: calls of modules and torch functions, turned into a graph while they happen.

It holds no tensor: which node computed a tensor is kept under a weak reference. How the calls are seen is done in
``instruments``.
"""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from mindsummary_lightning.graph.edge_types import graph_type, tensor_type, unnamed_dtype
from mindsummary_lightning.graph.graph_builder import MAX_NODES, GraphBuilder, Ref
from mindsummary_lightning.graph.module_names import (
    ModuleNames,
    is_torch_module,
    module_class_name,
    module_properties,
    unwrapped,
)
from mindsummary_lightning.graph.node_attributes import attribute_value, attributes_of
from mindsummary_lightning.graph.op_names import familiar_name, is_arithmetic
from mindsummary_lightning.graph.tensors import named_tensors, tensors_in
from mindsummary_lightning.values.graph_nodes import Graph

__all__ = ["Observation"]

# Any, in this module: arguments and results of whatever the user calls.
_MAX_WALKED_GRADIENTS = 10_000
_BACKWARD = re.compile(r"Backward\d*$")
# Their own operations in a training step: logging, gradient clipping, the update of weights.
_NOT_THE_USERS = ("lightning.pytorch.", "lightning.fabric.", "pytorch_lightning.", "lightning_fabric.")
_BUT_THE_USERS = ("lightning.pytorch.demos.", "pytorch_lightning.demos.")
_SETTINGS = frozenset({"requires_grad_", "retain_grad", "register_hook"})  # of a tensor: they compute nothing
_HIDDEN_IN_TORCH = ("torch.optim.", "torch.nn.utils.clip_grad", "torch.amp.", "torch.distributed.fsdp.")


@dataclass(slots=True)
class _Call:
    module: nn.Module
    path: str
    scope: str
    nodes_before: int


class Observation:
    """The graph of a network, built while it runs.

    Args:
        network: the root of the scopes.
        max_nodes: number of operations after which ``GraphCaptureError`` is raised.
    """

    def __init__(self, network: nn.Module, max_nodes: int = MAX_NODES) -> None:
        self._name = module_class_name(network)
        self._names = ModuleNames(network)
        self._builder = GraphBuilder(self._names.scopes, max_nodes)
        self._running = [_Call(unwrapped(network), "", "", 0)]
        # By id of the tensor, because tensors compare element by element. None stands for a gradient, which is hidden.
        self._computed: dict[int, tuple[weakref.ref[torch.Tensor], Ref | None]] = {}
        self._by_gradient: dict[int, Ref] = {}

    def add_inputs(self, arguments: Iterable[tuple[str, Any]]) -> None:
        """Name the tensors that the observed call receives.

        Args:
            arguments: names and values of its arguments.
        """
        for name, value in arguments:
            for full_name, tensor in named_tensors(value, name):
                if not self._is_computed(tensor):
                    self._remember(tensor, self._builder.parameter(full_name, tensor_type(tensor), is_input=True))

    def enter_module(self, module: nn.Module) -> None:
        """A module is about to be called."""
        caller = self._running[-1]
        path, scope = self._names.place(module, caller.path, caller.scope)
        self._running.append(_Call(unwrapped(module), path, scope, len(self._builder)))

    def leave_module(self, arguments: Any, output: Any) -> None:
        """The innermost module has returned ``output``, or raised (then it is ``None``)."""
        call = self._running.pop()
        computes_unseen = len(self._builder) == call.nodes_before and not call.module._modules
        results = [tensor for _, tensor in named_tensors(output, "")] if computes_unseen else []
        if results:  # C++ that torch does not know, or nothing at all (nn.Identity)
            used = [tensor for _, tensor in named_tensors(arguments, "")]
            used += [weight for weight in call.module._parameters.values() if weight is not None]
            self._running.append(call)
            self._add(module_class_name(call.module), used, module_properties(call.module), output, results)
            self._running.pop()

    def add_operation(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any], output: Any) -> None:
        """A torch function has returned ``output``."""
        name = str(getattr(function, "__name__", "op"))
        if name == "__get__":
            self._add_property(str(getattr(function.__self__, "__name__", "")), args[0], output)
            return
        if name in _SETTINGS:
            return
        used = tensors_in((args, kwargs))
        is_write = _writes_in_place(name, kwargs)
        results = [args[0]] if name == "__setitem__" else tensors_in(output)
        if not is_write:
            known = {id(tensor) for tensor in used}
            results = [tensor for tensor in results if id(tensor) not in known and not self._is_computed(tensor)]
        if not results or not _is_users_call() or _counts_batches(name, used, self._running[-1].module):
            return
        if used and all(self._is_gradient(tensor) for tensor in used):
            for tensor in results:
                self._remember(tensor, None)
            return
        plain = [value for value in args if not tensors_in(value)]
        numbers = [value for value in plain if is_arithmetic(name) and isinstance(value, (int, float))]
        properties = [(key, value) for key, value in kwargs.items() if value is not None and not tensors_in(value)]
        if plain and not numbers:
            properties.insert(0, ("args", tuple(plain)))
        if name == "__setitem__":
            output = args[0]
        self._add(name, used, properties, output, results, numbers)

    def add_opaque(self, op_type: str, owner: nn.Module | None, arguments: Any, output: Any) -> None:
        """Something ran that is shown as one node: a compiled or scripted region or a fused kernel.

        Args:
            op_type: its name.
            owner: the module whose parameters and buffers it uses, if known.
            arguments: what it was called with.
            output: what it returned.
        """
        used = [tensor for _, tensor in named_tensors(arguments, "")]
        used += [] if owner is None else [*owner.parameters(), *owner.buffers()]
        results = [tensor for _, tensor in named_tensors(output, "")]
        properties = module_properties(owner) if owner is not None and is_torch_module(owner) else []
        self._add(op_type, list({id(tensor): tensor for tensor in used}.values()), properties, output, results)

    def finish(self, output: Any) -> Graph:
        """The graph of everything so far.

        Args:
            output: what the observed call returned.

        Raises:
            GraphCaptureError: no operation on a tensor was seen.
        """
        for _, tensor in named_tensors(output, ""):
            ref = self._ref(tensor)
            if ref is not None:
                self._builder.output(ref, tensor_type(tensor))
        return self._builder.build(self._name)

    def _add(
        self,
        name: str,
        used: Sequence[torch.Tensor],
        properties: Sequence[tuple[str, Any]],
        output: Any,
        results: Sequence[torch.Tensor],
        numbers: Sequence[Any] = (),
    ) -> None:
        call = self._running[-1]
        inputs = [ref for ref in map(self._ref, used) if ref is not None]
        inputs += [self._builder.constant(attribute_value(number)) for number in numbers]
        module_class = module_class_name(call.module) if is_torch_module(call.module) else None
        op_type = familiar_name(name, module_class)
        if op_type == module_class:
            properties = module_properties(call.module)
        dtype = unnamed_dtype(output)
        attributes = attributes_of([*properties, *([("output_dtype", dtype)] if dtype else [])])
        ref = self._builder.node(op_type, call.scope, inputs, attributes, graph_type(output))
        for tensor in results:
            self._remember(tensor, ref)
            if tensor._is_view() and _writes_in_place(name, {}):
                self._remember(tensor._base, ref)  # type: ignore[arg-type]  # a view has one

    def _add_property(self, name: str, tensor: torch.Tensor, output: Any) -> None:
        """``x.T``, ``x.data`` and ``x.real`` are the tensor seen another way, ``x.grad`` is a gradient."""
        for result in tensors_in(output):
            if name == "grad":
                self._remember(result, None)
            elif not self._is_computed(result) and result is not tensor:
                self._remember(result, self._ref(tensor))

    def _remember(self, tensor: torch.Tensor, ref: Ref | None) -> None:
        self._computed[id(tensor)] = (weakref.ref(tensor), ref)
        # Reading the grad_fn of a view may create one, which would change the order of the backward pass.
        if ref is not None and not tensor._is_view() and tensor.grad_fn is not None:
            self._by_gradient[tensor.grad_fn._sequence_nr()] = ref

    def _is_computed(self, tensor: torch.Tensor) -> bool:
        return id(tensor) in self._computed and self._computed[id(tensor)][0]() is tensor

    def _is_gradient(self, tensor: torch.Tensor) -> bool:
        return self._is_computed(tensor) and self._computed[id(tensor)][1] is None

    def _ref(self, tensor: torch.Tensor) -> Ref | None:
        """What computed a tensor: a node, a parameter or input, or a constant for a tensor from elsewhere."""
        if not self._is_computed(tensor):
            self._remember(tensor, self._find(tensor))
        return self._computed[id(tensor)][1]

    def _find(self, tensor: torch.Tensor) -> Ref | None:
        running = [(call.module, call.path) for call in reversed(self._running)]
        name = self._names.parameter_name(tensor, running)
        if name is not None:
            return self._builder.parameter(name, tensor_type(tensor))
        if tensor._is_view() and tensor._base is not None:
            return self._ref(tensor._base)
        if tensor.grad_fn is not None:
            return self._find_by_gradient(tensor)
        return self._builder.constant(tensor_type(tensor))

    def _find_by_gradient(self, tensor: torch.Tensor) -> Ref:
        """A node for what autograd saw and torch functions did not: a custom autograd.Function, a C++ extension."""
        function = tensor.grad_fn
        assert function is not None
        known = self._by_gradient.get(function._sequence_nr())
        if known is not None:
            return known
        inputs: dict[Ref, None] = {}
        waiting, seen = [function], {function}
        while waiting and len(seen) < _MAX_WALKED_GRADIENTS:
            for source, _ in waiting.pop().next_functions:
                if source is None or source in seen:
                    continue
                seen.add(source)
                ref = self._by_gradient.get(source._sequence_nr())
                if ref is None and hasattr(source, "variable"):
                    ref = self._ref(source.variable)
                if ref is None:
                    waiting.append(source)
                else:
                    inputs[ref] = None
        op_type = _BACKWARD.sub("", function.name()).rpartition("::")[2]
        return self._builder.node(op_type, self._running[-1].scope, list(inputs), (), tensor_type(tensor))


def _writes_in_place(name: str, kwargs: dict[str, Any]) -> bool:
    if name.startswith("__"):
        return name == "__setitem__" or (name.startswith("__i") and name not in ("__invert__", "__index__", "__int__"))
    return name.endswith("_") or kwargs.get("out") is not None or kwargs.get("inplace") is True


def _counts_batches(name: str, used: Sequence[torch.Tensor], module: nn.Module) -> bool:
    """Whether batch norm counts its batches, a number that is no part of what it computes."""
    return name == "add_" and bool(used) and used[0] is module._buffers.get("num_batches_tracked")


def _is_users_call() -> bool:
    """Whether the function being observed was called by the user's code or model, not by Lightning or an optimizer."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_HIDDEN_IN_TORCH):
            return False
        if module != "torch" and not module.startswith(("torch.", "mindsummary_lightning.", "contextlib")):
            return module.startswith(_BUT_THE_USERS) or not module.startswith(_NOT_THE_USERS)
        frame = frame.f_back  # type: ignore[assignment]
    return True
