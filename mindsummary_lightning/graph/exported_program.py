"""From an exported program to a draft: which fx nodes are shown, what they are called and what they take.

Bookkeeping of the exporter (assertions, unused tuple items, counters of batch norm) is left out, regions that only
switch grad mode or autocast are opened, and an operation that writes in place is followed by whoever reads afterwards.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch import fx, nn

from mindsummary_lightning.graph.edge_types import graph_type, has_dynamic_shape, unnamed_dtype
from mindsummary_lightning.graph.graph_builder import TUPLE_GET_ITEM, GraphDraft, Ref
from mindsummary_lightning.graph.module_tree import ModuleTree, is_torch_module, module_properties
from mindsummary_lightning.graph.node_attributes import attribute_value, attributes_of
from mindsummary_lightning.graph.op_names import familiar_name
from mindsummary_lightning.values.graph_nodes import TensorType

__all__ = ["draw"]

_NETWORK = "network"
_UNTOLD = frozenset({"layout", "pin_memory"})
_GET_ITEM = "getitem"
_PASSED_THROUGH = frozenset({"lift_fresh_copy", "lift_fresh", "detach_"})
_BOOKKEEPING = re.compile(r"^(_assert\w*|sym_constrain\w*|_functional_assert\w*|_enter_autocast|_exit_autocast)$")
_DROPPED_WHEN_UNUSED = frozenset({_GET_ITEM, "sym_size", "sym_stride", "sym_numel", "ge", "le", "gt", "lt", "eq", "ne"})

# What an fx node stands for: one reference, those of an opened region's results, or nothing.
_Meaning: TypeAlias = "Ref | tuple[_Meaning, ...] | None"


def draw(program: Any, draft: GraphDraft, tree: ModuleTree, input_names: Sequence[str]) -> None:
    """Add all operations of an exported program to a draft.

    Args:
        program: ``torch.export.ExportedProgram`` of a wrapper whose child ``network`` is the tree's network.
        draft: receives the nodes.
        tree: names scopes and parameters.
        input_names: names of the program's tensor inputs, in order.

    Raises:
        GraphCaptureError: the draft is full.
    """
    meanings = _placeholders(program, draft, tree, input_names)
    drawing = _Drawing(draft, tree, meanings)
    drawing.run(program.graph)
    for node, value in _outputs(program.graph):
        meaning = drawing.meaning(node)
        if isinstance(meaning, Ref):
            draft.output(meaning, graph_type(value))


def _outputs(graph: fx.Graph) -> Iterator[tuple[fx.Node, Any]]:
    for node in graph.find_nodes(op="output"):
        for result in node.all_input_nodes:
            yield result, result.meta.get("val")


def _placeholders(
    program: Any, draft: GraphDraft, tree: ModuleTree, input_names: Sequence[str]
) -> dict[fx.Node, _Meaning]:
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    remaining = iter(input_names)
    meanings: dict[fx.Node, _Meaning] = {}
    for node in program.graph.find_nodes(op="placeholder"):
        spec, kind = specs[node.name], graph_type(node.meta.get("val"))
        if spec.kind.name == "USER_INPUT":
            meanings[node] = draft.parameter(next(remaining), kind, is_input=True)
        elif spec.kind.name == "CONSTANT_TENSOR":
            meanings[node] = draft.constant(kind if isinstance(kind, TensorType) else None)
        else:
            path = str(spec.target).removeprefix(f"{_NETWORK}.")
            meanings[node] = draft.parameter(tree.parameter_name(path), kind)
    return meanings


class _Drawing:
    """One pass over the nodes of a graph and of the regions inside it."""

    def __init__(self, draft: GraphDraft, tree: ModuleTree, meanings: dict[fx.Node, _Meaning]) -> None:
        self._draft = draft
        self._tree = tree
        self._meanings = meanings
        self._writes = _Writes()
        self._operations_of_call: Counter[str] = Counter()

    def run(self, graph: fx.Graph) -> None:
        unused = _unused(graph)
        shown = [node for node in graph.nodes if node.op == "call_function" and node not in unused]
        self._operations_of_call.update(_call_key(node) for node in shown if _function_name(node.target) != _GET_ITEM)
        for node in shown:
            self._meanings[node] = self._visit(node)

    def meaning(self, node: fx.Node) -> _Meaning:
        """What a node stands for at this point of the program."""
        return self._meanings.get(self._writes.newest(node))

    def _visit(self, node: fx.Node) -> _Meaning:
        name = _function_name(node.target)
        region = _region(node)
        if region is not None:
            return self._open(*region)
        first = node.args[0] if node.args else None
        if name in _PASSED_THROUGH and isinstance(first, fx.Node):
            return self.meaning(first)
        if name == _GET_ITEM and isinstance(first, fx.Node) and isinstance(self.meaning(first), tuple):
            return self._item(self.meaning(first), node.args[1])
        ref = self._draw(node, name)
        self._writes.note(node)
        return ref

    def _item(self, meaning: _Meaning, index: Any) -> _Meaning:
        return meaning[index] if isinstance(meaning, tuple) and isinstance(index, int) else None

    def _open(self, graph: fx.Graph, operands: Sequence[Any]) -> _Meaning:
        """Draw the nodes of a region in the place of the node that runs it."""
        for inner, outer in zip(graph.find_nodes(op="placeholder"), operands, strict=False):
            self._meanings[inner] = self.meaning(outer) if isinstance(outer, fx.Node) else None
        self.run(graph)
        (output,) = graph.find_nodes(op="output")
        results = output.args[0]
        if isinstance(results, fx.Node):
            return self.meaning(results)
        return tuple(self.meaning(result) if isinstance(result, fx.Node) else None for result in results)

    def _draw(self, node: fx.Node, name: str) -> Ref:
        value = node.meta.get("val")
        scope, module = self._tree.locate(_module_path(node))
        op_type, is_module = self._op_type(node, name, module)
        operands, properties = _operands(node)
        if is_module:  # a module says its numbers by name
            operands = [operand for operand in operands if _holds_node(operand)]
        inputs = [ref for operand in operands for ref in self._refs(operand)]
        shown = module_properties(module) if is_module else properties
        kind = graph_type(value)
        extra: list[tuple[str, Any]] = [("output_is_dynamic_shape", True)] if has_dynamic_shape(kind) else []
        dtype = unnamed_dtype(value)
        extra += [("output_dtype", dtype)] if dtype else []
        return self._draft.node(op_type, scope, inputs, attributes_of([*shown, *extra]), kind)

    def _op_type(self, node: fx.Node, name: str, module: nn.Module) -> tuple[str, bool]:
        if name == _GET_ITEM:
            return TUPLE_GET_ITEM, False
        own_class = type(module).__name__ if is_torch_module(module) else None
        if own_class is not None and not module._modules and self._operations_of_call[_call_key(node)] == 1:
            return own_class, True
        op_type = familiar_name(name, own_class)
        return op_type, op_type == own_class

    def _refs(self, operand: Any) -> Iterator[Ref]:
        if isinstance(operand, fx.Node):
            yield from _flat(self.meaning(operand))
        elif isinstance(operand, (list, tuple)):
            for element in operand:
                yield from self._refs(element)
        elif operand is not None:
            yield self._draft.constant(attribute_value(operand))


def _flat(meaning: _Meaning) -> Iterator[Ref]:
    if isinstance(meaning, Ref):
        yield meaning
    elif meaning is not None:
        for part in meaning:
            yield from _flat(part)


def _operands(node: fx.Node) -> tuple[list[Any], list[tuple[str, Any]]]:
    """What a node computes with, and what says how: tensors and numbers in their place, against stride, axis, ..."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return [*node.args, *node.kwargs.values()], []
    operands: list[Any] = []
    properties: list[tuple[str, Any]] = []
    given = dict(zip((argument.name for argument in schema.arguments), node.args, strict=False)) | dict(node.kwargs)
    for argument in schema.arguments:
        value = given.get(argument.name)
        if value is None:
            continue
        takes_data = str(argument.type) in ("Tensor", "number") and not argument.kwarg_only
        if takes_data or _holds_node(value):
            operands.append(value)
        elif argument.name not in _UNTOLD:
            properties.append((argument.name, value))
    return operands, properties


