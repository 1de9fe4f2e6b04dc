"""Search for nodes by a part of their name, and the tree in which the page lists the hits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mindsummary_lightning.viewer.graph_view.node_table import NAME_SCOPE, NodeTable, ViewNode

__all__ = ["hits", "tree_of"]


@dataclass(slots=True)
class _Entry:
    type: str
    is_dynamic: bool
    below: dict[str, _Entry] = field(default_factory=dict)


def hits(table: NodeTable, text: str) -> list[ViewNode]:
    """The nodes in whose name the last occurrence of a text, in any case, reaches into the last part.

    Neither the empty text nor ``/`` is found anywhere.
    """
    text = text.lower()
    if text in ("", "/"):
        return []
    found = []
    for node in table:
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
    root = _Entry("", False)
    for node in nodes:
        entry, scope = root, ""
        *scopes, last = node.name.split("/")
        for part in scopes:
            scope = f"{scope}/{part}" if scope else part
            if part not in entry.below:
                known = table.get(scope)
                entry.below[part] = _Entry(known.type if known is not None else NAME_SCOPE, node.is_dynamic)
            entry = entry.below[part]
        entry.below[last] = _Entry(node.type, node.is_dynamic)
    return _shown(root)


def _shown(root: _Entry) -> list[dict[str, Any]]:
    top: list[dict[str, Any]] = []
    waiting = [("", root, top)]
    while waiting:  # without recursion: scopes may be deeper than Python's stack
        scope, entry, listed = waiting.pop()
        for part, below in entry.below.items():
            name = f"{scope}/{part}" if scope else part
            nodes: list[dict[str, Any]] = []
            listed.append({"name": name, "type": below.type, "is_dynamic_shape_node": below.is_dynamic, "nodes": nodes})
            waiting.append((name, below, nodes))
    return top
