"""Arrange a recorded graph in nested scopes, for MindInsight's graph page."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

from mindsummary_lightning.values import Graph, GraphTexts
from mindsummary_lightning.viewer.graph_view.node_table import (
    AGGREGATION_SCOPE,
    CONSTANT,
    NAME_SCOPE,
    PARAMETER,
    NodeTable,
    ViewNode,
    join_scope,
    move,
)
from mindsummary_lightning.viewer.graph_view.recorded_nodes import (
    is_forward_operation,
    recorded_nodes,
    remove_bookkeeping,
)

_MIN_GROUP, _MIN_OPTIMIZED_GROUP = 5, 10  # alike nodes in a scope that are drawn as a group


def normal_view(graph: Graph, texts: GraphTexts) -> GraphView:
    """Build the view of all operations of a recorded graph."""
    return _nested(recorded_nodes(graph, texts, lambda node: True), _MIN_GROUP)


def optimized_view(graph: Graph, texts: GraphTexts) -> GraphView:
    """Build the view of the forward pass, without gradients and optimizer."""
    table = recorded_nodes(graph, texts, is_forward_operation)
    remove_bookkeeping(table)
    return _nested(table, _MIN_OPTIMIZED_GROUP)


def _nested(table: NodeTable, min_group: int) -> GraphView:
    _copy_into_scopes(table, PARAMETER)
    _group_nodes(table, min_group)
    _lay_out_parameters(table)
    _add_name_scopes(table)
    # Last, as constants are neither grouped nor do their edges cross a scope.
    _copy_into_scopes(table, CONSTANT)
    return GraphView(table)


def _copy_into_scopes(table: NodeTable, node_type: str) -> None:
    """Replace the nodes of a type by copies in the scopes of their consumers.

    Nodes without a consumer are removed.

    Consumers in the same scope share a copy. A copy at the root takes the place of the original.
    Other copies follow the last node, in the order of their first use.
    """
    originals = {node.name: node for node in table.values() if node.type == node_type}
    copies: dict[str, ViewNode] = {}
    for node in table.values():
        for source in [name for name in node.inputs if name in originals]:
            name = join_scope(node.scope, source)
            if name not in copies:
                copies[name] = ViewNode(name, node_type, node.scope, originals[source].attributes)
            edge = node.inputs.pop(source)
            node.add_input(name, dataclasses.replace(edge))
            copies[name].add_output(node.name, dataclasses.replace(edge))
    table.update(copies)
    for name in originals.keys() - copies.keys():
        del table[name]


def _group_nodes(table: NodeTable, min_members: int) -> None:
    """Group ``min_members`` or more nodes of the same type in the same scope.

    A group has the name ``<type>[<members>]_<number>``.

    Groups are numbered through the whole graph in the order of their first members. There are no
    name scopes yet.
    """
    alike: dict[tuple[str, str], list[ViewNode]] = {}
    for node in table.values():
        if node.type != CONSTANT:
            alike.setdefault((node.scope, node.type), []).append(node)
    groups: list[tuple[ViewNode, list[ViewNode]]] = []
    for (scope, node_type), members in alike.items():
        if len(members) >= min_members:
            name = join_scope(scope, f"{node_type}[{len(members)}]_{len(groups)}")
            for member in members:
                move(table, member, name, f"{name}/{member.name.rpartition('/')[2]}")
            table[name] = ViewNode(name, AGGREGATION_SCOPE, scope)
            groups.append((table[name], members))
    for group, members in groups:  # only now: all members have their new names
        for member in members:
            group.inherit_edges(member, table)


def _lay_out_parameters(table: NodeTable) -> None:
    """Mark groups of parameters that the page must draw apart from their consumers.

    Proxy edges join the groups and their consumers. A group is joined to a consumer in its own
    scope, or else to the group that holds the consumer.
    """
    members: dict[str, list[ViewNode]] = {}
    for node in table.values():
        if (
            node.type == PARAMETER
            and node.scope in table
            and table[node.scope].type == AGGREGATION_SCOPE
        ):
            members.setdefault(node.scope, []).append(node)
    for name, parameters in members.items():
        group = table[name]
        group.independent_layout = True
        for consumer, edge in group.outputs.items():
            drawn = _drawn_consumer(table[consumer], group.scope)
            group.proxy_outputs[drawn] = edge.kind
            table[consumer].proxy_inputs[name] = table[drawn].proxy_inputs[name] = edge.kind
        for parameter in parameters:
            parameter.independent_layout = True
            for consumer, edge in parameter.outputs.items():
                parameter.proxy_outputs[_drawn_consumer(table[consumer], group.scope)] = edge.kind
                table[consumer].inputs[parameter.name].independent_layout = True


def _drawn_consumer(consumer: ViewNode, scope: str) -> str:
    return consumer.name if consumer.scope == scope else consumer.scope


def _add_name_scopes(table: NodeTable) -> None:
    """Add a scope node for every prefix of a node's name that is not a group.

    A scope inherits the edges of all nodes in it.

    A node that is named like a scope is renamed: its last part is put in parentheses.
    """
    _rename_nodes_like_scopes(table)
    scopes: dict[str, ViewNode] = {}
    for node in table.values():
        for prefix in _prefixes(node.name):
            if prefix in table:
                continue
            if prefix not in scopes:
                scopes[prefix] = ViewNode(prefix, NAME_SCOPE, prefix.rpartition("/")[0])
            scopes[prefix].inherit_edges(node, table)
    table.update(scopes)


def _rename_nodes_like_scopes(table: NodeTable) -> None:
    prefixes = {prefix for node in table.values() for prefix in _prefixes(node.name)}
    named_like_scopes = [
        node for node in table.values() if node.name in prefixes and node.type != AGGREGATION_SCOPE
    ]
    for node in named_like_scopes:
        move(table, node, node.scope, join_scope(node.scope, f"({node.name.rpartition('/')[2]})"))


def _prefixes(name: str) -> Iterator[str]:
    end = name.find("/")
    while end > 0:
        yield name[:end]
        end = name.find("/", end + 1)


class GraphView:
    """A graph arranged for MindInsight's graph page; threads may share it."""

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
        """List the nodes directly in a scope or group as JSON dicts; ``""`` is the root."""
        return [node.to_json() for node in self._children.get(scope, ())]

    def leaves(self, scope: str) -> list[dict[str, Any]]:
        """List the nodes in a scope that hold no other node, depth first, as JSON dicts."""
        leaves = []
        waiting = list(reversed(self._children.get(scope, ())))
        while waiting:
            node = waiting.pop()
            if node.subnode_count:
                waiting.extend(reversed(self._children[node.name]))
            else:
                leaves.append(node.to_json())
        return leaves

    def levels(self, name: str) -> list[dict[str, Any]]:
        """List the nodes of every scope that encloses a node, outermost scope first."""
        scopes = ["", *_enclosing_scopes(name)]
        return [{"nodes": self.children(scope), "scope_name": scope} for scope in scopes]

    def search(self, text: str, rows: slice, max_depth: int) -> list[dict[str, Any]]:
        """Search nodes by name; return a tree of the found nodes and of their scopes.

        ``rows`` selects among the found nodes. Nodes in more than ``max_depth`` scopes are left
        out.
        """
        nodes = hits(self.table, text)[rows]
        return tree_of([node for node in nodes if node.name.count("/") <= max_depth], self.table)


