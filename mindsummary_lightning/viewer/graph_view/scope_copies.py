"""Copies of parameters and constants: one in each scope that uses them, instead of edges across the whole graph."""

from __future__ import annotations

import dataclasses

from mindsummary_lightning.viewer.graph_view.node_table import NodeTable, ViewNode, join_scope

__all__ = ["copy_into_scopes"]


def copy_into_scopes(table: NodeTable, node_type: str) -> None:
    """Replace the nodes of a type by copies beside their consumers; those that nobody uses vanish.

    Consumers in one scope share a copy. A copy at the root takes the place of the original, others follow the last
    node in order of their first use.

    Args:
        table: the nodes; changed in place.
        node_type: ``PARAMETER`` or ``CONSTANT``.
    """
    originals = {node.name: node for node in table if node.type == node_type}
    copies: dict[str, ViewNode] = {}
    for node in table:
        for source in [name for name in node.inputs if name in originals]:
            name = join_scope(node.scope, source)
            if name not in copies:
                copies[name] = _copy(originals[source], name, node.scope)
            edge = node.inputs.pop(source)
            node.add_input(name, dataclasses.replace(edge))
            copies[name].add_output(node.name, dataclasses.replace(edge))
    for copy in copies.values():
        table.add(copy)
    for name in originals:
        if name not in copies:
            table.remove(name)


def _copy(original: ViewNode, name: str, scope: str) -> ViewNode:
    return ViewNode(name, original.type, scope, original.attributes)
