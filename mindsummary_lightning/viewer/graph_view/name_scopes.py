"""Name scopes: a node for each ``/``-separated prefix of a name, with the edges that cross its border."""

from __future__ import annotations

from collections.abc import Iterator

from mindsummary_lightning.viewer.graph_view.node_table import (
    AGGREGATION_SCOPE,
    NAME_SCOPE,
    NodeTable,
    ViewNode,
    join_scope,
)

__all__ = ["add_name_scopes", "count_children"]


def add_name_scopes(table: NodeTable) -> None:
    """Add a scope for each prefix of a name that is not a group; it inherits the edges of all nodes below it.

    A node that is named like a scope is renamed: its last part is put in parentheses.
    """
    prefixes = {prefix for node in table for prefix in _prefixes(node.name)}
    for node in [node for node in table if node.name in prefixes and node.type != AGGREGATION_SCOPE]:
        table.move(node, node.scope, join_scope(node.scope, f"({node.name.rpartition('/')[2]})"))
    scopes: dict[str, ViewNode] = {}
    for node in table:
        for prefix in _prefixes(node.name):
            if prefix not in table:
                if prefix not in scopes:
                    scopes[prefix] = ViewNode(prefix, NAME_SCOPE, prefix.rpartition("/")[0])
                scopes[prefix].inherit_edges(node, table)
    for scope in scopes.values():
        table.add(scope)


def count_children(table: NodeTable) -> None:
    """Set the number of direct children of each scope and group."""
    for node in table:
        if node.scope in table:
            table[node.scope].subnode_count += 1


def _prefixes(name: str) -> Iterator[str]:
    end = name.find("/")
    while end > 0:
        yield name[:end]
        end = name.find("/", end + 1)
