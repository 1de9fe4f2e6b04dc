"""Create the nodes of a graph view: operations, parameters, constants, edges.

A view holds all operations, or only the forward computation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from mindsummary_lightning.values import (
    DataType,
    Graph,
    GraphNode,
    GraphTexts,
    TensorType,
    TupleType,
)
from mindsummary_lightning.values.graph_nodes import GraphType
from mindsummary_lightning.viewer.graph_view.node_table import (
    CONSTANT,
    PARAMETER,
    Edge,
    NodeTable,
    ViewNode,
    drawable,
    join_scope,
    move,
)

# Operations that record a summary are named after its tag: several of them may share one full name.
_SUMMARY_KINDS = (
    "scalar",
    "image",
    "tensor",
    "histogram",
    "graph",
    "optimized_graph",
    "loss_landscape",
)
_SUMMARY_MARKS = tuple(f"[:{kind}]" for kind in _SUMMARY_KINDS)
# incomplete types, and how they are shown
_SHAPELESS = {DataType.TENSOR: "[DT_UNDEFINED]", DataType.TUPLE: "[]"}
# what MindSpore added later marks edges that only order, beside types of elements
_LAST_KNOWN = DataType.REF
_BOOKKEEPING = ("Load", "MakeTuple", "TupleGetItem", "UpdateState")
_DYNAMIC_ATTRIBUTES = ("input_is_dynamic_shape", "output_is_dynamic_shape")


def recorded_nodes(
    graph: Graph, texts: GraphTexts, is_in_view: Callable[[GraphNode], bool]
) -> NodeTable:
    """Create the nodes of a graph: operations, then parameters, then constants.

    Inputs that name nothing are dropped. Edges are stored at both ends, but parameters and
    constants do not know their consumers yet. ``is_in_view`` tells which operations the view holds.
    """
    table: NodeTable = {}
    names: dict[str, str] = {}  # what inputs refer to -> name of the node
    recorded: dict[str, GraphNode] = {}
    for node, attributes in zip(graph.nodes, texts.attributes, strict=True):
        if node.name and is_in_view(node):
            operation = _operation(node, attributes)
            recorded[operation.name] = node
            names[drawable(_node_id(node.name))] = operation.name
            table[operation.name] = operation
    for other in (*_parameters(graph), *_constants(graph, texts)):
        names[other.name] = other.name
        table[other.name] = other
    for name, node in recorded.items():
        _add_inputs(table, name, node, names)
    for name in recorded:
        _add_to_sources(table, table[name])
    return table


def _add_inputs(table: NodeTable, name: str, node: GraphNode, names: Mapping[str, str]) -> None:
    for reference, kind in _references(node).items():
        if reference in names:
            source = table[names[reference]]
            edge = Edge(source.output_shape, source.output_type, kind)
            table[name].add_input(source.name, edge)


def _add_to_sources(table: NodeTable, node: ViewNode) -> None:
    for source, edge in node.inputs.items():
        if table[source].type not in (PARAMETER, CONSTANT):
            table[source].add_output(node.name, edge)


def _references(node: GraphNode) -> dict[str, str]:
    """Return the names that a node's inputs refer to, with the kind of their edges."""
    kinds = {}
    for entry in node.inputs:
        reference = entry.name.rpartition("op")[2] if "/" in entry.name else entry.name
        kinds[drawable(reference)] = "control" if entry.is_control else "data"
    return kinds


def _operation(node: GraphNode, attributes: Mapping[str, str]) -> ViewNode:
    name = node.full_name or join_scope(node.scope, f"{node.op_type}-op{_node_id(node.name)}")
    if node.full_name.lower().endswith(_SUMMARY_MARKS):
        name = join_scope(node.scope, f"{node.op_type}-op{node.name}")
    return ViewNode(
        name=drawable(name),
        type=drawable(node.op_type),
        scope=drawable(node.scope),
        attributes=attributes,
        output_i=node.output_i,
        output_shape=_shapes(node.output_type),
        output_type=_type_text(node.output_type),
        is_dynamic=any(
            entry.name in _DYNAMIC_ATTRIBUTES and entry.value is True for entry in node.attributes
        ),
    )


def _node_id(name: str) -> str:
    return name.rpartition("/")[2].rpartition("op")[2]


def _parameters(graph: Graph) -> list[ViewNode]:
    nodes = []
    for parameter in graph.parameters:
        if parameter.name:
            shape, data_type = _shapes(parameter.type), _type_text(parameter.type)
            attributes = {"type": data_type, "shape": str(shape)}
            name = drawable(parameter.name)
            nodes.append(
                ViewNode(
                    name,
                    PARAMETER,
                    attributes=attributes,
                    output_shape=shape,
                    output_type=data_type,
                )
            )
    return nodes


