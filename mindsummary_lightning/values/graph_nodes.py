"""Frozen dataclasses of a computational graph.

It has nodes, parameters, constants, outputs and the types on the edges.

These classes hold everything that summary files can store. The package ``graph`` applies the rules
that keep MindInsight from dropping a graph (decimal ids, unique names, no ``< > "``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from mindsummary_lightning.values.data_types import DataType


@dataclass(frozen=True, slots=True)
class TensorType:
    """Dtype and shape of a tensor on an edge of a computational graph.

    Attributes:
        elem_type: dtype of the elements.
        shape: length of each dimension; -1 if unknown.
    """

    elem_type: DataType
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TupleType:
    """Element types of a tuple on an edge of a computational graph.

    Attributes:
        elements: types of its elements.
        is_list: whether it is one of MindSpore's lists, which MindInsight shows without their
            elements.
    """

    elements: tuple[GraphType, ...] = ()
    is_list: bool = False


GraphType: TypeAlias = TensorType | TupleType | DataType

AttributeValue: TypeAlias = (
    # one text: a checker reads no joined ones
    "bool | int | float | str | DataType | TensorType | tuple[AttributeValue, ...] "
    "| dict[str, AttributeValue] | None"
)


@dataclass(frozen=True, slots=True)
class Attribute:
    """A named property of a node of a computational graph.

    MindInsight drops a property whose serialized value is longer than 1,024 bytes.

    Attributes:
        name: shown unchanged.
        value: bool, int (64 bits), float, str, None, a type, or a tuple or dict of these.
    """

    name: str
    value: AttributeValue


@dataclass(frozen=True, slots=True)
class GraphInput:
    """An edge that leads into a node of a computational graph.

    Attributes:
        name: id of a node, name of a parameter or key of a constant: the three share one namespace.
        is_control: True for an edge that orders without carrying data.
    """

    name: str
    is_control: bool = False


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An operation in a computational graph.

    Attributes:
        name: the node's id; MindInsight keeps what follows the last ``op`` in it, so use decimal
            digits.
        op_type: name of the operation.
        scope: ``/``-separated path of its scopes, without a leading slash.
        full_name: name shown, ``<scope>/<op_type>-op<id>``; unique in the graph.
        inputs: its edges, in order.
        attributes: its properties.
        output_type: type of what it computes.
        output_i: index of the output, for a node with several.
        instance_name: a free name; MindInsight's optimized view drops nodes that have ``opt`` in
            it.
    """

    name: str
    op_type: str
    scope: str = ""
    full_name: str = ""
    inputs: tuple[GraphInput, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    output_type: GraphType | None = None
    output_i: int = 0
    instance_name: str = ""


@dataclass(frozen=True, slots=True)
class GraphParameter:
    """A weight or an input of a computational graph.

    A ``/`` in its name would create scopes, so use dots.
    """

    name: str
    type: GraphType | None = None


@dataclass(frozen=True, slots=True)
class GraphConstant:
    """A constant of a computational graph, which nodes refer to by its name."""

    name: str
    value: AttributeValue = None


@dataclass(frozen=True, slots=True)
class GraphOutput:
    """A result of a computational graph, which MindInsight does not show."""

    name: str
    type: GraphType | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """A complete computational graph: nodes, parameters, constants and outputs."""

    nodes: tuple[GraphNode, ...]
    name: str = ""
    parameters: tuple[GraphParameter, ...] = ()
    constants: tuple[GraphConstant, ...] = ()
    outputs: tuple[GraphOutput, ...] = ()

    def __repr__(self) -> str:
        nodes = f"{len(self.nodes)} nodes, {len(self.parameters)} parameters"
        return f"{type(self).__name__}({self.name!r}, {nodes}, {len(self.constants)} constants)"


@dataclass(frozen=True, slots=True)
class GraphTexts:
    """Attributes and constants of a graph as text, in MindInsight's notation.

    Attributes:
        attributes: for every node in the graph's order, its attributes by name; attributes that are
            too large to be shown are missing.
        constants: the constants by key.
    """

    attributes: tuple[Mapping[str, str], ...] = ()
    constants: Mapping[str, str] = field(default_factory=dict)
