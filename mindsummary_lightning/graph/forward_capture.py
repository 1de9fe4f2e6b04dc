"""The graph of the modules and functions that one real forward pass runs, for a model that torch.export refuses.

A module of torch.nn without children is one node; around them every torch function that is called is a node of its
own, so no edge is lost where tensors are joined outside of modules. The path taken is the one this input takes.
"""

from __future__ import annotations

import inspect
import threading
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils.weak import WeakTensorKeyDictionary

from mindsummary_lightning.graph.deadline import Deadline
from mindsummary_lightning.graph.edge_types import graph_type, unnamed_dtype
from mindsummary_lightning.graph.example_inputs import Call, tensors_in
from mindsummary_lightning.graph.graph_builder import GraphDraft, Ref
from mindsummary_lightning.graph.module_tree import ModuleTree, class_name, is_torch_module, module_properties
from mindsummary_lightning.graph.node_attributes import attribute_value, attributes_of
from mindsummary_lightning.graph.op_names import familiar_name
from mindsummary_lightning.graph.weight_backup import KeepWeights, buffers_replaced
from mindsummary_lightning.values.graph_nodes import Graph, TensorType

__all__ = ["capture_by_running"]

_PROPERTY_READ = "__get__"
_WRITES_ITS_FIRST_ARGUMENT = "__setitem__"
# Older releases of torch (2.5 among them) do not say what a module got by name; edges from that are then missing.
_HOOKS_GET_KWARGS = "with_kwargs" in inspect.signature(register_module_forward_hook).parameters


def capture_by_running(network: nn.Module, call: Call, *, time_limit_s: float, max_nodes: int, grad: bool) -> Graph:
    """Run ``network`` once and draw what ran.

    Args:
        network: unwrapped; the caller keeps its attributes and random states safe (``untouched``).
        call: example arguments, on the network's device.
        time_limit_s: seconds the pass may take.
        max_nodes: most operations the graph may have.
        grad: whether autograd is on; a forward that differentiates needs it.

    Raises:
        Exception: whatever the network raises; ``GraphCaptureError`` for the two limits.
    """
    named = call.named_tensors(network)
    keep = KeepWeights([*network.parameters(), *(tensor for _, tensor in named)])
    buffers_replaced(network)
    tree = ModuleTree(network)
    draft = GraphDraft(tree.scopes, max_nodes)
    recorder = _Recorder(draft, tree, time_limit_s)
    for name, tensor in named:
        recorder.know(tensor, draft.parameter(name, graph_type(tensor), is_input=True))
    try:
        with torch.set_grad_enabled(grad), keep, recorder.listening(), recorder:
            outputs = tensors_in(network(*call.args, **call.kwargs))
    finally:
        keep.restore()
    if not draft.has_operations():
        inputs = [recorder.ref(tensor) for _, tensor in named]
        draft.node(type(network).__name__, tree.scopes.root, inputs, attributes_of([]), graph_type(outputs))
    for tensor in outputs:
        draft.output(recorder.ref(tensor), graph_type(tensor))
    return draft.build(type(network).__name__)


