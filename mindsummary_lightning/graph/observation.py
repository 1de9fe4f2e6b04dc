"""Build a computational graph from calls of modules and torch functions.

The graph is built while the calls happen.

It keeps no tensor: the operation that computed a tensor is stored under a weak reference.
``instruments`` observes the calls.
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
    r"_*r?(add|sub|mul|div|truediv|true_divide|floordiv|floor_divide|pow|mod|remainder"
    r"|eq|ne|gt|ge|lt|le)_*"
)
_IN_PLACE = re.compile(r"__(setitem|i\w+)__|(?!requires_grad_)\w*[^_]_")
# What these packages call in a training step is theirs: logging, gradient clipping, updates of
# weights, sharding, first values of lazy parameters.
_HIDDEN = (
    "torch.optim.",
    "torch.nn.utils.clip_grad",
    "torch.amp.",
    "torch.distributed.fsdp.",
    "torch.nn.modules.lazy",
)
_LIGHTNING = re.compile(
    r"(lightning\.pytorch|lightning\.fabric|pytorch_lightning|lightning_fabric)\.(?!demos\.)"
)


class Observation:
    """The computational graph of a network, built while the network runs.

    ``inputs`` are the arguments of the observed call by their names.

    Names of loss functions and modules are added to ``losses``, by the sequence number of their
    result's ``grad_fn``.
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
        """Note that a module is about to be called."""
        self._running.append(self._names.place(module, self._running[-1]))
        self._nodes_before.append(len(self._builder))

    def leave_module(self, is_whole: bool, arguments: Any, output: Any) -> None:
        """Note that the innermost module has returned ``output`` or raised an error.

        After an error, ``output`` is ``None``.
        """
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
        """Add the node of a torch function that has returned ``output``."""
        name = str(getattr(function, "__name__", "op"))
        if name == "__get__":
            self._add_attribute(function, args[0], output)
            return
        if name == "__setitem__":
            output = args[0]
        used = _tensors_in((args, kwargs))
        is_write = _writes(name, kwargs)
        results = _results(output, [] if is_write else used)
        # the count of batches is no part of the computation
        batch_count = self._running[-1].module._buffers.get("num_batches_tracked")
        if not results or results[0] is batch_count or not _is_users_call():
            return
        inputs = list(filter(None, map(self._ref, used)))
        if is_loss_function(function):
            self._add_loss(name, output)
        ref = None
        if inputs or not used:  # else it is computed from gradients alone
            numbers, properties = _operands(name, args, kwargs)
            inputs += map(self._builder.constant, numbers)
            ref = self._add(name, inputs, properties, output)
        for tensor in results:
            self._remember(tensor, ref)
            if is_write and tensor._is_view() and tensor._base is not None:
                self._remember(tensor._base, ref)

    def _add_attribute(self, getter: Any, owner: Any, value: Any) -> None:
        """Note that a value was read from an attribute of the tensor ``owner``.

        x.T, x.data and x.real are the same tensor in another form, x.grad is a gradient.
        """
        is_hidden = getattr(getter.__self__, "__name__", "") == "grad" or is_lazy(owner)
        for tensor in _tensors_in(value):
            self._remember(tensor, None if is_hidden else self._ref(owner))

    def add_whole(self, name: str, owner: Any, arguments: Any, output: Any) -> None:
        """Add a single node for code whose operations are not shown.

        The code is a compiled or scripted region, a fused kernel, or a C++ extension. If ``owner``
        is a module, the node uses its parameters and buffers.
        """
        used = [tensor for _, tensor in named_tensors({"used": arguments})]
        if isinstance(owner, nn.Module):
            used += [*owner.parameters(), *owner.buffers()]
        results = [tensor for _, tensor in named_tensors({"output": output})]
        if not results:
            return
        inputs = list(filter(None, dict.fromkeys(map(self._ref, used))))
        ref = self._add(name, inputs, [], output)
        for tensor in results:
            self._remember(tensor, ref)

    def finish(self, output: Any) -> Graph:
        """Return the graph of all calls up to ``output``, the observed call's result.

        Raises:
            GraphCaptureError: there were no calls.
        """
        for _, tensor in named_tensors({"output": output}):
            ref = self._ref(tensor)
            if ref:
                self._builder.output(ref, tensor_type(tensor))
        return self._builder.build(self._name)

    def _add_loss(self, name: str, output: Any) -> None:
        if not isinstance(output, torch.Tensor) or output._is_view():
            return
        if output.grad_fn is not None:
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
        """Return the name of a tensor's source: node, parameter, input or constant.

        A constant represents a tensor of unknown origin. The result is ``None`` for a gradient,
        which is hidden.
        """
        if tensor not in self._computed:
            self._remember(tensor, self._find(tensor))
        return self._computed[tensor]

    def _find(self, tensor: torch.Tensor) -> str | None:
        owned = self._names.parameter_name(tensor, self._running[-1])
        if owned is not None:
            if owned not in self._parameters:
                self._parameters[owned] = self._builder.parameter(owned[1], tensor_type(tensor))
            return self._parameters[owned]
        if tensor._is_view() and tensor._base is not None:
            return self._ref(tensor._base)
        if tensor.grad_fn is not None:
            return self._find_by_gradient(tensor.grad_fn, tensor)
        return self._builder.constant(tensor_type(tensor))

    def _find_by_gradient(self, function: torch.autograd.graph.Node, tensor: torch.Tensor) -> str:
        """Return the node of a call that only autograd has recorded.

        The call is that of a custom autograd.Function, or of a C++ extension.
        """
        known = self._by_gradient.get(function._sequence_nr())
        if known is not None:
            return known
        inputs: dict[str, None] = {}  # as an ordered set
        waiting, seen = [function], {function}
        while waiting:
            for source, _ in waiting.pop().next_functions:
                if source is None or source in seen:
                    continue
                seen.add(source)
                ref = self._known_source(source)
                if ref is None:
                    waiting.append(source)
                else:
                    inputs[ref] = None
        name = re.sub(r"Backward\d*$", "", function.name()).rpartition("::")[2]
        return self._add(name, list(inputs), [], tensor)

    def _known_source(self, function: torch.autograd.graph.Node) -> str | None:
        """Return the source of an autograd function's result, if it is known.

        The source of a leaf of autograd's graph is always known. Otherwise the result may be
        ``None``.
        """
        ref = self._by_gradient.get(function._sequence_nr())
        if ref is None and hasattr(function, "variable"):
            return self._ref(function.variable)
        return ref


