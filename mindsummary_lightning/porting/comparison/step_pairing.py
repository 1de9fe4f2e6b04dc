"""Pairs a step's module calls in two runs by values, weights and nesting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.porting.comparison.recorded_step import ELEMENTS, Call, RecordedStep
from mindsummary_lightning.porting.comparison.row_distance import near_rows, row_distances
from mindsummary_lightning.porting.comparison.tolerance_table import SAME_TENSOR

RowIndices = tuple[int, int]
"""Indices of a row in the baseline's step and of one in the candidate's."""


class WeightState(IntEnum):
    """Whether a module holds weights itself, and whether they are paired."""

    NO_WEIGHTS = 0
    WEIGHTS = 1
    PAIRED_WEIGHTS = 2


class Similarity(IntEnum):
    """How alike two tensors are, from most alike to unrelated."""

    EQUAL = 0
    SAME_SIZE = 1
    ONE_OTHER_DIMENSION = 2
    UNRELATED = 3


class HeldLayers(NamedTuple):
    """The layers with paired weights inside a module, and the module's call number."""

    layers: frozenset[str]
    number: int
    calls: int


class StepPairing:
    """The calls of two steps, paired.

    Attributes:
        a: the baseline's step.
        b: the candidate's step.
        partner: paired calls of the candidate by calls of the baseline.
        held_a: for each call of the baseline the paired layers in its module, or ``None``.
        held_b: for each call of the candidate the paired layers in its module, or ``None``.
    """

    def __init__(
        self, a: RecordedStep, b: RecordedStep, weights: Mapping[str, str], limit: float
    ) -> None:
        self.a: RecordedStep = a
        self.b: RecordedStep = b
        self._limit = max(limit, SAME_TENSOR)
        self._distances: dict[RowIndices, float] = {}
        layers = {}
        for name_a, name_b in weights.items():
            layers[name_a.rpartition(".")[0]] = name_b.rpartition(".")[0]
        layers_b = set(layers.values())
        self.held_a: list[HeldLayers | None] = _held_layers(a.calls, layers)
        own_layers = {name: name for name in layers_b}
        self.held_b: list[HeldLayers | None] = _held_layers(b.calls, own_layers)
        self._state_a = _weight_states(a, layers)
        self._state_b = _weight_states(b, layers_b)
        self.partner: dict[int, int] = {}
        self._is_free = np.ones(len(b.calls), np.bool_)
        self._pair_by_values()
        self._pair_by_held_layers()
        self._pair_leaves_by_inputs()
        self._pair_children()

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The paired calls, in the baseline's order."""
        return sorted(self.partner.items())

    def distance(self, row_a: int, row_b: int) -> float:
        """Return the distance of two rows."""
        rows = row_a, row_b
        if rows not in self._distances:
            self._distances[rows] = float(row_distances(self.a, row_a, self.b, row_b))
        return self._distances[rows]

    def inputs(self, call_a: int, call_b: int) -> RowIndices | None:
        """Return the most different pair among the inputs of two calls.

        ``None`` if there is nothing to compare.
        """
        return self._most_different(self.a.calls[call_a].inputs, self.b.calls[call_b].inputs)

    def outputs(self, call_a: int, call_b: int) -> RowIndices:
        """Return the most different pair among the outputs of two calls."""
        rows_a, rows_b = self.a.calls[call_a].outputs, self.b.calls[call_b].outputs
        return self._most_different(rows_a, rows_b) or (rows_a[0], rows_b[0])

    def _most_different(
        self, rows_a: tuple[int, ...], rows_b: tuple[int, ...]
    ) -> RowIndices | None:
        """Return the two rows that differ most, or ``None``.

        Rows are compared by position if all sizes agree. Otherwise a row is compared with its
        nearest row.
        """
        in_order = [*zip(rows_a, rows_b, strict=False)]
        have_equal_sizes = all(self.have_one_size(*rows) for rows in in_order)
        if len(rows_a) == len(rows_b) and have_equal_sizes:
            return max(in_order, key=lambda rows: self.distance(*rows), default=None)
        fitting = []
        for rows in product(rows_a, rows_b):
            if self.have_one_size(*rows):
                fitting.append((self.distance(*rows), rows))
        if not fitting:
            return None
        fitting.sort(reverse=True)
        nearest_of_a = {rows[0]: (distance, rows) for distance, rows in fitting}
        nearest_of_b = {rows[1]: (distance, rows) for distance, rows in fitting}
        # one run may have more outputs: the run whose rows all have a near partner decides
        return min(max(nearest_of_a.values()), max(nearest_of_b.values()))[1]

    def have_one_size(self, row_a: int, row_b: int) -> bool:
        """Tell whether two rows have the same number of elements."""
        return bool(self.a.values[row_a, ELEMENTS] == self.b.values[row_b, ELEMENTS])

    def similarity(self, row_a: int, row_b: int, limit: float) -> Similarity:
        """Tell how alike the values and shapes of two tensors are."""
        if self.have_one_size(row_a, row_b):
            is_equal = self.distance(row_a, row_b) <= limit
            return Similarity.EQUAL if is_equal else Similarity.SAME_SIZE
        shape_a, shape_b = self.a.rows[row_a].shape, self.b.rows[row_b].shape
        if len(shape_a) != len(shape_b):
            return Similarity.UNRELATED
        other_sizes = sum(a != b for a, b in zip(shape_a, shape_b, strict=True))
        return Similarity.ONE_OTHER_DIMENSION if other_sizes < 2 else Similarity.UNRELATED

    def both_occur_elsewhere(self, row_a: int, row_b: int) -> bool:
        """Tell whether both runs contain both of two tensors that differ."""
        limit = min(self._limit, self.distance(row_a, row_b) / 10)
        in_b = self.occurs_in_other_run(row_a, limit, of_baseline=True)
        return in_b and self.occurs_in_other_run(row_b, limit, of_baseline=False)

    def occurs_in_other_run(self, row: int, limit: float, *, of_baseline: bool) -> bool:
        """Tell whether a tensor is an input or output of any call in the other run.

        With ``of_baseline`` the tensor belongs to the baseline, and the second run is the
        candidate.
        """
        step, other = (self.a, self.b) if of_baseline else (self.b, self.a)
        rows = other.call_tensors
        rows = rows[other.layouts[rows] == step.layouts[row]]
        return bool(near_rows(step, row, other, rows, limit).any())

    def unpaired_producer(
        self, row: int, among: Iterable[int], call: int, limit: float, *, of_baseline: bool
    ) -> int:
        """Return the unpaired call that computed a tensor from known inputs, or ``call``."""
        step = self.a if of_baseline else self.b
        paired = set(self.partner) if of_baseline else set(self.partner.values())
        same = step.equals(row)
        producer = call
        for other in among:
            if other not in paired and same[[*step.calls[other].outputs]].any():
                producer = other
                break
        inputs = step.calls[producer].inputs
        for given in inputs:
            if not self.occurs_in_other_run(given, limit, of_baseline=of_baseline):
                return call
        return producer if inputs else call

    def _pair_by_values(self) -> None:
        """Pair calls with equal outputs and equal inputs."""
        for call_a in range(len(self.a.calls)):
            if call_a not in self.partner:
                free = np.flatnonzero(self._is_free)
                near = self._with_near_rows(
                    self.a.first_outputs, self.b.first_outputs, call_a, free
                )
                near = self._with_near_rows(self.a.first_inputs, self.b.first_inputs, call_a, near)
                self._take(call_a, near.tolist())

    def _pair_by_held_layers(self) -> None:
        """Pair calls whose modules hold the same layers."""
        holders: dict[HeldLayers, list[int]] = {}
        for call_b, held in enumerate(self.held_b):
            if held:
                holders.setdefault(held, []).append(call_b)
        for call_a, held in enumerate(self.held_a):
            if held and call_a not in self.partner:
                self._take(call_a, holders.get(held, ()))

    def _pair_leaves_by_inputs(self) -> None:
        """Pair innermost calls with equal inputs and the same weight state."""
        leaves_b = np.array(
            [_leaf_state(self.b, call, self._state_b) for call in range(len(self.b.calls))],
            np.int64,
        )
        for call_a in range(len(self.a.calls)):
            state = _leaf_state(self.a, call_a, self._state_a)
            if call_a not in self.partner and state >= 0:
                free = np.flatnonzero((leaves_b == state) & self._is_free)
                near = self._with_near_rows(self.a.first_inputs, self.b.first_inputs, call_a, free)
                self._take(call_a, near.tolist())

    def _pair_children(self) -> None:
        """Pair the remaining calls inside paired calls, by kind and order."""
        for call_a, call_b in self.pairs:
            children_b = self.b.children(call_b)
            for child_a in self.a.children(call_a):
                if child_a in self.partner:
                    continue
                kind = self.a.calls[child_a].canonical_kind
                same_kind = [x for x in children_b if self.b.calls[x].canonical_kind == kind]
                self._take(child_a, same_kind)

    def _with_near_rows(
        self,
        rows_a: NDArray[np.int64],
        rows_b: NDArray[np.int64],
        call_a: int,
        among: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Return the candidate's calls whose row is close to the row of ``call_a``.

        Calls without a row are returned, too.
        """
        row, others = int(rows_a[call_a]), rows_b[among]
        is_near = near_rows(self.a, row, self.b, others, self._limit) | (row < 0) | (others < 0)
        near: NDArray[np.int64] = among[is_near]
        return near

    def _take(self, call_a: int, calls_b: Iterable[int]) -> None:
        """Pair a call with the first unpaired call of ``calls_b`` that may be the same."""
        for call_b in calls_b:
            if self._is_free[call_b] and self._may_be_one(call_a, call_b):
                self.partner[call_a] = call_b
                self._is_free[call_b] = False
                return

    def _may_be_one(self, call_a: int, call_b: int) -> bool:
        """Tell whether layers, inputs and outputs allow two calls to be the same.

        Modules of the same kind may make outputs of different sizes from equal inputs, as with
        another stride.
        """
        held_a, held_b = self.held_a[call_a], self.held_b[call_b]
        if (held_a and held_a.layers) != (held_b and held_b.layers):
            return False
        one, other = self.a.calls[call_a], self.b.calls[call_b]
        inputs = self.inputs(call_a, call_b)
        if inputs is None and one.inputs and other.inputs:
            return False
        if self.have_one_size(one.outputs[0], other.outputs[0]):
            return True
        states = self._state_a[call_a], self._state_b[call_b]
        if WeightState.WEIGHTS in states or one.canonical_kind != other.canonical_kind:
            return False
        return inputs is not None and self.distance(*inputs) <= self._limit


def _leaf_state(step: RecordedStep, call: int, states: list[WeightState]) -> int:
    """Return the weight state of a call; -1 if it has inner calls."""
    return -1 if step.within[call] else int(states[call])


def _weight_states(step: RecordedStep, paired_layers: Collection[str]) -> list[WeightState]:
    """Return the weight state of every call's module."""
    holders = {name.rpartition(".")[0] for name in step.of("weights")}
    states = []
    for call in step.calls:
        state = WeightState.WEIGHTS if call.name in holders else WeightState.NO_WEIGHTS
        if call.name in paired_layers:
            state = WeightState.PAIRED_WEIGHTS
        states.append(state)
    return states


def _held_layers(calls: list[Call], layers: Mapping[str, str]) -> list[HeldLayers | None]:
    """Return for every call the paired layers inside its module.

    Layers are named as in the candidate.
    """
    layers_in: dict[str, set[str]] = {}
    for name, layer in layers.items():
        module = name
        while module:
            layers_in.setdefault(module, set()).add(layer)
            module = module.rpartition(".")[0]
        layers_in.setdefault("", set()).add(layer)
    counts = Counter(call.name for call in calls)
    held: list[HeldLayers | None] = []
    for call in calls:
        found = layers_in.get(call.name)
        layers_of_call = frozenset(found) if found else None
        if layers_of_call is None:
            held.append(None)
        else:
            held.append(HeldLayers(layers_of_call, call.number, counts[call.name]))
    return held