def _constants(graph: Graph, texts: GraphTexts) -> list[ViewNode]:
    nodes = []
    for constant in graph.constants:
        if constant.name:
            text = texts.constants[constant.name]
            # a type has no shape of its own
            is_tensor = text.partition("\n")[0] == "dtype: DT_TENSOR"
            shape = (
                _shapes(constant.value)
                if is_tensor and isinstance(constant.value, TensorType)
                else [[]]
            )
            attributes = {constant.name: text}
            nodes.append(
                ViewNode(
                    drawable(constant.name), CONSTANT, attributes=attributes, output_shape=shape
                )
            )
    return nodes


def _shapes(data_type: GraphType | None) -> list[list[int]]:
    """List the shapes of all tensors of a type; a plain value has the shape ``[]``."""
    if isinstance(data_type, TensorType):
        return [list(data_type.shape)]
    if isinstance(data_type, TupleType):
        return (
            [[]]
            if data_type.is_list
            else [shape for element in data_type.elements for shape in _shapes(element)]
        )
    return [] if data_type is None or data_type in _SHAPELESS or data_type > _LAST_KNOWN else [[]]


def _type_text(data_type: GraphType | None) -> str:
    if isinstance(data_type, TensorType):
        return f"DT_TENSOR[DT_{data_type.elem_type.name}]"
    if isinstance(data_type, TupleType):
        return (
            "DT_LIST"
            if data_type.is_list
            else f"DT_TUPLE{[_type_text(element) for element in data_type.elements]}"
        )
    if data_type is None or data_type > _LAST_KNOWN:
        return "DT_UNDEFINED"
    return f"DT_{data_type.name}{_SHAPELESS.get(data_type, '')}"


def is_forward_operation(node: GraphNode) -> bool:
    """Tell by its names whether an operation belongs to the forward computation.

    Operations of the gradients and of the optimizer do not.
    """
    is_gradient = node.full_name.startswith("Gradients")
    return not (is_gradient or "optimizer" in node.full_name or "opt" in node.instance_name)


def remove_bookkeeping(table: NodeTable) -> None:
    """Remove bookkeeping operations such as ``MakeTuple``, and join their neighbours.

    Operations without an edge are removed. Scopes that are named after their only type of operation
    are dissolved.
    """
    _bridge(table)
    for node in _operations(table):
        if node.type in _BOOKKEEPING or not (node.inputs or node.outputs):
            del table[node.name]
    _dissolve_uniform_scopes(table)


def _operations(table: NodeTable) -> list[ViewNode]:
    return [node for node in table.values() if node.type not in (PARAMETER, CONSTANT)]


def _bridge(table: NodeTable) -> None:
    operations = _operations(table)
    # in the order of the graph, where sources come first and are already bridged
    for node in operations:
        _replace_bookkeeping_sources(table, node)
    for node in operations:
        node.outputs = {}
    for node in operations:
        if node.type not in _BOOKKEEPING:
            _add_to_sources(table, node)


def _replace_bookkeeping_sources(table: NodeTable, node: ViewNode) -> None:
    for source in list(node.inputs):
        if source in table and table[source].type in _BOOKKEEPING:
            del node.inputs[source]
            for name, edge in list(table[source].inputs.items()):
                node.add_input(name, edge)


def _dissolve_uniform_scopes(table: NodeTable) -> None:
    """Dissolve nested scopes that are named after their only type of operation."""
    scopes: dict[str, list[ViewNode]] = {}
    for node in _operations(table):
        if "/" in node.scope:
            scopes.setdefault(node.scope, []).append(node)
    named_alike = [scope for scope, nodes in scopes.items() if _is_named_after_type(scope, nodes)]
    uniform = {scope for scope in named_alike if not _holds_scopes(scope, scopes)}
    for node in _operations(table):
        if node.scope in uniform:
            parent = node.scope.rpartition("/")[0]
            move(table, node, parent, join_scope(parent, node.name.rpartition("/")[2]))


def _is_named_after_type(scope: str, nodes: list[ViewNode]) -> bool:
    types = {node.type for node in nodes}
    return len(nodes) > 1 and len(types) == 1 and nodes[0].type in scope


def _holds_scopes(outer: str, scopes: Iterable[str]) -> bool:
    return any(scope.startswith(f"{outer}/") for scope in scopes)
