"""The nodes of a graph view by name, and the edges between nodes.

An edge is stored at both of its ends, under the name of the other end, so that a node is renamed in
one place.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

NAME_SCOPE, AGGREGATION_SCOPE, PARAMETER, CONSTANT = (
    "name_scope",
    "aggregation_scope",
    "Parameter",
    "Const",
)
_DRAWABLE = str.maketrans({"<": "(", ">": ")", '"': "'", "\\": "\u2216"})
NodeTable: TypeAlias = "dict[str, ViewNode]"  # by name, in the order in which the page lists them


@dataclass(slots=True, eq=False)
class Edge:
    """An edge between two nodes of a graph, with shapes and type of its tensors."""

    shape: list[list[int]]  # of each tensor
    data_type: str  # such as ``DT_TENSOR[DT_FLOAT32]``
    kind: str = "data"  # or ``control``
    independent_layout: bool = False  # the page draws the source apart from the consumer

    @property
    def is_dynamic(self) -> bool:
        """Whether the length of a dimension is unknown before the graph runs."""
        return any(-1 in lengths or -2 in lengths for lengths in self.shape)

    def to_json(self) -> dict[str, Any]:
        """Return the edge as the dict that MindInsight's graph page expects."""
        return {
            "data_type": self.data_type,
            "edge_type": self.kind,
            "independent_layout": self.independent_layout,
            "shape": self.shape,
        }


@dataclass(slots=True, eq=False)
class ViewNode:
    """A node of a graph view: operation, parameter, constant, name scope or group.

    Edges are stored by the name of the other end. Proxy edges are drawn instead of the edges of
    groups with independent layout; only their kinds are stored.
    """

    name: str  # its path; unique
    type: str  # of the operation, or one of the four constants of this module
    scope: str = ""  # name of the scope or group that holds it; "" at the root
    attributes: Mapping[str, str] = field(default_factory=dict)
    output_i: int = 0  # which output of an operation with several it is
    output_shape: list[list[int]] = field(default_factory=list)  # what its outgoing edges carry
    output_type: str = ""
    inputs: dict[str, Edge] = field(default_factory=dict)
    outputs: dict[str, Edge] = field(default_factory=dict)
    proxy_inputs: dict[str, str] = field(default_factory=dict)
    proxy_outputs: dict[str, str] = field(default_factory=dict)
    subnode_count: int = 0  # direct children
    independent_layout: bool = False  # the page draws it apart from its consumers
    is_dynamic: bool = False  # one of its edges was found to be dynamic

    def add_input(self, source: str, edge: Edge) -> None:
        """Add an incoming edge; it replaces an earlier edge from the same source."""
        self.is_dynamic = self.is_dynamic or edge.is_dynamic
        self.inputs[source] = edge

    def add_output(self, consumer: str, edge: Edge) -> None:
        """Add an outgoing edge; it replaces an earlier edge to the same consumer."""
        self.is_dynamic = self.is_dynamic or edge.is_dynamic
        self.outputs[consumer] = edge

    def ends(self) -> tuple[dict[str, Any], ...]:
        """Return the node's four dicts of edges, by the name of the node at the far end."""
        return self.inputs, self.outputs, self.proxy_inputs, self.proxy_outputs

    def inherit_edges(self, below: ViewNode, table: NodeTable) -> None:
        """Add the edges of an inner node that lead out of this scope or group.

        Edges of constants are left out.
        """
        inside = f"{self.name}/"

        def leads_out(name: str) -> bool:
            other = table.get(name)
            return other is not None and not name.startswith(inside) and other.type != CONSTANT

        for source, edge in below.inputs.items():
            if leads_out(source):
                self.add_input(source, edge)
        for consumer, edge in below.outputs.items():
            if leads_out(consumer):
                self.add_output(consumer, edge)
        self.proxy_inputs.update(
            (name, kind) for name, kind in below.proxy_inputs.items() if leads_out(name)
        )
        self.proxy_outputs.update(
            (name, kind) for name, kind in below.proxy_outputs.items() if leads_out(name)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the node as the dict that MindInsight's graph page expects."""
        return {
            "attr": self.attributes,
            "independent_layout": self.independent_layout,
            "input": {source: edge.to_json() for source, edge in self.inputs.items()},
            "is_dynamic_shape_node": self.is_dynamic,
            "name": self.name,
            "output": {consumer: edge.to_json() for consumer, edge in self.outputs.items()},
            "output_i": self.output_i,
            "proxy_input": {
                source: {"edge_type": kind} for source, kind in self.proxy_inputs.items()
            },
            "proxy_output": {
                consumer: {"edge_type": kind} for consumer, kind in self.proxy_outputs.items()
            },
            "stack_info": [],  # no file holds where in the source code an operation was made
            "subnode_count": self.subnode_count,
            "type": self.type,
        }


def move(table: NodeTable, node: ViewNode, scope: str, name: str) -> None:
    """Move a node to a scope under a new name, and rename it at the ends of its edges.

    The node becomes the last of the table.
    """
    neighbours = {other for ends in node.ends() for other in ends if other in table}
    for ends in itertools.chain.from_iterable(table[other].ends() for other in neighbours):
        if node.name in ends:
            ends[name] = ends.pop(node.name)
    del table[node.name]
    node.name, node.scope = name, scope
    table[name] = node


def join_scope(scope: str, name: str) -> str:
    """Return the full name of a node in a scope; the scope ``""`` is the root."""
    return f"{scope}/{name}" if scope else name


def drawable(name: str) -> str:
    """Replace the characters of a name that have a meaning in Graphviz DOT text.

    The page writes names into DOT without escaping.
    """
    return name.translate(_DRAWABLE)
