"""The optimized view: the forward computation alone, without bookkeeping operations and scopes of one type."""

from __future__ import annotations

from mindsummary_lightning.values import GraphNode
from mindsummary_lightning.viewer.graph_view.node_table import (
    CONSTANT,
    PARAMETER,
    NodeTable,
    ViewNode,
    join_scope,
    move,
)

_BOOKKEEPING = ("Load", "MakeTuple", "TupleGetItem", "UpdateState")


def is_forward_operation(node: GraphNode) -> bool:
    """Whether an operation belongs neither to the gradients nor to the optimizer, by its names."""
    is_gradient = node.full_name.startswith("Gradients")
    return not (is_gradient or "optimizer" in node.full_name or "opt" in node.instance_name)


def remove_bookkeeping(table: NodeTable) -> None:
    """Join the sources of bookkeeping operations to their consumers, and dissolve scopes of a single type.

    Operations that have no edge then vanish.
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
    for node in operations:  # in the order of the graph, where sources come first and are already bridged
        for source in list(node.inputs):
            if source in table and table[source].type in _BOOKKEEPING:
                del node.inputs[source]
                for name, edge in list(table[source].inputs.items()):
                    node.add_input(name, edge)
    for node in operations:
        node.outputs = {}
    for node in operations:
        for source, edge in node.inputs.items():
            if table[source].type not in (PARAMETER, CONSTANT) and node.type not in _BOOKKEEPING:
                table[source].add_output(node.name, edge)


def _dissolve_uniform_scopes(table: NodeTable) -> None:
    """Move the operations of a nested scope named after its only type of operation into the scope above."""
    scopes: dict[str, list[ViewNode]] = {}
    for node in _operations(table):
        if "/" in node.scope:
            scopes.setdefault(node.scope, []).append(node)
    uniform = {scope for scope, nodes in scopes.items() if len(nodes) > 1 and _names_its_only_type(scope, nodes)}
    uniform -= {outer for outer in uniform if any(scope.startswith(f"{outer}/") for scope in scopes)}
    for node in _operations(table):
        if node.scope in uniform:
            parent = node.scope.rpartition("/")[0]
            move(table, node, parent, join_scope(parent, node.name.rpartition("/")[2]))


def _names_its_only_type(scope: str, nodes: list[ViewNode]) -> bool:
    types = {node.type for node in nodes}
    return len(types) == 1 and types.pop() in scope
