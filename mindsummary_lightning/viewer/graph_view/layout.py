"""The two views of a recorded graph, and what the graph page asks of them."""

from __future__ import annotations

from typing import Any

from mindsummary_lightning.values import Graph, GraphTexts
from mindsummary_lightning.viewer.graph_view.nesting import (
    add_name_scopes,
    copy_into_scopes,
    group_nodes,
    lay_out_parameters,
)
from mindsummary_lightning.viewer.graph_view.node_search import hits, tree_of
from mindsummary_lightning.viewer.graph_view.node_table import CONSTANT, PARAMETER, NodeTable, ViewNode
from mindsummary_lightning.viewer.graph_view.optimized_nodes import is_forward_operation, remove_bookkeeping
from mindsummary_lightning.viewer.graph_view.recorded_nodes import recorded_nodes

__all__ = ["GraphView", "normal_view", "optimized_view"]

_MIN_GROUP, _MIN_OPTIMIZED_GROUP = 5, 10  # alike nodes in a scope that are drawn as a group


def normal_view(graph: Graph, texts: GraphTexts) -> GraphView:
    """The view of everything that is recorded."""
    return _arranged(recorded_nodes(graph, texts, lambda node: True), _MIN_GROUP)


def optimized_view(graph: Graph, texts: GraphTexts) -> GraphView:
    """The view of the forward computation."""
    table = recorded_nodes(graph, texts, is_forward_operation)
    remove_bookkeeping(table)
    return _arranged(table, _MIN_OPTIMIZED_GROUP)


def _arranged(table: NodeTable, min_group: int) -> GraphView:
    copy_into_scopes(table, PARAMETER)
    group_nodes(table, min_group)
    lay_out_parameters(table)
    add_name_scopes(table)
    # Last, as constants are neither grouped nor do their edges cross a scope.
    copy_into_scopes(table, CONSTANT)
    return GraphView(table)


class GraphView:
    """A graph as the page asks for it; it does not change any more, so threads may share it.

    Args:
        table: all nodes, scopes and groups included; not changed any more, but for the counts of their children.
    """

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self._children: dict[str, list[ViewNode]] = {}
        for node in table.values():
            self._children.setdefault(node.scope, []).append(node)
        for scope, below in self._children.items():
            if scope in table:
                table[scope].subnode_count = len(below)

    def __contains__(self, name: str) -> bool:
        return name in self.table

    def children(self, scope: str) -> list[dict[str, Any]]:
        """The nodes directly in a scope or group; ``""`` is the root."""
        return [node.shown() for node in self._children.get(scope, ())]

    def leaves(self, scope: str) -> list[dict[str, Any]]:
        """The nodes below a scope that do not hold others, depth first."""
        found = []
        waiting = list(reversed(self._children.get(scope, ())))
        while waiting:
            node = waiting.pop()
            if node.subnode_count:
                waiting.extend(reversed(self._children[node.name]))
            else:
                found.append(node.shown())
        return found

    def levels(self, name: str) -> list[dict[str, Any]]:
        """The children of each scope on the way from the root to the one that holds a node, outermost first."""
        ends = [index for index, character in enumerate(name) if character == "/"]
        return [{"nodes": self.children(scope), "scope_name": scope} for scope in ("", *(name[:end] for end in ends))]

    def search(self, text: str, rows: slice, max_depth: int) -> list[dict[str, Any]]:
        """Hits of a text, in a tree of the scopes that hold them.

        Args:
            text: part of a name.
            rows: which of the hits to show.
            max_depth: hits in more scopes than this are not shown, as the tree would be too deep to encode.
        """
        found = hits(self.table, text)[rows]
        return tree_of([node for node in found if node.name.count("/") <= max_depth], self.table)
