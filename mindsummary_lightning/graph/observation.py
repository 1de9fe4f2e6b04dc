"""``Observation``: calls of modules and torch functions, turned into a graph while they happen.

It holds no tensor: what computed a tensor is kept under a weak reference. ``instruments`` sees the
calls.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils.weak import WeakTensorKeyDictionary

from mindsummary_lightning.conversion.flattening import batch_items, leaves
from mindsummary_lightning.graph.graph_builder import GraphBuilder
from mindsummary_lightning.graph.loss_name import is_loss_function, is_loss_module
from mindsummary_lightning.graph.module_names import (
    ModuleNames,
    module_class_name,
    module_properties,
    torch_class_name,
)
from mindsummary_lightning.graph.node_details import (
    attributes_of,
    familiar_name,
    graph_type,
    tensor_type,
)
from mindsummary_lightning.values.graph_nodes import Graph

# Any, in this module: arguments and results of whatever the user calls.
# A number given to one of these is an operand such as the 2 of x * 2, else it is an option.
_ARITHMETIC = re.compile(
    r"_*r?(add|sub|mul|div|truediv|true_divide|floordiv|floor_divide|pow|mod|remainder|eq|ne|gt|ge|lt|le)_*"
)
_IN_PLACE = re.compile(r"__(setitem|i\w+)__|(?!requires_grad_)\w*[^_]_")
# What these packages call in a training step is theirs: logging, gradient clipping, updates of
# weights, sharding, first values of lazy parameters.
_HIDDEN = (
    "torch.optim.", "torch.nn.utils.clip_grad", "torch.amp.", "torch.distributed.fsdp.", "torch.nn.modules.lazy",
)  # fmt: skip
_LIGHTNING = re.compile(
    r"(lightning\.pytorch|lightning\.fabric|pytorch_lightning|lightning_fabric)\.(?!demos\.)"
)


class Observation:
    """The graph of a network, built while it runs on ``inputs``: arguments of the observed call by their names.

    Names of loss functions and modules go into ``losses``, by the sequence number of their result's
    ``grad_fn``.
    """

    def __init__(
        self, network: nn.Module, inputs: Mapping[str, Any], losses: dict[int, str]
    ) -> None:
        self._losses = losses
        self._name = module_class_name(network)
        self._builder = GraphBuilder()
        self._names = ModuleNames(network, self._builder.scope)
        self._running = [self._names.root]
        # the number of nodes when each running module was entered
        self._nodes_before: list[int] = []
        # Names of nodes, parameters and constants. None stands for a gradient of a parameter, which
        # is hidden.
        self._computed: MutableMapping[torch.Tensor, str | None] = WeakTensorKeyDictionary()
        self._by_gradient: dict[int, str | None] = {}  # by sequence number of the grad_fn
        self._parameters: dict[tuple[int, str], str] = {}  # by id of the module and dotted name
        for name, tensor in named_tensors(inputs):
            if tensor not in self._computed:
                self._remember(tensor, self._builder.parameter(name, tensor_type(tensor)))

    def enter_module(self, module: nn.Module) -> None:
        """A module is about to be called."""
        self._running.append(self._names.place(module, self._running[-1]))
        self._nodes_before.append(len(self._builder))

    def leave_module(self, is_whole: bool, arguments: Any, output: Any) -> None:
        """The innermost module has returned ``output``, or raised (then it is ``None``)."""
        module, is_empty = self._running[-1].module, len(self._builder) == self._nodes_before.pop()
        # A module without children or operations runs C++ that torch does not know, or nothing at
        # all.
        if is_whole or (is_empty and not module._modules):
            self.add_whole(module_class_name(module), module, arguments, output)
        self._running.pop()
        if module is not self._names.root.module and is_loss_module(module, output):
            self._add_loss(module_class_name(module), output)

    def add_operation(
        self, function: Any, args: Sequence[Any], kwargs: dict[str, Any], output: Any
    ) -> None:
        """A torch function has returned ``output``."""
        name = str(getattr(function, "__name__", "op"))
        # x.T, x.data and x.real are the tensor seen another way, x.grad is a gradient
        if name == "__get__":
            is_hidden = getattr(function.__self__, "__name__", "") == "grad" or is_lazy(args[0])
            for tensor in _tensors_in(output):
                self._remember(tensor, None if is_hidden else self._ref(args[0]))
            return
        if name == "__setitem__":
            output = args[0]
        used, results = _tensors_in((args, kwargs)), _tensors_in(output)
        is_write = (
            _IN_PLACE.fullmatch(name)
            or kwargs.get("out") is not None
            or kwargs.get("inplace") is True
        )
        if not is_write:
            known = {id(tensor) for tensor in used}
            results = [tensor for tensor in results if id(tensor) not in known]
        # no part of what is computed
        batch_count = self._running[-1].module._buffers.get("num_batches_tracked")
        if not results or results[0] is batch_count or not _is_users_call():
            return
        inputs = list(filter(None, map(self._ref, used)))
        if is_loss_function(function):
            self._add_loss(name, output)
        ref = None
        if inputs or not used:  # else it is computed from gradients alone
            options = [value for value in args if not _tensors_in(value)]
            numbers = [
                value
                for value in options
                if isinstance(value, (int, float)) and _ARITHMETIC.fullmatch(name)
            ]
            inputs += map(self._builder.constant, numbers)
            properties = [
                (key, value)
                for key, value in kwargs.items()
                if value is not None and not _tensors_in(value)
            ]
            if options and not numbers:
                properties.insert(0, ("args", options[0] if len(options) == 1 else tuple(options)))
            ref = self._add(name, inputs, properties, output)
        for tensor in results:
            self._remember(tensor, ref)
            if is_write and tensor._is_view() and tensor._base is not None:
                self._remember(tensor._base, ref)

    def add_whole(self, name: str, owner: Any, arguments: Any, output: Any) -> None:
        """Something ran that is shown as one node: a compiled or scripted region, a fused kernel, a C++ extension.

        If ``owner`` is a module, its parameters and buffers are used.
        """
        used = [tensor for _, tensor in named_tensors({"used": arguments})]
        used += [*owner.parameters(), *owner.buffers()] if isinstance(owner, nn.Module) else []
        if results := [tensor for _, tensor in named_tensors({"output": output})]:
            ref = self._add(
                name, list(filter(None, dict.fromkeys(map(self._ref, used)))), [], output
            )
            for tensor in results:
                self._remember(tensor, ref)

    def finish(self, output: Any) -> Graph:
        """The graph of everything up to ``output``, which the observed call returned; raises if nothing was seen."""
        for _, tensor in named_tensors({"output": output}):
            if ref := self._ref(tensor):
                self._builder.output(ref, tensor_type(tensor))
        return self._builder.build(self._name)

    def _add_loss(self, name: str, output: Any) -> None:
        if (
            isinstance(output, torch.Tensor)
            and not output._is_view()
            and output.grad_fn is not None
        ):
            self._losses[output.grad_fn._sequence_nr()] = name

    def _add(
        self, name: str, inputs: Sequence[str], properties: Sequence[tuple[str, Any]], output: Any
    ) -> str:
        module, _, scope = self._running[-1]
        module_class = torch_class_name(module)
        op_type = familiar_name(name, module_class)
        if op_type == module_class:
            properties = module_properties(module)
        return self._builder.node(
            op_type, scope, inputs, attributes_of(properties, output), graph_type(output)
        )

    def _remember(self, tensor: torch.Tensor, ref: str | None) -> None:
        self._computed[tensor] = ref
        # Reading the grad_fn of a view may create one, which would change the order of the backward
        # pass.
        if not tensor._is_view() and tensor.grad_fn is not None:
            self._by_gradient[tensor.grad_fn._sequence_nr()] = ref

    def _ref(self, tensor: torch.Tensor) -> str | None:
        """What computed a tensor: a node, a parameter or input, or a constant for a tensor from elsewhere."""
        if tensor not in self._computed:
            self._remember(tensor, self._find(tensor))
        return self._computed[tensor]

    def _find(self, tensor: torch.Tensor) -> str | None:
        if (owned := self._names.parameter_name(tensor, self._running[-1])) is not None:
            if owned not in self._parameters:
                self._parameters[owned] = self._builder.parameter(owned[1], tensor_type(tensor))
            return self._parameters[owned]
        if tensor._is_view() and tensor._base is not None:
            return self._ref(tensor._base)
        if tensor.grad_fn is not None:
            return self._find_by_gradient(tensor.grad_fn, tensor)
        return self._builder.constant(tensor_type(tensor))

    def _find_by_gradient(self, function: torch.autograd.graph.Node, tensor: torch.Tensor) -> str:
        """A node for what autograd saw and torch functions did not: a custom autograd.Function, a C++ extension."""
        if (known := self._by_gradient.get(function._sequence_nr())) is not None:
            return known
        inputs: dict[str, None] = {}  # as an ordered set
        waiting, seen = [function], {function}
        while waiting:
            for source, _ in waiting.pop().next_functions:
                if source is None or source in seen:
                    continue
                seen.add(source)
                ref = self._by_gradient.get(source._sequence_nr())
                if ref is None and hasattr(source, "variable"):  # a leaf of autograd's graph
                    ref = self._ref(source.variable)
                if ref is None:
                    waiting.append(source)
                else:
                    inputs[ref] = None
        return self._add(
            re.sub(r"Backward\d*$", "", function.name()).rpartition("::")[2],
            list(inputs),
            [],
            tensor,
        )


def _is_users_call() -> bool:
    """Whether the function being observed was called by the user's code or model, not by Lightning or an optimizer."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_HIDDEN):
            return False
        if module != "torch" and not module.startswith(
            ("torch.", "mindsummary_lightning.", "contextlib")
        ):
            return _LIGHTNING.match(module) is None
        frame = frame.f_back
    return True


def _tensors_in(value: Any) -> list[torch.Tensor]:
    """Every tensor in nested tuples, lists and mappings, as torch functions take and return them."""
    if isinstance(value, torch.Tensor):
        return [value]
    parts = (
        value
        if isinstance(value, (tuple, list))
        else value.values()
        if isinstance(value, Mapping)
        else ()
    )
    return [tensor for part in parts for tensor in _tensors_in(part)]


def named_tensors(values: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in batches or results of any structure with its dotted name, such as ``batch.0.edge_index``.

    Underscored attributes add nothing to the name: a PyTorch Geometric batch keeps ``x`` in
    ``_store._mapping``.
    """
    for key, part in leaves(values, batch_items):
        if isinstance(part, torch.Tensor):
            yield re.sub("/_[^/]*", "", key).replace("/", "."), part
