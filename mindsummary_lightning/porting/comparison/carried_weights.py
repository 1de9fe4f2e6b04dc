"""Weights and running statistics with which a step of two runs begins, paired."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from mindsummary_lightning.porting.comparison.calls import RowPlaces, Step
from mindsummary_lightning.porting.comparison.name_blocks import kind_of
from mindsummary_lightning.porting.comparison.names import match_names


class CarriedWeights:
    """The weights of two steps, paired.

    Attributes:
        names: of weights in the second run, by those in the first.
    """

    def __init__(self, a: Step, b: Step, given: Mapping[str, str]) -> None:
        self._steps = a, b
        pairs = match_names(a.weights(), b.weights(), given).pairs
        self.names: dict[str, str] = {pair.a: pair.b for pair in pairs}
        self._anew = {pair.a: pair.b for pair in pairs if pair.rule not in ("equal", "map")}

    def exchanged(self, module: str, all_of: Collection[str] = ()) -> list[RowPlaces]:
        """Weights in a module that values pair, and names otherwise, if they and all of some have changed places."""
        a, b = self._steps
        ones, others = _by_place(a, self._anew), _by_place(b, self._anew.values())
        moved = {
            one: others[place]
            for place, one in ones.items()
            if others.get(place, self.names[one]) != self.names[one]
        }
        while left := {one for one in moved if self.names[one] not in moved.values()}:
            moved = {one: other for one, other in moved.items() if one not in left}
        around = f".{module}." if module else "."
        rows = [
            (a.of("weights")[x], b.of("weights")[y])
            for x, y in moved.items()
            if f".{x}".startswith(around)
        ]
        return rows if moved.keys() >= {*all_of} else []


def _by_place(step: Step, names: Collection[str]) -> dict[object, str]:
    """Weights by size, numbers and kind, and the initial of the layer's word; those that only one has."""
    places: dict[object, list[str]] = {}
    for name, elements, _ in (tensor for tensor in step.weights() if tensor.name in names):
        layer, _, last = name.rpartition(".")
        initial = layer.rpartition(".")[2][:1]
        places.setdefault(
            (elements, *re.findall(r"\d+", layer), initial, kind_of(name) or last), []
        ).append(name)
    return {place: names[0] for place, names in places.items() if len(names) == 1}