def _enclosing_scopes(name: str) -> list[str]:
    ends = [index for index, character in enumerate(name) if character == "/"]
    return [name[:end] for end in ends]


def hits(table: NodeTable, text: str) -> list[ViewNode]:
    """Find the nodes whose name has ``text`` in its last part, without regard to case.

    Only the last occurrence in the name counts; it may begin in an earlier part. The empty text and
    ``/`` find nothing.
    """
    text = text.lower()
    if text in ("", "/"):
        return []
    nodes = []
    for node in table.values():
        name = node.name.lower()
        start = name.rfind(text)
        if start >= 0 and name.find("/", start + len(text)) < 0:
            nodes.append(node)
    return nodes


def tree_of(nodes: Iterable[ViewNode], table: NodeTable) -> list[dict[str, Any]]:
    """Arrange nodes and the scopes that enclose them in a tree of JSON dicts.

    A scope shows whether the node that brought it in is dynamic. A node that is already in the
    tree, as the scope of an earlier node, replaces the earlier entry.
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
    nodes_of_root: list[dict[str, Any]] = root["nodes"]
    return nodes_of_root


def _entry(name: str, node_type: str, is_dynamic: bool) -> dict[str, Any]:
    return {"name": name, "type": node_type, "is_dynamic_shape_node": is_dynamic, "nodes": {}}
