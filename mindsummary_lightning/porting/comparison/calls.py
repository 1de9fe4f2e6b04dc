"""Calls of modules in one step of two runs, paired by values, by the weights they hold, and by what they contain."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from operator import ne
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.porting.comparison.distances import Floats
from mindsummary_lightning.porting.comparison.name_blocks import TensorName
from mindsummary_lightning.values.step_chain import COLUMNS, OutputRow

ELEMENTS, RMS, MEAN, LOW, HIGH, _, BAD, *SAMPLED = range(1, len(COLUMNS))
_SINGLE_WEIGHT = 0.1  # rounding of one element is ten times that of a sum of many
# or the limit, if that is more: values that are those of one tensor, whether or not they agree
_NEAR = 1e-4
_KINDS = {
    "dense": "linear",
    "sequentialcell": "sequential",
    "celllist": "modulelist",
    "cell": "module",
}

RowPlaces = tuple[int, int]  # of a row in each run
_Places: TypeAlias = int | list[int] | NDArray[np.int64]


class Call(NamedTuple):
    """A call of a module: its places in the chain of the step."""

    name: str
    kind: str
    number: int
    line: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def word(self) -> str:
        """Its kind in the word of both frameworks."""
        return _KINDS.get(self.kind.lower(), self.kind.lower())


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a run: its rows in order, and their statistics, shape ``(n, columns)``."""

    rows: list[OutputRow]
    values: Floats

    def of(self, link: str) -> dict[str, int]:
        """The places of a link's rows by name, or by name and setting."""
        return self._links.get(link, {})

    @cached_property
    def _links(self) -> dict[str, dict[str, int]]:
        links: dict[str, dict[str, int]] = {}
        for place, row in enumerate(self.rows):
            words = [
                row.name,
                row.path,
                row.port if row.link == "settings" else "",
                str(row.call or ""),
            ]
            links.setdefault(row.link, {})[".".join(filter(None, words))] = place
        return links

    def row(self, place: int) -> OutputRow:
        """What a row is of; a tensor of another size than when it first occurred is known by its elements alone."""
        row, elements = self.rows[place], self.values[place, ELEMENTS]
        return (
            row
            if np.float32(math.prod(row.shape)) == elements
            else replace(row, shape=(int(elements),))
        )

    def weights(self) -> list[TensorName]:
        """The weights with which it begins."""
        numbers = self.values[:, [LOW, HIGH, MEAN]]
        rows = self.of("weights").items()
        return [
            TensorName(name, int(self.values[at, ELEMENTS]), tuple(numbers[at].tolist()))
            for name, at in rows
        ]

    @cached_property
    def calls(self) -> list[Call]:
        """The calls in the order in which they finished; those without an output of numbers are left out.

        So are masks: true is what to keep in one framework, and what to leave out in the other.
        """
        places: dict[tuple[str, int], dict[str, list[int]]] = {}
        for place, row in enumerate(self.rows):
            if row.link == "forward" and row.dtype != "bool":
                places.setdefault((row.name, row.call), {"input": [], "output": []})[
                    row.port
                ].append(place)
        return [
            Call(
                row.name,
                row.kind,
                row.call,
                row.line,
                tuple(ports["input"]),
                tuple(ports["output"]),
            )
            for ports in places.values()
            for row in [self.rows[place] for place in ports["output"][:1]]
        ]

    @cached_property
    def parents(self) -> list[int | None]:
        """The call around each, of the names around its own the next call that finishes."""
        later: dict[str, int] = {}
        parents: list[int | None] = []
        for index, call in reversed([*enumerate(self.calls)]):
            words = call.name.split(".") if call.name else []
            around = (later.get(".".join(words[:at])) for at in reversed(range(len(words))))
            parents.append(next((outer for outer in around if outer is not None), None))
            later[call.name] = index
        return parents[::-1]

    @cached_property
    def within(self) -> list[set[int]]:
        """The calls that were made in each."""
        inner: list[set[int]] = [set() for _ in self.calls]
        for index in range(len(self.calls)):
            for around in self.around(index):
                inner[around].add(index)
        return inner

    def around(self, call: int) -> Iterator[int]:
        """The calls around one, the innermost first."""
        while (outer := self.parents[call]) is not None:
            yield (call := outer)

    @cached_property
    def firsts(self) -> dict[str, NDArray[np.int64]]:
        """The place of the first input, and output, of each call; -1 of a call without."""
        rows = (
            [(*call.inputs, -1)[0] for call in self.calls],
            [call.outputs[0] for call in self.calls],
        )
        return {
            port: np.array(places, np.int64)
            for port, places in zip(("inputs", "outputs"), rows, strict=True)
        }

    @cached_property
    def tensors(self) -> NDArray[np.int64]:
        """The places of all inputs and outputs."""
        return np.array(
            [place for call in self.calls for place in (*call.inputs, *call.outputs)], np.int64
        )

    @cached_property
    def layouts(self) -> NDArray[np.str_]:
        """The shapes without dimensions of one element; where they are equal, so are the places of the samples."""
        return np.array([str([size for size in row.shape if size != 1]) for row in self.rows])

    def same(self, row: int, among: list[int] | slice = slice(None)) -> NDArray[np.bool_]:
        """Which rows are of the same numbers as one."""
        same: NDArray[np.bool_] = (
            self.values[among, ELEMENTS:] == self.values[row, ELEMENTS:]
        ).all(axis=1)
        return same

    def is_loss(self, call: int, row: int) -> bool:
        """Whether a module is the loss function: all that it gives are numbers, or one of its outputs is the loss."""
        numbers = self.values[[*self.calls[call].outputs], ELEMENTS] == 1
        return bool(numbers.all() or self.same(row, [*self.of("loss").values()]).any())

    def divided(self, factor: float) -> Step:
        """The same rows of tensors that are divided by a number."""
        values = self.values.copy()
        values[:, [RMS, MEAN, LOW, HIGH, *SAMPLED]] /= factor
        return Step(self.rows, values)

    def floors(self, again: Step) -> Floats:
        """How far two runs of one program are apart: in outputs up to each, in other rows those of its link."""
        there = {row.key: place for place, row in enumerate(again.rows)}
        floors = np.zeros(len(self.rows))
        for link in {row.link for row in self.rows}:
            at = [
                place
                for place, row in enumerate(self.rows)
                if row.link == link and row.key in there
            ]
            far = row_distances(self, at, again, [there[self.rows[place].key] for place in at])
            far = np.where(np.isfinite(far), far, 0.0)  # of another size: no second run
            floors[at] = np.maximum.accumulate(far) if link == "forward" else far.max(initial=0.0)
        return floors


