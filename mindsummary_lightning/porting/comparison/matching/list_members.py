"""Finds corresponding members of numbered module lists, such as ``blocks.3.``."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from mindsummary_lightning.porting.comparison.matching.tensor_names import (
    LayerLayout,
    TensorName,
    layers_of,
    layout_of,
    without_wrappers,
)

_NUMBER = re.compile(r"(?<=\.)(\d+)\.")
_ListLayout = tuple[frozenset[tuple[LayerLayout, int]], ...]


class ListMembers:
    """Corresponding members of module lists in two runs.

    The lists hold the same, and each run has one such list.
    """

    def __init__(self, a: Sequence[TensorName], b: Sequence[TensorName]) -> None:
        lists_a, lists_b = _unique_lists(a), _unique_lists(b)
        self._in_b: dict[str, str] = {}
        self._in_a: dict[str, str] = {}
        for layout in lists_a.keys() & lists_b.keys():
            for member_a, member_b in zip(lists_a[layout], lists_b[layout], strict=True):
                self._in_b[member_a] = member_b
                self._in_a[member_b] = member_a

    def of(self, name: str, *, in_baseline: bool) -> tuple[str, str]:
        """Return the innermost list member that holds a name, and its counterpart.

        Both are ``""`` if no member holds the name.
        """
        partners = self._in_b if in_baseline else self._in_a
        words = name.split(".")
        for length in range(len(words), 0, -1):
            member = ".".join([*words[:length], ""])
            if member in partners:
                return member, partners[member]
        return "", ""

    def may_correspond(self, name_a: str, name_b: str) -> bool:
        """Tell whether two names can belong to corresponding list members.

        They can if one name is in the member that corresponds to the other name's member.
        """
        name_a, name_b = without_wrappers(name_a), without_wrappers(name_b)
        partner_of_a = self.of(name_a, in_baseline=True)[1]
        partner_of_b = self.of(name_b, in_baseline=False)[1]
        return name_b.startswith(partner_of_a) or name_a.startswith(partner_of_b)


def _unique_lists(tensors: Sequence[TensorName]) -> dict[_ListLayout, list[str]]:
    """Return the members of module lists, for list layouts that occur only once.

    A list has at least two members.
    """
    lists: dict[str, dict[int, Counter[LayerLayout]]] = {}
    for name, layer in layers_of(tensors).items():
        for match in _NUMBER.finditer(f"{name}."):
            members = lists.setdefault(name[: match.start()], defaultdict(Counter))
            members[int(match[1])][layout_of(layer)] += 1
    by_layout: dict[_ListLayout, list[list[str]]] = {}
    for name, members in lists.items():
        numbers = sorted(members)
        layout = tuple(frozenset(members[number].items()) for number in numbers)
        by_layout.setdefault(layout, []).append([f"{name}{number}." for number in numbers])
    unique = {}
    for layout, found in by_layout.items():
        if len(found) == 1 and len(layout) > 1:
            unique[layout] = found[0]
    return unique
