"""Weights and running statistics with which a step of two runs begins, paired."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping

import numpy as np

from mindsummary_lightning.comparison.calls import RowPlaces, Step, row_distances
from mindsummary_lightning.comparison.name_blocks import kind_of
from mindsummary_lightning.comparison.names import match_names


class CarriedWeights:
    """The weights of two steps, paired.

    Attributes:
        names: of weights in the second run, by those in the first.
    """

    def __init__(self, a: Step, b: Step, limit: float, given: Mapping[str, str]) -> None:
        self._steps = a, b
        matches = match_names(a.weights(), b.weights(), given)
        if matches.unmatched_a and matches.unmatched_b:
            left = self._left(matches.unmatched_a, matches.unmatched_b, limit)
            matches = match_names(a.weights(), b.weights(), {**left, **given})
        self.names: dict[str, str] = {pair.a: pair.b for pair in matches.pairs}
        self._anew = [pair.a for pair in matches.pairs if pair.rule != "equal" and pair.a not in given]

    def _left(self, ones: tuple[str, ...], others: tuple[str, ...], limit: float) -> dict[str, str]:
        """Weights that nothing has paired: by values that no other has, as a parameter may be an embedding's weight."""
        a, b = self._steps
        rows = [[step.of("weights")[name] for name in names] for step, names in ((a, ones), (b, others))]
        near = row_distances(a, np.array(rows[0])[:, None], b, rows[1]) <= limit
        near &= (near.sum(axis=0) == 1) & (near.sum(axis=1) == 1)[:, None]
        pairs = {ones[one]: others[other] for one, other in np.argwhere(near).tolist()}
        left = [name for name in ones if name not in pairs], [name for name in others if name not in pairs.values()]
        return pairs | _named_alike(a.sizes(left[0]), b.sizes(left[1]))

    def exchanged(self, module: str, all_of: Collection[str] = ()) -> list[RowPlaces]:
        """Weights in a module that values pair, and names otherwise, if they and all of some have changed places."""
        a, b = self._steps
        values = {one: self.names[one] for one in self._anew}
        there = {*values.values()}
        named = _named_alike(a.sizes(values), b.sizes(x for x in b.of("weights") if x in there), by_order=True)
        moved = {one: other for one, other in named.items() if other != values[one]}
        while left := {one for one in moved if values[one] not in moved.values()}:
            moved = {one: other for one, other in moved.items() if one not in left}
        around = f".{module}." if module else "."
        rows = [(a.of("weights")[x], b.of("weights")[y]) for x, y in moved.items() if f".{x}".startswith(around)]
        return rows if moved.keys() >= {*all_of} else []


def _named_alike(a: Mapping[str, int], b: Mapping[str, int], by_order: bool = False) -> dict[str, str]:
    """Weights of as many elements at one place by their names: numbers and kind, with the initial of the layer's word.

    Without that, only if it is so of all of one size that are left; and in their order, if that is asked for.
    """
    pairs: dict[str, str] = {}
    for rule in range(2 + by_order):
        groups = defaultdict[object, tuple[list[tuple[object, str]], ...]](lambda: ([], []))
        for side, (sizes, taken) in enumerate(((a, {*pairs}), (b, {*pairs.values()}))):
            for name, elements in sizes.items():
                if name not in taken:
                    layer, _, last = name.rpartition(".")
                    place = tuple(re.findall(r"\d+", layer)), kind_of(name) or last
                    initial = layer.rpartition(".")[2][:1]
                    group = groups[elements, ((place, initial), (), place[1])[rule]][side]
                    group.append((((), place, len(group))[rule], name))
        for ones, others in groups.values():
            there = dict(others)
            if dict(ones).keys() == there.keys() and len(ones) == len(others) == len(there):
                pairs |= {name: there[key] for key, name in ones}
    return pairs