def _holds_node(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_node(element) for element in value)
    return isinstance(value, fx.Node)


def _function_name(target: Any) -> str:
    if isinstance(target, torch._ops.OpOverload):
        return str(target._schema.name).rpartition("::")[2]
    return str(getattr(target, "__name__", target))


def _call_key(node: fx.Node) -> str:
    return str(next(reversed(node.meta.get("nn_module_stack") or {"": ""})))


def _module_path(node: fx.Node) -> str:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = str(stack[-1][0]) if stack else ""
    return path.removeprefix(_NETWORK).removeprefix(".")


def _region(node: fx.Node) -> tuple[fx.Graph, Sequence[Any]] | None:
    """Graph and operands of a node that runs one nested graph (``wrap_with_set_grad_enabled`` and its like)."""
    if not isinstance(node.target, torch._ops.HigherOrderOperator):
        return None
    owner = node.graph.owning_module
    for place, argument in enumerate(node.args):
        if isinstance(argument, fx.Node) and argument.op == "get_attr" and owner is not None:
            inner = getattr(owner, str(argument.target), None)
            if isinstance(inner, fx.GraphModule) and _function_name(node.target).startswith("wrap"):
                return inner.graph, node.args[place + 1 :]
    return None


def _unused(graph: fx.Graph) -> set[fx.Node]:
    """Nodes of the exporter's bookkeeping that no shown node reads."""
    unused: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        if node.op != "call_function" or any(user not in unused for user in node.users):
            continue
        name = _function_name(node.target)
        if name in _DROPPED_WHEN_UNUSED or _BOOKKEEPING.match(name) or _counts_batches(node, name):
            unused.add(node)
    return unused


def _counts_batches(node: fx.Node, name: str) -> bool:
    target = node.args[0] if node.args else None
    return name == "add_" and isinstance(target, fx.Node) and target.name.endswith("num_batches_tracked")


class _Writes:
    """Which node holds the newest value of a tensor that operations write to in place."""

    def __init__(self) -> None:
        self._newest: dict[fx.Node, fx.Node] = {}
        self._owner: dict[fx.Node, fx.Node] = {}
        self._whole: set[fx.Node] = set()

    def newest(self, node: fx.Node) -> fx.Node:
        """The node to read instead of ``node``: the last one that wrote to it or to a view of it."""
        owner = self._owner.get(node, node)
        return self._newest.get(owner, node) if owner is node or node in self._whole else node

    def note(self, node: fx.Node) -> None:
        """Follow the aliases that the schema of a node declares."""
        schema = getattr(node.target, "_schema", None)
        for argument, value in zip(schema.arguments if schema else (), node.args, strict=False):
            if argument.alias_info is None or not isinstance(value, fx.Node):
                continue
            owner = self._owner.get(value, value)
            self._owner[node] = owner
            if argument.alias_info.is_write:
                self._newest[owner] = node
                if value is owner or value in self._whole:
                    self._whole.add(node)
