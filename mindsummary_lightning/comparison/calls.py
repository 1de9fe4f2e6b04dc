"""Calls of modules in one step of two runs, paired by values, by the weights they hold, and by place."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.comparison.distances import Floats
from mindsummary_lightning.comparison.names import ascending
from mindsummary_lightning.values.step_chain import COLUMNS, ChainRow

_ORDER, _ELEMENTS, _RMS, _MEAN, _LOW, _HIGH, _ZEROS, _BAD = range(8)
_AVERAGES, _SINGLE = [_RMS, _MEAN], [_LOW, _HIGH]
_SINGLE_WEIGHT = 0.1  # rounding of one element is ten times that of a sum of many
_NEAR = 1e-4  # or the limit, if that is more: values that are those of one tensor, whether or not they agree
_KINDS = {"dense": "linear", "sequentialcell": "sequential", "celllist": "modulelist", "cell": "module"}


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a module: its places in the chain of the step."""

    name: str
    kind: str
    number: int
    line: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def is_like(self) -> str:
        """Its kind in the words of both frameworks."""
        kind = self.kind.lower()
        return _KINDS.get(kind, kind)


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a run: its rows in order, and their statistics, shape ``(n, columns)``."""

    rows: list[ChainRow]
    values: Floats

    def of(self, link: str) -> dict[str, int]:
        """The places of a link's rows by name, or by name and setting."""
        return self._links.get(link, {})

    @cached_property
    def _links(self) -> dict[str, dict[str, int]]:
        links: dict[str, dict[str, int]] = {}
        for place, row in enumerate(self.rows):
            words = [row.name, row.path, row.port if row.link == "settings" else "", str(row.call or "")]
            links.setdefault(row.link, {})[".".join(word for word in words if word)] = place
        return links

    @cached_property
    def calls(self) -> list[Call]:
        """The calls in the order in which they finished; those without an output of numbers are left out."""
        places: dict[tuple[str, int], dict[str, list[int]]] = {}
        for place, row in enumerate(self.rows):
            if row.link == "forward":
                places.setdefault((row.name, row.call), {"input": [], "output": []})[row.port].append(place)
        return [
            Call(name, self.rows[ports["output"][0]].kind, number, self.rows[ports["output"][0]].line,
                 tuple(ports["input"]), tuple(ports["output"]))
            for (name, number), ports in places.items()
            if ports["output"]
        ]  # fmt: skip

    def parent(self, index: int) -> int | None:
        """The call that a call was made in, by its name and order."""
        return self._nesting[0][index]

    def within(self, index: int) -> list[int]:
        """The calls that were made in a call."""
        return self._nesting[1][index]

    @cached_property
    def _nesting(self) -> tuple[list[int | None], list[list[int]]]:
        """Of each call the one around it, and those in it: of each name around it the next call that finishes."""
        parents: list[int | None] = [None] * len(self.calls)
        inner: list[list[int]] = [[] for _ in self.calls]
        later: dict[str, int] = {}
        for index in range(len(self.calls) - 1, -1, -1):
            name = around = self.calls[index].name
            while around:
                around = around.rpartition(".")[0]
                if (outer := later.get(around)) is not None:
                    inner[outer].append(index)
                    parents[index] = outer if parents[index] is None else parents[index]
            later[name] = index
        return parents, inner

    def consumers(self, row: int) -> list[int]:
        """The calls that got exactly the tensor of a row."""
        return self._users[0].get(self._tensor(row), [])

    def producer(self, row: int, before: int) -> int | None:
        """The call, before another, of which exactly the tensor of a row came first, or ``None``."""
        found = self._users[1].get(self._tensor(row), [before])[0]
        return found if found < before else None

    @cached_property
    def _users(self) -> tuple[dict[bytes, list[int]], dict[bytes, list[int]]]:
        """The calls that got, and that gave, each tensor."""
        users: tuple[dict[bytes, list[int]], dict[bytes, list[int]]] = {}, {}
        for index, call in enumerate(self.calls):
            for tensors, places in zip(users, (call.inputs, call.outputs), strict=True):
                for place in places:
                    tensors.setdefault(self._tensor(place), []).append(index)
        return users

    def _tensor(self, row: int) -> bytes:
        return bytes((self.values[row, _ELEMENTS:] + 0.0).tobytes())  # -0.0 is 0.0


