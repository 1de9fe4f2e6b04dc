"""Names that MindInsight keeps: scopes, operation types, parameters and constants of a graph.

Each rule guards against a graph, a node or an edge that the reader drops (MindInsight 2.3.1,
``datavisual/data_transform/graph``). Nothing here depends on torch: any text becomes a safe one.
"""

from __future__ import annotations

import functools
import re

__all__ = ["MAX_SCOPE_DEPTH", "safe_op_type", "safe_parameter_name", "safe_scope", "unique"]

MAX_SCOPE_DEPTH = 64
"""Deeper scopes are merged into their parent: the reader walks the scope tree by recursive calls."""

_MAX_NAME_CHARACTERS = 120
_OP_SUFFIX = re.compile(r"-op\d+$")  # ends the name of a node, so no other name may end so

# Types the reader treats as something other than an operation (domain/graph/base.py, NodeTypeEnum).
_READER_TYPES = frozenset({"Const", "Load", "MakeTuple", "UpdateState"})


def unique(name: str, taken: set[str]) -> str:
    """The name, or the first of ``<name>_2``, ``<name>_3``, ... that is not taken; it is added to ``taken``."""
    found, attempt = name, 1
    while found in taken:
        attempt += 1
        found = f"{name}_{attempt}"
    taken.add(found)
    return found


@functools.lru_cache(maxsize=1024)
def safe_op_type(text: str) -> str:
    """An operation type that the reader counts as an operation and groups without failing.

    ``Parameter`` in the type of five sibling operations makes it lay them out as weights, and it then fails on their
    consumers; a type ending in ``_scope`` is not found by the search.
    """
    kept = _kept_by_optimized_view(_safe(text, "op").replace("Parameter", "Param"))
    return f"{kept}_" if kept in _READER_TYPES or kept.endswith("_scope") else kept


def safe_parameter_name(text: str) -> str:
    """A parameter name that no node and no scope can have.

    The ids of nodes are decimal, and the reader copies a parameter to ``<scope>/<name>`` of each consumer, where a
    scope (with ``-``, without dots) may be.
    """
    name = _safe(text, "parameter")
    name = name if "." in name else name.replace("-", "_")
    return f"{name}_" if name.isdecimal() or _OP_SUFFIX.search(name) else name


def safe_scope(name: str, class_name: str) -> str:
    """The part of a scope that stands for a module, such as ``0-Linear``."""
    part = f"{_safe(name, 'module')}-{_safe(class_name, 'Module')}".replace(".", "_")
    return _kept_by_optimized_view(f"{part}_" if _OP_SUFFIX.search(part) else part)


def _safe(text: str, fallback: str) -> str:
    r"""Letters, digits and ``_ . -``: the reader rejects ``< > "``, the drawing breaks on ``{ } | \`` and line ends."""
    return "".join(c if c.isalnum() or c in "_.-" else "_" for c in text[:_MAX_NAME_CHARACTERS]) or fallback


def _kept_by_optimized_view(part: str) -> str:
    """That view drops paths that hold ``optimizer`` or start with ``Gradients``."""
    part = part.replace("optimizer", "Optimizer")
    return f"_{part}" if part.startswith("Gradients") else part
