"""A graph while it is being captured: nodes, weights and constants by reference, named safely when it is finished.

The names that nodes refer to (ids, parameter names, constant keys) share one namespace in the reader, and a parameter
may not meet a scope; both can only be settled when all of them are known, so until then a ``Ref`` stands for each.
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

__all__ = ["TUPLE_GET_ITEM", "GraphDraft", "Ref"]

TUPLE_GET_ITEM = "TupleGetItem"
"""MindSpore's name for taking one of several results; the optimized view of the reader bridges such nodes."""


class _Kind(Enum):
    NODE = "node"
    PARAMETER = "parameter"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Ref:
    """Something a node can take as input, by its place in the draft."""

    kind: _Kind
    index: int


@dataclass(slots=True)
class _DraftNode:
    op_type: str
    scope: str
    inputs: tuple[Ref, ...]
    attributes: tuple[Attribute, ...]
    output_type: GraphType | None


@dataclass
class GraphDraft:
    """Collects a graph node by node, each after the nodes it takes input from.

    Attributes:
        scopes: where the scopes of the nodes were named.
        max_nodes: nodes that may be added before ``node`` raises ``GraphCaptureError``.
    """

    scopes: ScopeNames
    max_nodes: int
    _nodes: list[_DraftNode] = field(default_factory=list)
    _parameters: dict[tuple[str, bool], tuple[int, GraphType | None]] = field(default_factory=dict)
    _constants: list[AttributeValue] = field(default_factory=list)
    _outputs: list[tuple[Ref, GraphType | None]] = field(default_factory=list)

    def parameter(self, name: str, parameter_type: GraphType | None, *, is_input: bool = False) -> Ref:
        """A weight or buffer, or with ``is_input`` an input of the graph; the same name gives the same reference."""
        key = (name, is_input)
        index, _ = self._parameters.setdefault(key, (len(self._parameters), parameter_type))
        return Ref(_Kind.PARAMETER, index)

    def constant(self, value: AttributeValue) -> Ref:
        """A constant, one for each use as MindSpore does: a shared one would tie unrelated nodes together."""
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
            GraphCaptureError: the graph would pass ``max_nodes``.
        """
        if len(self._nodes) >= self.max_nodes:
            raise GraphCaptureError(
                f"the graph has more than {self.max_nodes} operations, which is the most that is recorded"
            )
        self._nodes.append(_DraftNode(safe_op_type(op_type), scope, tuple(inputs), attributes, output_type))
        return Ref(_Kind.NODE, len(self._nodes) - 1)

    def output(self, ref: Ref, output_type: GraphType | None) -> None:
        """Mark a result of the whole graph."""
        self._outputs.append((ref, output_type))

    def has_operations(self) -> bool:
        """Whether the reader's two views would have anything to show (the optimized one bridges tuple items)."""
        return any(node.op_type != TUPLE_GET_ITEM and node.inputs for node in self._nodes)

    def build(self, name: str) -> Graph:
        """The finished graph: decimal ids, unique names, only the parameters and constants that a node takes.

        Args:
            name: name of the graph.
        """
        used = {ref for node in self._nodes for ref in node.inputs}
        names = {Ref(_Kind.NODE, index): str(index + 1) for index in range(len(self._nodes))}
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
            nodes=tuple(_finished(node, str(k + 1), names) for k, node in enumerate(self._nodes)),
            name=name,
            parameters=tuple(parameters),
            constants=tuple(constants),
            outputs=tuple(GraphOutput(names[ref], kind) for ref, kind in self._outputs if ref in names),
        )


def _finished(node: _DraftNode, name: str, names: dict[Ref, str]) -> GraphNode:
    return GraphNode(
        name=name,
        op_type=node.op_type,
        scope=node.scope,
        full_name=f"{node.scope}/{node.op_type}-op{name}",
        inputs=tuple(GraphInput(names[ref]) for ref in node.inputs),
        attributes=node.attributes,
        output_type=node.output_type,
    )