def row_distances(one: Floats, other: Floats, same_order: NDArray[np.bool_] | bool = True) -> Floats:
    """How far rows are apart, by the root mean square: averages, and single elements by a tenth.

    Args:
        one: statistics, shape ``(..., columns)``.
        other: of the other run, of a shape that broadcasts.
        same_order: whether the sampled elements are at the same places.

    Returns:
        Distances; infinite if the tensors have not as many elements, or not as many that are finite.
    """
    rms = np.fmax(one[..., _RMS], other[..., _RMS])
    single_a, single_b = (np.concatenate([x[..., _SINGLE], x[..., _BAD + 1 :]], axis=-1) for x in (one, other))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        scale = np.fmax(rms[..., None], np.fmax(np.abs(single_a), np.abs(single_b)))
        single = np.nan_to_num(np.abs(single_a - single_b) / scale, nan=0.0)
        single[..., len(_SINGLE) :] *= np.asarray(same_order)[..., None]
        averages = np.nan_to_num(np.abs(one[..., _AVERAGES] - other[..., _AVERAGES]) / rms[..., None], nan=0.0)
    far = np.maximum(averages.max(axis=-1), _SINGLE_WEIGHT * single.max(axis=-1))
    unequal = (one[..., _ELEMENTS] != other[..., _ELEMENTS]) | (one[..., _BAD] != other[..., _BAD])
    distances: Floats = np.where(unequal, np.inf, far)
    return distances


class CallPair(NamedTuple):
    """Calls of two runs that are one, by their places among the calls."""

    a: int
    b: int
    is_sure: bool


