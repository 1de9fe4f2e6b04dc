"""The two views of a recorded graph, and what the graph page asks of them: scopes, leaves, ways, and a search."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from mindsummary_lightning.values import Graph, GraphTexts
from mindsummary_lightning.viewer.graph_view.nesting import (
    add_name_scopes,
    copy_into_scopes,
    group_nodes,
    lay_out_parameters,
)
from mindsummary_lightning.viewer.graph_view.node_table import (
    CONSTANT,
    NAME_SCOPE,
    PARAMETER,
    NodeTable,
    ViewNode,
    join_scope,
)
from mindsummary_lightning.viewer.graph_view.optimized_nodes import is_forward_operation, remove_bookkeeping
from mindsummary_lightning.viewer.graph_view.recorded_nodes import recorded_nodes

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
    """A graph as the page asks for it; it does not change any more, so threads may share it."""

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
        """Some hits of a text, in a tree of their scopes; those in more scopes than can be encoded are skipped."""
        found = hits(self.table, text)[rows]
        return tree_of([node for node in found if node.name.count("/") <= max_depth], self.table)


def hits(table: NodeTable, text: str) -> list[ViewNode]:
    """The nodes in whose name the last occurrence of a text, in any case, reaches into the last part.

    Neither the empty text nor ``/`` is found anywhere.
    """
    text = text.lower()
    if text in ("", "/"):
        return []
    found = []
    for node in table.values():
        name = node.name.lower()
        start = name.rfind(text)
        if start >= 0 and name.find("/", start + len(text)) < 0:
            found.append(node)
    return found


def tree_of(nodes: Iterable[ViewNode], table: NodeTable) -> list[dict[str, Any]]:
    """The tree of some nodes and the scopes above them.

    A scope shows whether the node that brought it in is dynamic. A node that is already in the tree, as the scope of
    an earlier one, replaces what the tree has there.
    """
    root = _entry("", "", False)
    for node in nodes:
        listed = root["nodes"]
        *scopes, name = accumulate(node.name.split("/"), join_scope)
        for scope in scopes:
            if scope not in listed:
                known = table[scope].type if scope in table else NAME_SCOPE
                listed[scope] = _entry(scope, known, node.is_dynamic)
            listed = listed[scope]["nodes"]
        listed[name] = _entry(name, node.type, node.is_dynamic)
    waiting = [root]
    while waiting:  # without recursion: scopes may be deeper than Python's stack
        entry = waiting.pop()
        entry["nodes"] = list(entry["nodes"].values())
        waiting += entry["nodes"]
    shown: list[dict[str, Any]] = root["nodes"]
    return shown


def _entry(name: str, node_type: str, is_dynamic: bool) -> dict[str, Any]:
    return {"name": name, "type": node_type, "is_dynamic_shape_node": is_dynamic, "nodes": {}}
