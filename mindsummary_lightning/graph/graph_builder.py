"""``GraphBuilder``: nodes, parameters and constants, each named as it is added."""

from __future__ import annotations

from collections.abc import Sequence

from mindsummary_lightning.errors import GraphCaptureError
from mindsummary_lightning.graph.scope_names import (
    MAX_SCOPE_DEPTH,
    safe_op_type,
    safe_parameter_name,
    safe_scope,
    unique,
)
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

__all__ = ["MAX_NODES", "GraphBuilder"]

MAX_NODES = 100_000
"""Maximum number of operations; MindInsight does not load a larger graph."""


class GraphBuilder:
    """Collects a graph node by node, each after what it takes input from; ids and names are strings, no two alike."""

    def __init__(self) -> None:
        self._nodes: list[GraphNode] = []
        self._parameters: list[GraphParameter] = []
        self._constants: list[GraphConstant] = []
        self._outputs: list[GraphOutput] = []
        self._names: set[str] = set()  # of parameters and constants
        self._scopes: set[str] = set()

    def __len__(self) -> int:
        return len(self._nodes)

    def scope(self, parent: str, name: str, class_name: str) -> str:
        """The scope of one more module inside the scope ``parent``, such as ``encoder-Sequential/0-Linear``."""
        if parent.count("/") >= MAX_SCOPE_DEPTH:
            return parent
        part = safe_scope(name, class_name)
        return unique(f"{parent}/{part}" if parent else part, self._scopes)

    def parameter(self, name: str, parameter_type: GraphType | None) -> str:
        """A weight, a buffer or an input of the graph; returns the name that it got."""
        name = unique(safe_parameter_name(name), self._names)
        self._parameters.append(GraphParameter(name, parameter_type))
        return name

    def constant(self, value: AttributeValue) -> str:
        """A constant, one per use as MindSpore has it: a shared one would connect unrelated nodes."""
        name = unique(f"cst{len(self._constants) + 1}", self._names)
        self._constants.append(GraphConstant(name, value))
        return name

    def node(
        self,
        op_type: str,
        scope: str,
        inputs: Sequence[str],
        attributes: tuple[Attribute, ...] = (),
        output_type: GraphType | None = None,
    ) -> str:
        """One more operation; returns its id.

        Raises:
            GraphCaptureError: the graph has ``MAX_NODES`` already.
        """
        if len(self._nodes) >= MAX_NODES:
            raise GraphCaptureError(f"it has more than {MAX_NODES} operations, the most that MindInsight loads")
        op_type, name = safe_op_type(op_type), str(len(self._nodes) + 1)
        leaf = f"{op_type}-op{name}"
        full_name = f"{scope}/{leaf}" if scope else leaf
        edges = tuple(map(GraphInput, inputs))
        self._nodes.append(GraphNode(name, op_type, scope, full_name, edges, attributes, output_type))
        return name

    def output(self, name: str, output_type: GraphType | None) -> None:
        """Mark a result of the whole graph."""
        self._outputs.append(GraphOutput(name, output_type))

    def build(self, name: str) -> Graph:
        """The graph of all that is connected.

        Raises:
            GraphCaptureError: no operation has an input.
        """
        used = {edge.name for node in self._nodes for edge in node.inputs}
        if not used:
            raise GraphCaptureError("no operation on a tensor was seen")
        nodes = {node.name: node for node in self._nodes if node.inputs or node.name in used}
        return Graph(
            nodes=tuple(nodes.values()),
            name=name,
            parameters=tuple(parameter for parameter in self._parameters if parameter.name in used),
            constants=tuple(constant for constant in self._constants if constant.name in used),
            outputs=tuple(output for output in self._outputs if output.name in nodes),
        )