def _writes(name: str, kwargs: Mapping[str, Any]) -> bool:
    """Tell whether a torch function writes into a tensor that it was given."""
    if _IN_PLACE.fullmatch(name):
        return True
    return kwargs.get("out") is not None or kwargs.get("inplace") is True


def _results(output: Any, known: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors of an output that are not in ``known``."""
    known_ids = {id(tensor) for tensor in known}
    return [tensor for tensor in _tensors_in(output) if id(tensor) not in known_ids]


def _operands(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[int | float], list[tuple[str, Any]]]:
    """Return the numbers that a function computes with, and its options."""
    options = [value for value in args if not _tensors_in(value)]
    numbers = []
    if _ARITHMETIC.fullmatch(name):
        numbers = [value for value in options if isinstance(value, (int, float))]
    properties = []
    if options and not numbers:
        properties.append(("args", options[0] if len(options) == 1 else tuple(options)))
    for key, value in kwargs.items():
        if value is not None and not _tensors_in(value):
            properties.append((key, value))
    return numbers, properties


def _is_users_call() -> bool:
    """Tell whether the user's code or model called the observed function.

    Otherwise Lightning or an optimizer called it.
    """
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
    """Return all tensors in nested tuples, lists and mappings.

    Torch functions take and return such containers.
    """
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return []
    tensors: list[torch.Tensor] = []
    for part in value:
        tensors += _tensors_in(part)
    return tensors


def named_tensors(values: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of a batch or result of any structure, with dotted names.

    An example of a name is ``batch.0.edge_index``.

    Attributes that begin with an underscore add nothing to the name: a PyTorch Geometric batch
    keeps ``x`` in ``_store._mapping``.
    """
    for key, part in leaves(values, batch_items):
        if isinstance(part, torch.Tensor):
            yield re.sub("/_[^/]*", "", key).replace("/", "."), part
