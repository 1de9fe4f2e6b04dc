"""``GraphBuilder``: nodes, parameters and constants collected by reference and named when the graph is complete.

Node ids, parameter names and constant keys share one namespace in MindInsight, and a parameter must not be named like
a scope. Both can only be settled when all names are known, so until then a ``Ref`` stands for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mindsummary_lightning.errors import GraphCaptureError
from mindsummary_lightning.graph.scope_names import ScopeNames, safe_op_type, unique_parameter_name
from mindsummary_lightning.values.graph_nodes import (
    Attribute,
    AttributeValue,
    Graph,
    GraphConstant,
    GraphInput,
    GraphNode,
    GraphOutput,
    GraphParameter,
    GraphType,
)

__all__ = ["MAX_NODES", "GraphBuilder", "Ref"]

MAX_NODES = 100_000
"""Maximum number of operations; MindInsight does not load a larger graph."""


class Ref(NamedTuple):
    """Something that a node can take as input: ``"node"``, ``"parameter"`` or ``"constant"``, and its number."""

    kind: str
    number: int


class _Node(NamedTuple):
    op_type: str
    scope: str
    inputs: tuple[Ref, ...]
    attributes: tuple[Attribute, ...]
    output_type: GraphType | None


class GraphBuilder:
    """Collects a graph node by node, each after the nodes it takes input from.

    Args:
        scopes: has named the scopes of the nodes.
    """

    def __init__(self, scopes: ScopeNames) -> None:
        self._scopes = scopes
        self._nodes: list[_Node] = []
        self._parameters: dict[tuple[str, bool], tuple[int, GraphType | None]] = {}
        self._constants: list[AttributeValue] = []
        self._outputs: list[tuple[Ref, GraphType | None]] = []

    def __len__(self) -> int:
        return len(self._nodes)

    def parameter(self, name: str, parameter_type: GraphType | None, *, is_input: bool = False) -> Ref:
        """A weight or buffer, or with ``is_input`` an input of the graph; the same name gives the same reference."""
        index, _ = self._parameters.setdefault((name, is_input), (len(self._parameters), parameter_type))
        return Ref("parameter", index)

    def constant(self, value: AttributeValue) -> Ref:
        """A constant, one per use as MindSpore has it: a shared one would connect unrelated nodes."""
        self._constants.append(value)
        return Ref("constant", len(self._constants) - 1)

    def node(
        self,
        op_type: str,
        scope: str,
        inputs: Sequence[Ref],
        attributes: tuple[Attribute, ...] = (),
        output_type: GraphType | None = None,
    ) -> Ref:
        """One more operation.

        Raises:
            GraphCaptureError: the graph has ``MAX_NODES`` already.
        """
        if len(self._nodes) >= MAX_NODES:
            raise GraphCaptureError(f"it has more than {MAX_NODES} operations, the most that MindInsight loads")
        self._nodes.append(_Node(safe_op_type(op_type), scope, tuple(inputs), attributes, output_type))
        return Ref("node", len(self._nodes) - 1)

    def output(self, ref: Ref, output_type: GraphType | None) -> None:
        """Mark a result of the whole graph."""
        self._outputs.append((ref, output_type))

    def build(self, name: str) -> Graph:
        """The complete graph: decimal ids, unique names, only connected operations, parameters and constants.

        Args:
            name: name of the graph.

        Raises:
            GraphCaptureError: no operation has an input.
        """
        used = {ref for node in self._nodes for ref in node.inputs}
        refs = [Ref("node", index) for index in range(len(self._nodes))]
        connected = [(ref, node) for ref, node in zip(refs, self._nodes, strict=True) if node.inputs or ref in used]
        if not used:
            raise GraphCaptureError("no operation on a tensor was seen")
        names = {ref: str(number) for number, (ref, _) in enumerate(connected, start=1)}
        taken = {*self._scopes.parts, *names.values()}
        parameters: list[GraphParameter] = []
        for (text, _), (index, parameter_type) in self._parameters.items():
            if (ref := Ref("parameter", index)) in used:
                names[ref] = unique_parameter_name(text, taken)
                parameters.append(GraphParameter(names[ref], parameter_type))
        constants: list[GraphConstant] = []
        for index, value in enumerate(self._constants):
            names[Ref("constant", index)] = unique_parameter_name(f"cst{index + 1}", taken)
            constants.append(GraphConstant(names[Ref("constant", index)], value))
        return Graph(
            nodes=tuple(_graph_node(node, names[ref], names) for ref, node in connected),
            name=name,
            parameters=tuple(parameters),
            constants=tuple(constants),
            outputs=tuple(GraphOutput(names[ref], kind) for ref, kind in self._outputs if ref in names),
        )


def _graph_node(node: _Node, name: str, names: dict[Ref, str]) -> GraphNode:
    leaf = f"{node.op_type}-op{name}"
    return GraphNode(
        name=name,
        op_type=node.op_type,
        scope=node.scope,
        full_name=f"{node.scope}/{leaf}" if node.scope else leaf,
        inputs=tuple(GraphInput(names[ref]) for ref in node.inputs),
        attributes=node.attributes,
        output_type=node.output_type,
    )
