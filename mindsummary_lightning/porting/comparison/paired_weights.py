"""Pairs the weights and running statistics with which two runs begin a step."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from mindsummary_lightning.porting.comparison.matching.match import match_names
from mindsummary_lightning.porting.comparison.matching.tensor_names import TensorName, kind_of
from mindsummary_lightning.porting.comparison.recorded_step import RecordedStep
from mindsummary_lightning.porting.comparison.step_pairing import RowIndices

_Position = tuple[object, ...]


class PairedWeights:
    """The weights of two steps, paired.

    Attributes:
        names: names in the candidate by names in the baseline.
    """

    def __init__(self, a: RecordedStep, b: RecordedStep, given: Mapping[str, str]) -> None:
        self._a, self._b = a, b
        match = match_names(a.weights(), b.weights(), given)
        self.names: dict[str, str] = {}
        self._inferred: dict[str, str] = {}
        for pair in match.pairs:
            self.names[pair.a] = pair.b
            if pair.rule not in ("name", "given"):
                self._inferred[pair.a] = pair.b

    def swapped(self, module: str, among: Collection[str] = ()) -> list[RowIndices]:
        """Return a module's weights whose partners by value and by position differ.

        Args:
            module: dotted name in the baseline; ``""`` for the network.
            among: names that must all be swapped; otherwise the list is empty.
        """
        swapped = self._closed_swaps()
        if not {*among} <= swapped.keys():
            return []
        prefix = f".{module}." if module else "."
        rows = []
        for name_a, name_b in swapped.items():
            if f".{name_a}".startswith(prefix):
                rows.append((self._a.of("weights")[name_a], self._b.of("weights")[name_b]))
        return rows

    def _closed_swaps(self) -> dict[str, str]:
        """Return the weights that exchange partners if paired by position, not by value.

        Only complete exchanges count: the partners by position are the partners by value, in
        another order.
        """
        positions_a = _by_position(self._a.weights(), self._inferred)
        positions_b = _by_position(self._b.weights(), self._inferred.values())
        swapped = {}
        for position, name_a in positions_a.items():
            partner = positions_b.get(position, self.names[name_a])
            if partner != self.names[name_a]:
                swapped[name_a] = partner
        while True:
            partners = set(swapped.values())
            closed = {}
            for name_a, partner in swapped.items():
                if self.names[name_a] in partners:
                    closed[name_a] = partner
            if len(closed) == len(swapped):
                return swapped
            swapped = closed


def _by_position(weights: list[TensorName], names: Collection[str]) -> dict[_Position, str]:
    """Index weights by their position: size, numbers, layer's initial and kind.

    A position that several weights have is left out.
    """
    found: dict[_Position, list[str]] = {}
    for name, elements, _ in weights:
        if name in names:
            layer, _, last = name.rpartition(".")
            initial = layer.rpartition(".")[2][:1]
            numbers = re.findall(r"\d+", layer)
            key = (elements, *numbers, initial, kind_of(name) or last)
            found.setdefault(key, []).append(name)
    return {key: names[0] for key, names in found.items() if len(names) == 1}