class _Recorder(Deadline):
    """Turns each call of a module or torch function into a node, and remembers which node made which tensor."""

    def __init__(self, draft: GraphDraft, tree: ModuleTree, time_limit_s: float) -> None:
        super().__init__(time_limit_s)
        self._draft = draft
        self._tree = tree
        self._thread = threading.get_ident()
        self._paths = {id(module): path for path, module in reversed(list(tree.network.named_modules()))}
        self._running: list[nn.Module] = []
        self._inside_node = 0
        self._made = WeakTensorKeyDictionary()
        for name, weight in (*tree.network.named_parameters(), *tree.network.named_buffers()):
            self.know(weight, draft.parameter(tree.parameter_name(name), graph_type(weight)))

    def know(self, tensor: torch.Tensor, ref: Ref) -> None:
        """From now on ``tensor`` is what ``ref`` computes."""
        self._made[tensor] = ref

    def ref(self, tensor: torch.Tensor) -> Ref:
        """What made a tensor; a constant for one from outside the pass."""
        if tensor not in self._made:
            kind = graph_type(tensor)
            self.know(tensor, self._draft.constant(kind if isinstance(kind, TensorType) else None))
        ref: Ref = self._made[tensor]
        return ref

    def listening(self) -> _Listening:
        """A context in which calls of the network's modules are noted."""
        return _Listening(self)

    def enter_module(self, module: nn.Module) -> None:
        """Before the forward of a module of the network."""
        if threading.get_ident() == self._thread and id(module) in self._paths:
            self.check()
            self._running.append(module)
            self._inside_node += _is_one_node(module)

    def leave_module(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """After the forward of a module of the network, also when it raised."""
        if threading.get_ident() != self._thread or not self._running or self._running[-1] is not module:
            return
        if _is_one_node(module):
            self._inside_node -= 1
            if not self._inside_node:
                used = [*tensors_in((args, kwargs)), *module.parameters(), *module.buffers()]
                self._add(class_name(module), used, [], module_properties(module), output)
        self._running.pop()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        output = super().__torch_function__(func, types, args, kwargs)
        if not self._inside_node and threading.get_ident() == self._thread:
            self._note(str(getattr(func, "__name__", "op")), args, kwargs, output)
        return output

    def _note(self, name: str, args: Any, kwargs: Any, output: Any) -> None:
        used = tensors_in((args, kwargs))
        if name == _PROPERTY_READ:  # x.T, x.data, x.real: the tensor seen another way
            for tensor in tensors_in(output):
                if used and tensor not in self._made:
                    self.know(tensor, self.ref(used[0]))
            return
        if name == _WRITES_ITS_FIRST_ARGUMENT:
            output = args[0]
        made = tensors_in(output)
        writes = name.endswith("_") or name == _WRITES_ITS_FIRST_ARGUMENT or name.startswith("__i")
        if made and (writes or any(tensor not in self._made for tensor in made)):
            numbers = [value for value in args if isinstance(value, (int, float)) and not isinstance(value, bool)]
            properties = [(key, value) for key, value in kwargs.items() if not tensors_in(value)]
            self._add(name, used, numbers, properties, output)

    def _add(self, name: str, used: list[torch.Tensor], numbers: list[Any], properties: Any, output: Any) -> None:
        scope, _ = self._tree.locate(self._paths[id(self._running[-1])] if self._running else "")
        inputs = [self.ref(tensor) for tensor in used]
        inputs += [self._draft.constant(attribute_value(number)) for number in numbers]
        dtype = unnamed_dtype(output)
        attributes = attributes_of([*properties, *([("output_dtype", dtype)] if dtype else [])])
        op_type = familiar_name(name.removeprefix("__").removesuffix("__"), None)
        ref = self._draft.node(op_type, scope, inputs, attributes, graph_type(output))
        for tensor in tensors_in(output):
            self.know(tensor, ref)


class _Listening:
    """Global module hooks, which leave the modules' own hooks alone."""

    def __init__(self, recorder: _Recorder) -> None:
        self._recorder = recorder
        self._hooks = ExitStack()

    def __enter__(self) -> None:
        with ExitStack() as hooks:  # all of them or none: one that stayed would stop a training that is compiled
            before = register_module_forward_pre_hook(lambda module, args: self._recorder.enter_module(module))
            hooks.callback(before.remove)
            if _HOOKS_GET_KWARGS:
                after = register_module_forward_hook(self._leave, with_kwargs=True, always_call=True)
            else:
                after = register_module_forward_hook(
                    lambda module, args, output: self._leave(module, args, {}, output), always_call=True
                )
            hooks.callback(after.remove)
            self._hooks = hooks.pop_all()

    def __exit__(self, *_exception: object) -> None:
        self._hooks.close()

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        self._recorder.leave_module(module, args, kwargs, output)


def _is_one_node(module: nn.Module) -> bool:
    return isinstance(module, torch.jit.ScriptModule) or (is_torch_module(module) and not module._modules)