def row_distances(
    a: Step, ones: _Places, b: Step, others: _Places, by_order: bool = True
) -> Floats:
    """How far rows are apart, by the root mean square: averages, and single elements by a tenth.

    Args:
        a: a step.
        ones: places of rows in it.
        b: the step of the other run.
        others: places there, of a shape that broadcasts.
        by_order: whether the sampled elements count where shapes are equal.

    Returns:
        Distances; infinite if the tensors have not as many elements, or not as many that are
        finite.
    """
    one, other = a.values[ones], b.values[others]
    same_order = np.asarray((a.layouts[ones] == b.layouts[others]) & by_order)
    rms = np.fmax(one[..., RMS], other[..., RMS])[..., None]
    single_a, single_b = one[..., [LOW, HIGH, *SAMPLED]], other[..., [LOW, HIGH, *SAMPLED]]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        scale = np.fmax(rms, np.fmax(np.abs(single_a), np.abs(single_b)))
        single = np.fmax(np.abs(single_a - single_b) / scale, 0.0)
        single[..., 2:] *= same_order[..., None]
        averages = np.fmax(np.abs(one[..., [RMS, MEAN]] - other[..., [RMS, MEAN]]) / rms, 0.0)
    far = np.maximum(averages.max(axis=-1), _SINGLE_WEIGHT * single.max(axis=-1))
    unequal = (one[..., ELEMENTS] != other[..., ELEMENTS]) | (one[..., BAD] != other[..., BAD])
    distances: Floats = np.where(unequal, np.inf, far)
    return distances


def _near_rows(
    a: Step, one: int, b: Step, others: NDArray[np.int64], limit: float
) -> NDArray[np.bool_]:
    """Which rows are near one; those of another size or root mean square are asked for nothing else."""
    rms, theirs = a.values[one, RMS], b.values[others, RMS]
    near: NDArray[np.bool_] = b.values[others, ELEMENTS] == a.values[one, ELEMENTS]
    near &= ~(np.abs(theirs - rms) > limit * np.fmax(theirs, rms))
    near[near] = row_distances(a, one, b, others[near]) <= limit
    return near


