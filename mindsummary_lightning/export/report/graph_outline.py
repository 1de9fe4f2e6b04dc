"""The outline of a computational graph: its scopes as a tree, the operations of each counted by type."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from mindsummary_lightning.values import Graph

_MAX_DEPTH = 8  # deeper scopes are counted in their ancestor


@dataclass(slots=True)
class Scope:
    """One scope of a graph.

    Attributes:
        name: last part of the scope's path.
        operations: number of operations directly in the scope, by type.
        scopes: the scopes directly below, by name.
    """

    name: str
    operations: Counter[str] = field(default_factory=Counter)
    scopes: dict[str, Scope] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """Text such as ``"2 Conv2d, ReLU"``."""
        return ", ".join(f"{count} {kind}" if count > 1 else kind for kind, count in self.operations.items())

    @property
    def total(self) -> int:
        """Number of operations in the scope and below it."""
        return self.operations.total() + sum(scope.total for scope in self.scopes.values())


def graph_outline(graph: Graph) -> Scope:
    """The tree of a graph's scopes; the root has the name ``""``."""
    root = Scope("")
    for node in graph.nodes:
        scope = root
        for part in [part for part in node.scope.split("/") if part][:_MAX_DEPTH]:
            scope = scope.scopes.setdefault(part, Scope(part))
        scope.operations[node.op_type] += 1
    return root
