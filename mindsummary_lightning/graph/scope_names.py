"""Names that MindInsight keeps: scopes, operation types, parameters and constants of a graph.

Each rule guards against a graph, a node or an edge that the reader drops (MindInsight 2.3.1,
``datavisual/data_transform/graph``). Nothing here depends on torch: any text becomes a safe one.
"""

from __future__ import annotations

import re
from collections.abc import Collection

__all__ = ["MAX_SCOPE_DEPTH", "ScopeNames", "safe_name", "safe_op_type", "unique_parameter_name"]

MAX_SCOPE_DEPTH = 64
"""Deeper scopes are merged into their parent: the reader walks the scope tree by recursive calls."""

_MAX_NAME_CHARACTERS = 120
_OP_SUFFIX = re.compile(r"-op\d+$")

# Types the reader treats as something other than an operation (domain/graph/base.py, NodeTypeEnum).
_READER_TYPES = frozenset({"Const", "Load", "MakeTuple", "UpdateState"})


def safe_name(text: str, fallback: str) -> str:
    r"""One part of a path, made of letters, digits and ``_ . -`` only.

    With ``< > "`` the reader rejects the graph, ``{ } | \`` and line breaks break the drawing, ``/`` would start a
    scope.

    Args:
        text: any text.
        fallback: a safe name, for a text that is empty.
    """
    return "".join(c if c.isalnum() or c in "_.-" else "_" for c in text[:_MAX_NAME_CHARACTERS]) or fallback


def safe_op_type(text: str) -> str:
    """An operation type that the reader counts as an operation and groups without failing.

    ``Parameter`` in the type of five sibling operations makes it lay them out as weights, and it then fails on their
    consumers; a type ending in ``_scope`` is not found by the search.
    """
    kept = _kept_by_optimized_view(safe_name(text, "op").replace("Parameter", "Param"))
    return f"{kept}_" if kept in _READER_TYPES or kept.endswith("_scope") else kept


def _kept_by_optimized_view(part: str) -> str:
    """The optimized view drops paths that hold ``optimizer`` or start with ``Gradients``."""
    part = part.replace("optimizer", "Optimizer")
    return f"_{part}" if part.startswith("Gradients") else part


def unique_parameter_name(text: str, taken: Collection[str]) -> str:
    """A parameter name that differs from every other name of the graph.

    Args:
        text: dotted name of the parameter; its slashes become ``_``.
        taken: node ids, scope parts and the names given so far: the reader copies a parameter to
            ``<scope>/<name>`` of each consumer, where no scope may have that name.
    """
    base = safe_name(text, "parameter")
    if _OP_SUFFIX.search(base):
        base = f"{base}_"  # -op<k> ends a node's name
    name, attempt = base, 1
    while name in taken:
        attempt += 1
        name = f"{base}_{attempt}"
    return name


class ScopeNames:
    """Scopes such as ``encoder-Sequential/0-Linear``: one per module path, no two alike."""

    def __init__(self) -> None:
        self._scopes: dict[tuple[str, str, str], str] = {}
        self._paths: set[str] = set()
        self._parts: set[str] = set()

    @property
    def parts(self) -> frozenset[str]:
        """Every part of every scope so far."""
        return frozenset(self._parts)

    def child(self, parent: str, name: str, class_name: str) -> str:
        """The scope of a module inside the scope ``parent``; the same for the same arguments."""
        key = (parent, name, class_name)
        if key not in self._scopes:
            self._scopes[key] = parent if parent.count("/") >= MAX_SCOPE_DEPTH else self._new(parent, name, class_name)
        return self._scopes[key]

    def _new(self, parent: str, name: str, class_name: str) -> str:
        base = _kept_by_optimized_view(f"{safe_name(name, 'module')}-{safe_name(class_name, 'Module')}")
        if _OP_SUFFIX.search(base):
            base = f"{base}_"  # a class named op3 would make the scope look like a node
        prefix = f"{parent}/" if parent else ""
        part, attempt = base, 1
        while f"{prefix}{part}" in self._paths:
            attempt += 1
            part = f"{base}_{attempt}"
        self._paths.add(f"{prefix}{part}")
        self._parts.add(part)
        return f"{prefix}{part}"
