"""Search for nodes by a part of their name, and the tree in which the page lists the hits."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from mindsummary_lightning.viewer.graph_view.node_table import NAME_SCOPE, NodeTable, ViewNode, join_scope

__all__ = ["hits", "tree_of"]


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