class Calls:
    """The calls of two steps, paired."""

    def __init__(self, a: Step, b: Step, weights: Mapping[str, str], by_value: Set[str], limit: float) -> None:
        self.a: Step = a
        self.b: Step = b
        self._near = max(limit, _NEAR)
        self._distances: dict[tuple[int, int], float] = {}
        self._partner: dict[int, int] = {}
        self._taken: set[int] = set()
        self._unsure: set[int] = set()
        modules = {one.rpartition(".")[0]: other.rpartition(".")[0] for one, other in weights.items()}
        self.layers: dict[str, str] = modules  # of which the second run holds the weights of the first
        self.by_value: Set[str] = {name.rpartition(".")[0] for name in by_value}  # layers of which values alone say so
        self._modules = {*modules}, {*modules.values()}
        counts_a, counts_b = ({call.name: call.number + 1 for call in step.calls} for step in (a, b))
        self._at_b = {(call.name, call.number): place for place, call in enumerate(b.calls)}
        self._holders = {
            place: self._at_b[modules[call.name], call.number]
            for place, call in enumerate(a.calls)
            if call.name in modules and counts_a[call.name] == counts_b.get(modules[call.name])
        }
        self._out = self._output_distances()
        self._pair_all()

    def _output_distances(self) -> Floats:
        """Of the first output of every call to that of every call of the other run; infinite if of other sizes."""
        outputs = [[call.outputs[0] for call in step.calls] for step in (self.a, self.b)]
        distances = np.full((len(outputs[0]), len(outputs[1])), np.inf)
        values = self.b.values[outputs[1]]
        places: dict[tuple[int, ...], int] = {}
        orders = np.array([places.setdefault(_plain(self.b.rows[row].shape), len(places)) for row in outputs[1]])
        for one, row in enumerate(outputs[0]):
            equal = np.flatnonzero(values[:, _ELEMENTS] == self.a.values[row, _ELEMENTS])
            same = orders[equal] == places.get(_plain(self.a.rows[row].shape), -1)
            distances[one, equal] = row_distances(self.a.values[row], values[equal], same)
        return distances

    @property
    def pairs(self) -> list[CallPair]:
        """In the order of the first run."""
        return [CallPair(one, other, one not in self._unsure) for one, other in sorted(self._partner.items())]

    def partner(self, one: int) -> int | None:
        """The call of the second run that a call of the first is, or ``None``."""
        return self._partner.get(one)

    def row_distance(self, one: int, other: int) -> float:
        """How far two rows of the chains are apart."""
        if (one, other) not in self._distances:
            same = in_same_order(self.a.rows[one].shape, self.b.rows[other].shape)
            self._distances[one, other] = float(row_distances(self.a.values[one], self.b.values[other], same))
        return self._distances[one, other]

    def inputs(self, one: int, other: int) -> tuple[float, tuple[int, int] | None]:
        """How far the inputs of two calls are apart, and which two are the farthest; by place if there are as many."""
        ins, theirs = self.a.calls[one].inputs, self.b.calls[other].inputs
        by_place = [self._elements(*pair) for pair in zip(ins, theirs, strict=False)]
        farthest, rows = 0.0, None
        for at, row in enumerate(ins):
            candidates = (
                [theirs[at]]
                if len(ins) == len(theirs) and all(by_place)
                else [place for place in theirs if self._elements(row, place)]
            )
            if candidates:
                nearest = min(candidates, key=lambda place: self.row_distance(row, place))
                if (far := self.row_distance(row, nearest)) > farthest or rows is None:
                    farthest, rows = far, (row, nearest)
        return farthest, rows

    def outputs(self, one: int, other: int) -> tuple[float, tuple[int, int]]:
        """How far the outputs of two calls are apart, and which are the farthest; the first, if not as many."""
        ours, theirs = self.a.calls[one].outputs, self.b.calls[other].outputs
        pairs = [*zip(ours, theirs, strict=False)]
        pairs = pairs if len(ours) == len(theirs) and all(self._elements(*pair) for pair in pairs) else pairs[:1]
        farthest = max(pairs, key=lambda pair: self.row_distance(*pair))
        return self.row_distance(*farthest), farthest

    def _elements(self, one: int, other: int) -> bool:
        """Whether two rows are of as many elements of one sort of numbers."""
        sorts = ["float" in row.dtype for row in (self.a.rows[one], self.b.rows[other])]
        return bool(self.a.values[one, _ELEMENTS] == self.b.values[other, _ELEMENTS]) and sorts[0] == sorts[1]

    def _pair_all(self) -> None:
        near = self._out <= self._near
        kinds_a, kinds_b = ([call.is_like for call in step.calls] for step in (self.a, self.b))
        are_like = np.array([[one == other for other in kinds_b] for one in kinds_a], np.bool_).reshape(near.shape)
        for one, other in self._holders.items():
            if near[one, other]:
                self._take(one, other)
        self._pair_by(near & are_like, self._near_inputs)
        self._pair_by(near & are_like, lambda one, other: True)
        self._pair_by(near, self._near_inputs)
        places, theirs = (np.array([*side], np.int64) for side in (self._holders, self._holders.values()))
        for one, other in self._holders.items():
            is_crossed = self.a.calls[one].name in self.by_value and ((places - one) * (theirs - other) < 0).any()
            is_exchanged = is_crossed and not self._near_inputs(one, other)
            if not is_exchanged and self._elements(self.a.calls[one].outputs[0], self.b.calls[other].outputs[0]):
                self._take(one, other)
        for one in range(len(self.a.calls)):
            if one not in self._partner and (found := self._container(one)) is not None:
                self._take(one, found)
        self._pair_places(are_like)

    def _take(self, one: int, other: int) -> None:
        if one not in self._partner and other not in self._taken:
            self._partner[one] = other
            self._taken.add(other)

    def _near_inputs(self, one: int, other: int) -> bool:
        far, rows = self.inputs(one, other)
        return far <= self._near and (
            rows is not None or not self.a.calls[one].inputs or not self.b.calls[other].inputs
        )

    def _pair_by(self, may_be: NDArray[np.bool_], test: Callable[[int, int], bool]) -> None:
        """Pair what may be one, in order."""
        for one in range(len(may_be)):
            if one not in self._partner:
                for other in np.flatnonzero(may_be[one]).tolist():
                    if other not in self._taken and test(one, other):
                        self._take(one, other)
                        break

    def _are_layers(self, one: int, other: int) -> bool:
        """Whether both calls are of modules with weights, or neither is."""
        return (self.a.calls[one].name in self._modules[0]) == (self.b.calls[other].name in self._modules[1])

    def _container(self, one: int) -> int | None:
        """The call that holds the partners of all calls within one and no others; of several as far out as it is."""
        partners = {self._partner[inner] for inner in self.a.within(one) if inner in self._partner}
        around = self._around(self.b, min(partners), partners, self._taken) if partners else []
        ours = {place for place, other in self._partner.items() if other in partners}
        outer = self._around(self.a, one, ours, {*self._partner})
        fitting = [at for at in around if self._elements(self.a.calls[one].outputs[0], self.b.calls[at].outputs[0])]
        return fitting[-1 - min(len(outer), len(fitting) - 1)] if fitting else None

    def _around(self, step: Step, at: int, held: set[int], paired: set[int]) -> list[int]:
        """The unpaired calls around one that hold these paired ones and no others, the innermost first."""
        found = []
        outer = step.parent(at)
        while outer is not None:
            inner = {*step.within(outer)} & paired
            if inner == held and outer not in paired:
                found.append(outer)
            elif not inner <= held:
                break
            outer = step.parent(outer)
        return found

    def _pair_places(self, are_like: NDArray[np.bool_]) -> None:
        """Pair calls without calls inside between two pairs, of one kind or with the same inputs."""
        anchors = ascending([*self._partner.items()])
        places_a, places_b = [one for one, _ in anchors], [other for _, other in anchors]
        left = (other for other in range(len(self.b.calls)) if other not in self._taken)
        leaves_b = [other for other in left if not self.b.within(other)]
        for one in range(len(self.a.calls)):
            if one in self._partner or self.a.within(one):
                continue
            gap = bisect_left(places_a, one)
            for other in leaves_b:
                if (
                    other not in self._taken
                    and bisect_left(places_b, other) == gap
                    and self._elements(self.a.calls[one].outputs[0], self.b.calls[other].outputs[0])
                    and (are_like[one, other] or (self._are_layers(one, other) and self._near_inputs(one, other)))
                ):
                    self._take(one, other)
                    if not (are_like[one, other] and self._near_inputs(one, other)):
                        self._unsure.add(one)
                    break


def in_same_order(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two shapes are one but for dimensions of one element."""
    return _plain(one) == _plain(other)


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


assert COLUMNS[:8] == ("order", "elements", "rms", "mean", "minimum", "maximum", "zeros", "non_finite")
