"""``GraphBuilder``: nodes, parameters and constants collected by reference and named when the graph is complete.

Node ids, parameter names and constant keys share one namespace in MindInsight, and a parameter must not be named like
a scope. Both can only be settled when all names are known, so until then a ``Ref`` stands for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

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


class _Kind(Enum):
    NODE = "node"
    PARAMETER = "parameter"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Ref:
    """Something that a node can take as input: its kind and its index in the builder."""

    kind: _Kind
    index: int


@dataclass(slots=True)
class _Node:
    op_type: str
    scope: str
    inputs: tuple[Ref, ...]
    attributes: tuple[Attribute, ...]
    output_type: GraphType | None


@dataclass
class GraphBuilder:
    """Collects a graph node by node, each after the nodes it takes input from.

    Attributes:
        scopes: names the scopes of the nodes.
        max_nodes: number of nodes after which ``node`` raises.
    """

    scopes: ScopeNames = field(default_factory=ScopeNames)
    max_nodes: int = MAX_NODES
    _nodes: list[_Node] = field(default_factory=list)
    _parameters: dict[tuple[str, bool], tuple[int, GraphType | None]] = field(default_factory=dict)
    _constants: list[AttributeValue] = field(default_factory=list)
    _outputs: list[tuple[Ref, GraphType | None]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._nodes)

    def parameter(self, name: str, parameter_type: GraphType | None, *, is_input: bool = False) -> Ref:
        """A weight or buffer, or with ``is_input`` an input of the graph; the same name gives the same reference."""
        index, _ = self._parameters.setdefault((name, is_input), (len(self._parameters), parameter_type))
        return Ref(_Kind.PARAMETER, index)

    def constant(self, value: AttributeValue) -> Ref:
        """A constant, one per use as MindSpore has it: a shared one would connect unrelated nodes."""
        self._constants.append(value)
        return Ref(_Kind.CONSTANT, len(self._constants) - 1)

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
            GraphCaptureError: the graph has ``max_nodes`` already.
        """
        if len(self._nodes) >= self.max_nodes:
            raise GraphCaptureError(f"it has more than {self.max_nodes} operations, the most that MindInsight loads")
        self._nodes.append(_Node(safe_op_type(op_type), scope, tuple(inputs), attributes, output_type))
        return Ref(_Kind.NODE, len(self._nodes) - 1)

    def output(self, ref: Ref, output_type: GraphType | None) -> None:
        """Mark a result of the whole graph."""
        self._outputs.append((ref, output_type))

    def build(self, name: str) -> Graph:
        """The complete graph: decimal ids, unique names, only connected operations, parameters and constants.

        Args:
            name: name of the graph.

        Raises:
            GraphCaptureError: no operation is connected to anything.
        """
        used = {ref for node in self._nodes for ref in node.inputs}
        connected = [
            (Ref(_Kind.NODE, index), node)
            for index, node in enumerate(self._nodes)
            if node.inputs or Ref(_Kind.NODE, index) in used
        ]
        if not any(node.inputs for _, node in connected):
            raise GraphCaptureError("no operation on a tensor was seen")
        names = {ref: str(number) for number, (ref, _) in enumerate(connected, start=1)}
        taken = set(self.scopes.parts) | set(names.values())
        parameters: list[GraphParameter] = []
        for (text, _), (index, parameter_type) in self._parameters.items():
            ref = Ref(_Kind.PARAMETER, index)
            if ref in used:
                names[ref] = unique_parameter_name(text, taken)
                taken.add(names[ref])
                parameters.append(GraphParameter(names[ref], parameter_type))
        constants: list[GraphConstant] = []
        for index, value in enumerate(self._constants):
            ref = Ref(_Kind.CONSTANT, index)
            if ref in used:
                names[ref] = unique_parameter_name(f"cst{index + 1}", taken)
                taken.add(names[ref])
                constants.append(GraphConstant(names[ref], value))
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
