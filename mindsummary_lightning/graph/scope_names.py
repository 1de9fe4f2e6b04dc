"""Names that MindInsight keeps: scopes, operation types, parameters and constants of a graph.

Each rule guards against a graph, a node or an edge that the reader drops (MindInsight 2.3.1,
``datavisual/data_transform/graph``). Nothing here depends on torch: any text becomes a safe one.
"""

from __future__ import annotations

import functools
import re

__all__ = ["MAX_SCOPE_DEPTH", "ScopeNames", "safe_op_type", "unique_parameter_name"]

MAX_SCOPE_DEPTH = 64
"""Deeper scopes are merged into their parent: the reader walks the scope tree by recursive calls."""

_MAX_NAME_CHARACTERS = 120
_OP_SUFFIX = re.compile(r"-op\d+$")  # ends the name of a node, so no other name may end so

# Types the reader treats as something other than an operation (domain/graph/base.py, NodeTypeEnum).
_READER_TYPES = frozenset({"Const", "Load", "MakeTuple", "UpdateState"})


def _safe(text: str, fallback: str) -> str:
    r"""Letters, digits and ``_ . -``: the reader rejects ``< > "``, the drawing breaks on ``{ } | \`` and line ends."""
    return "".join(c if c.isalnum() or c in "_.-" else "_" for c in text[:_MAX_NAME_CHARACTERS]) or fallback


def _kept_by_optimized_view(part: str) -> str:
    """That view drops paths that hold ``optimizer`` or start with ``Gradients``."""
    part = part.replace("optimizer", "Optimizer")
    return f"_{part}" if part.startswith("Gradients") else part


@functools.lru_cache(maxsize=1024)
def safe_op_type(text: str) -> str:
    """An operation type that the reader counts as an operation and groups without failing.

    ``Parameter`` in the type of five sibling operations makes it lay them out as weights, and it then fails on their
    consumers; a type ending in ``_scope`` is not found by the search.
    """
    kept = _kept_by_optimized_view(_safe(text, "op").replace("Parameter", "Param"))
    return f"{kept}_" if kept in _READER_TYPES or kept.endswith("_scope") else kept


def unique_parameter_name(text: str, taken: set[str]) -> str:
    """A parameter name that differs from every other name of the graph, to which it is added.

    Args:
        text: dotted name of the parameter; its slashes become ``_``.
        taken: node ids, parts of scopes and the names given so far: the reader copies a parameter to
            ``<scope>/<name>`` of each consumer, where no scope may have that name.
    """
    base = _safe(text, "parameter")
    if _OP_SUFFIX.search(base):
        base = f"{base}_"
    name, attempt = base, 1
    while name in taken:
        attempt += 1
        name = f"{base}_{attempt}"
    taken.add(name)
    return name


class ScopeNames:
    """Scopes such as ``encoder-Sequential/0-Linear``, no two alike.

    Attributes:
        parts: every part of every scope so far.
    """

    def __init__(self) -> None:
        self.parts: set[str] = set()
        self._scopes: set[str] = set()

    def new(self, parent: str, name: str, class_name: str) -> str:
        """The scope of one more module inside the scope ``parent``."""
        if parent.count("/") >= MAX_SCOPE_DEPTH:
            return parent
        base = _kept_by_optimized_view(f"{_safe(name, 'module')}-{_safe(class_name, 'Module')}")
        if _OP_SUFFIX.search(base):
            base = f"{base}_"
        part, attempt = base, 1
        while (scope := f"{parent}/{part}" if parent else part) in self._scopes:
            attempt += 1
            part = f"{base}_{attempt}"
        self._scopes.add(scope)
        self.parts.add(part)
        return scope