class Calls:
    """The calls of two steps, paired.

    Attributes:
        a: the step of the first run.
        b: that of the second.
        layers: names of modules by whose weights they are in the second run.
        partner: calls of the second run by the calls of the first that they are.
        held: of each call of each run the layers in its module, by names in the second, or
            ``None``.
    """

    def __init__(self, a: Step, b: Step, weights: Mapping[str, str], limit: float) -> None:
        self.a: Step = a
        self.b: Step = b
        self._limit = max(limit, _NEAR)
        self._distances: dict[RowPlaces, float] = {}
        self.layers: dict[str, str] = {
            x.rpartition(".")[0]: y.rpartition(".")[0] for x, y in weights.items()
        }
        self.held = (
            _holdings(a.calls, self.layers),
            _holdings(b.calls, {x: x for x in self.layers.values()}),
        )
        self._own = _held(a, self.layers), _held(b, {*self.layers.values()})
        self.partner: dict[int, int] = {}
        self._is_free = np.ones(len(b.calls), np.bool_)
        self._pair_all()

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """In the order of the first run."""
        return sorted(self.partner.items())

    def distance(self, one: int, other: int) -> float:
        """How far two rows of the chains are apart."""
        if (one, other) not in self._distances:
            self._distances[one, other] = float(row_distances(self.a, one, self.b, other))
        return self._distances[one, other]

    def inputs(self, one: int, other: int) -> RowPlaces | None:
        """The inputs of two calls that are the farthest apart; ``None`` if there is nothing to compare."""
        return self._farthest(self.a.calls[one].inputs, self.b.calls[other].inputs)

    def outputs(self, one: int, other: int) -> RowPlaces:
        """The outputs of two calls that are the farthest apart."""
        ours, theirs = self.a.calls[one].outputs, self.b.calls[other].outputs
        return self._farthest(ours, theirs) or (ours[0], theirs[0])

    def _farthest(self, ones: tuple[int, ...], others: tuple[int, ...]) -> RowPlaces | None:
        """By place, if there are as many of as many elements; otherwise each of the run that is nearer to the other."""
        pairs = [*zip(ones, others, strict=False)]
        if len(ones) == len(others) and all(self.have_one_size(*pair) for pair in pairs):
            return max(pairs, key=lambda pair: self.distance(*pair), default=None)
        fitting = sorted(
            (self.distance(*pair), pair)
            for pair in product(ones, others)
            if self.have_one_size(*pair)
        )
        nearest = ({pair[side]: (far, pair) for far, pair in reversed(fitting)} for side in (0, 1))
        return min(max(each.values()) for each in nearest)[1] if fitting else None

    def have_one_size(self, one: int, other: int) -> bool:
        """Whether two rows are of as many elements."""
        return bool(self.a.values[one, ELEMENTS] == self.b.values[other, ELEMENTS])

    def unlikeness(self, one: int, other: int, limit: float) -> int:
        """0 of equal tensors, 1 of those of one size, 2 of those with another size of one dimension, 3 of others."""
        if self.have_one_size(one, other):
            return int(self.distance(one, other) > limit)
        shapes = self.a.rows[one].shape, self.b.rows[other].shape
        return 2 if len(shapes[0]) == len(shapes[1]) and sum(map(ne, *shapes)) < 2 else 3

    def are_elsewhere(self, one: int, other: int) -> bool:
        """Whether each of two tensors that are apart is among those of the other run: neither is wrong."""
        near = min(self._limit, self.distance(one, other) / 10)
        return self.is_known(0, one, near) and self.is_known(1, other, near)

    def is_known(self, side: int, row: int, limit: float) -> bool:
        """Whether a tensor of the first run, or the second, is among the inputs and outputs of the other."""
        step, against = (self.a, self.b) if side == 0 else (self.b, self.a)
        there = against.tensors[against.layouts[against.tensors] == step.layouts[row]]
        return bool(_near_rows(step, row, against, there, limit).any())

    def is_given(self, side: int, call: int, limit: float) -> bool:
        """Whether a call of the first run, or the second, has inputs, and the other run has all of them, too."""
        inputs = (self.a, self.b)[side].calls[call].inputs
        return bool(inputs) and all(self.is_known(side, row, limit) for row in inputs)

    def source(
        self, side: int, row: int, among: Iterable[int], otherwise: int, limit: float
    ) -> int:
        """The unpaired call that made a tensor of what the other run has, too."""
        step, paired = (self.a, self.b)[side], {pair[side] for pair in self.pairs}
        same = step.same(row)
        made = next(
            (x for x in among if x not in paired and same[[*step.calls[x].outputs]].any()),
            otherwise,
        )
        return made if self.is_given(side, made, limit) else otherwise

    def _pair_all(self) -> None:
        a, b = self.a.calls, self.b.calls
        holders: dict[Any, list[int]] = {}
        for other, held in enumerate(self.held[1]):
            if held:
                holders.setdefault(held, []).append(other)
        leaves, theirs = (  # what each call holds; of one with calls in it a number of its run
            np.array(
                [~side if inner else held for inner, held in zip(step.within, own, strict=True)],
                np.int64,
            )
            for side, (step, own) in enumerate(zip((self.a, self.b), self._own, strict=True))
        )
        ways: tuple[Callable[[int], Iterable[int]], ...] = (
            lambda one: self._near(
                "inputs", one, self._near("outputs", one, np.flatnonzero(self._is_free))
            ),
            lambda one: holders.get(self.held[0][one], ()),
            lambda one: self._near(
                "inputs", one, np.flatnonzero((theirs == leaves[one]) & self._is_free)
            ),
        )
        for find, one in product(ways, range(len(a))):
            if one not in self.partner:
                self._take(one, find(one))
        for pair in self.pairs:
            ones, others = (
                [at for at in sorted(step.within[call]) if step.parents[at] == call]
                for step, call in zip((self.a, self.b), pair, strict=True)
            )
            for one in sorted({*ones} - self.partner.keys()):
                self._take(one, (other for other in others if a[one].word == b[other].word))

    def _near(self, port: str, one: int, among: NDArray[np.int64]) -> NDArray[np.int64]:
        """The calls of the second run whose first inputs, or outputs, are near those of a call, or one has none."""
        ours, theirs = self.a.firsts[port][one], self.b.firsts[port][among]
        is_near = _near_rows(self.a, ours, self.b, theirs, self._limit) | (ours < 0) | (theirs < 0)
        near: NDArray[np.int64] = among[is_near]
        return near

    def _take(self, one: int, others: Iterable[int]) -> None:
        """Pair a call with the first of the same layers, with inputs and with outputs or equal inputs of one size."""
        call = self.a.calls[one]
        for other in others:
            theirs = self.b.calls[other]
            held = [of and of[0] for of in (self.held[0][one], self.held[1][other])]
            if self._is_free[other] and held[0] == held[1]:
                rows = self.inputs(one, other)
                is_one = self.have_one_size(call.outputs[0], theirs.outputs[0])
                if (
                    rows
                    and call.word == theirs.word
                    and 1 not in (self._own[0][one], self._own[1][other])
                ):
                    is_one |= self.distance(*rows) <= self._limit
                if is_one and (rows or not (call.inputs and theirs.inputs)):
                    self.partner[one] = int(other)
                    self._is_free[other] = False
                    return


def _held(step: Step, layers: Collection[str]) -> list[int]:
    """Of each call whether its module holds no weights of its own, weights, or weights that are paired."""
    holders = {name.rpartition(".")[0] for name in step.of("weights")}
    return [(call.name in holders) + (call.name in layers) for call in step.calls]


def _holdings(calls: list[Call], layers: Mapping[str, str]) -> list[Any]:
    """Of each call the layers in its module, by their names in the second run; with its number and that of all."""
    held: dict[str, set[str]] = {}
    for name, layer in layers.items():
        for at in range(name.count(".") + 2):
            held.setdefault(name.rsplit(".", at)[0] if at <= name.count(".") else "", set()).add(
                layer
            )
    counts = Counter(call.name for call in calls)
    return [
        (frozenset(held[x.name]), x.number, counts[x.name]) if x.name in held else None
        for x in calls
    ]
