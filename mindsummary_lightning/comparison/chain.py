"""The first link of a step that parts: data, weights, modules, loss, gradients, update, compared in this order.

A difference counts at the first output whose inputs agree; whatever follows is its consequence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mindsummary_lightning.comparison.calls import Call, Calls, Step, in_same_order, row_distances
from mindsummary_lightning.comparison.chain_parts import Link, Part, PartingPlace, RowPair
from mindsummary_lightning.comparison.names import TensorName, kind_of, match_names
from mindsummary_lightning.reading.module_tables import ModuleTable
from mindsummary_lightning.values.step_chain import COLUMNS

_GROWTH = 10.0  # times the distance of its inputs: what an output may be apart by
_ORDER, _ELEMENTS, _RMS, _MEAN, _LOW, _HIGH, _ZEROS, _BAD = range(8)
_GRADIENT = 25.0  # times the limit: of gradients, which are sums over a batch
_NOISE = 1e-5  # of the greatest gradient: a gradient that is zero but for rounding
_UPDATE = 1e-3  # of an update
_SAME_SETTING = 1e-6
_ROUNDED = 2.0**-22  # of a weight: what an update is known to


@dataclass(frozen=True, eq=False)
class Chain:
    """What the tables of two runs say of each other.

    Attributes:
        steps: common steps with a table, up to the one at which they part.
        part: where they part, or ``None``.
        links: of the last of the steps.
        calls: of the last of the steps.
    """

    steps: list[int]
    part: Part | None
    links: tuple[Link, ...]
    calls: Calls


def compare_chains(a: ModuleTable | None, b: ModuleTable | None, limit: float, begin: int = 1) -> Chain | None:
    """Follow the steps of which both runs have a table; ``None`` if there are none.

    Args:
        a: tables of the first run.
        b: of the second.
        limit: distance up to which rows agree.
        begin: the first step of the runs; weights that are apart as a later one begins may have parted before it.
    """
    if a is None or b is None:
        return None
    chain: Chain | None = None
    steps: list[int] = []
    for step in np.intersect1d(a.steps, b.steps).tolist():
        compared = _Compared(step, Step(*a.chain(step)), Step(*b.chain(step)), limit, not steps)
        follows = step == begin if not steps else step == steps[-1] + 1
        if not follows and compared.apart(compared.weights):
            break  # what happened in between is not known
        part = compared.part()
        steps.append(step)
        chain = Chain([*steps], part, tuple(compared.links()), compared.calls)
        if part is not None:
            break
    return chain


class _Compared:
    """One step of both runs."""

    def __init__(self, step: int, a: Step, b: Step, limit: float, is_first: bool) -> None:
        self.step, self.a, self.b, self.limit = step, a, b, limit
        weights_a, weights_b = a.of("weights"), b.of("weights")
        names = match_names(_names(a, weights_a), _names(b, weights_b))
        self.names = _by_layer({pair.a: pair.b for pair in names.pairs}, weights_b)
        self.names |= self._equal_rows(names.unmatched_a, names.unmatched_b)
        self.weights = [(weights_a[one], weights_b[other]) for one, other in self.names.items()]
        self.calls = Calls(a, b, self.names, {pair.a for pair in names.pairs if pair.rule == "value"}, limit)
        self._is_first = is_first
        self._seen = 0.0  # the largest distance of outputs that agree
        self.loss = [*zip(a.of("loss").values(), b.of("loss").values(), strict=False)]

    def _equal_rows(self, ones: tuple[str, ...], others: tuple[str, ...]) -> dict[str, str]:
        """Weights that no name pairs, by values that no other has: a parameter may be an embedding's weight."""
        rows_a, rows_b = self.a.of("weights"), self.b.of("weights")
        there = self.b.values[[rows_b[other] for other in others]]
        found = [np.flatnonzero(row_distances(self.a.values[rows_a[one]], there) <= self.limit) for one in ones]
        times = Counter(np.concatenate(found).tolist()) if found else {}
        return {one: others[at[0]] for one, at in zip(ones, found, strict=True) if len(at) == 1 == times[at[0]]}

    def part(self) -> Part | None:
        """The first link that parts."""
        return (
            self._data()
            or (self._weights() if self._is_first else None)
            or self._forward()
            or self._loss()
            or self._backward()
            or self._update()
        )

    def links(self) -> Iterator[Link]:
        """What was compared."""
        yield self._link("data", self._data_pairs())
        yield self._link("weights", self.weights)
        outputs = [(self.a.calls[x.a].outputs[0], self.b.calls[x.b].outputs[0]) for x in self.calls.pairs]
        yield self._link("forward", outputs, (len(self.a.calls), len(self.b.calls)))
        yield self._link("loss", self.loss)
        yield self._link("gradients", self._pairs_of("gradients"))
        yield self._link("update", self._pairs_of("update"))

    def _link(self, name: str, pairs: list[tuple[int, int]], of: tuple[int, int] | None = None) -> Link:
        count_a, count_b = of or (len(self.a.of(name)), len(self.b.of(name)))
        far = [self.calls.row_distance(*pair) for pair in pairs]
        return Link(name, len(pairs), (count_a - len(pairs), count_b - len(pairs)), max(far, default=None))

    def _pairs_of(self, link: str) -> list[tuple[int, int]]:
        rows_a, rows_b = self.a.of(link), self.b.of(link)
        return [(rows_a[x], rows_b[y]) for x, y in self.names.items() if x in rows_a and y in rows_b]

    def _pair(self, one: int, other: int, distance: float | None = None) -> RowPair:
        far = self.calls.row_distance(one, other) if distance is None else distance
        return RowPair(self.a.rows[one], self.b.rows[other], far)

    def apart(self, pairs: list[tuple[int, int]], limit: float | None = None) -> tuple[RowPair, ...]:
        """What is beyond the limit, the farthest first; an order of elements alone only if it has an effect."""
        found = [self._pair(*pair) for pair in pairs if self._is_apart(*pair, limit)]
        return tuple(sorted(found, key=lambda pair: -pair.distance))

    def _is_apart(self, one: int, other: int, limit: float | None = None) -> bool:
        limit = self.limit if limit is None else limit
        if self.calls.row_distance(one, other) <= limit:
            return False
        is_order = row_distances(self.a.values[one], self.b.values[other], False) <= limit
        return not is_order or self._order_counts

    @cached_property
    def _order_counts(self) -> bool:
        """Whether tensors whose elements stand in another order are apart: loss or gradients are, too."""
        pairs = self.loss + self._pairs_of("gradients")
        return not pairs or any(self.calls.row_distance(*pair) > _GRADIENT * self.limit for pair in pairs)

    def _data_pairs(self) -> list[tuple[int, int]]:
        """Tensors of the batch: equal ones, then those of one rank in their order."""
        left_a, left_b = [*self.a.of("data").values()], [*self.b.of("data").values()]
        pairs = []
        for test in (lambda x, y: self.calls.row_distance(x, y) <= self.limit, self._may_be_one):
            for one in [*left_a]:
                other = next((row for row in left_b if test(one, row)), None)
                if other is not None:
                    pairs.append((one, other))
                    left_a.remove(one)
                    left_b.remove(other)
        return pairs

    def _may_be_one(self, one: int, other: int) -> bool:
        shapes = self.a.rows[one].shape, self.b.rows[other].shape
        same_size = self.a.values[one, _ELEMENTS] == self.b.values[other, _ELEMENTS]
        return bool(same_size) or (shapes[0][1:] == shapes[1][1:] and len(shapes[0]) == len(shapes[1]) > 0)

    def _data(self) -> Part | None:
        tensors = self.apart(self._data_pairs())
        return Part(self.step, "data", tensors) if tensors else None

    def _weights(self) -> Part | None:
        tensors = self.apart(self.weights)
        return Part(self.step, "weights", tensors) if tensors else None

    def _forward(self) -> Part | None:
        before: RowPair | None = None
        agreeing: dict[int, float] = {}
        own: dict[str, float] = {}  # of the weights of each module
        for name, weights in zip(self.names, self.weights, strict=True):
            module = name.rpartition(".")[0]
            own[module] = max(own.get(module, 0.0), self.calls.row_distance(*weights))
        for one, other, is_sure in self.calls.pairs:
            into, rows = self.calls.inputs(one, other)
            far, outputs = self.calls.outputs(one, other)
            is_given = rows is None or not self._is_apart(*rows, max(self.limit, _GROWTH * self._seen))
            explained = max(
                [own.get(self.a.calls[one].name, 0.0), into if is_given else 0.0]
                + [agreeing[inner] for inner in self.a.within(one) if inner in agreeing]
            )
            if not self._is_apart(*outputs, max(self.limit, _GROWTH * explained)):
                before, agreeing[one] = self._pair(*outputs, far), far
                self._seen = max(self._seen, far)
            elif is_sure or self._goes_on(one, other):
                if self._is_loss(one, other):
                    return None
                if is_given and (exchanged := self._exchanged(one, other)):
                    return Part(self.step, "weights", exchanged)
                if is_given:
                    return Part(self.step, "forward", (self._pair(*outputs, far),), self._at(one, other), before)
                assert rows is not None
                place = self._between(one, other, rows)
                return Part(self.step, "forward", (self._pair(*rows, into),), place, before)
        return None

    def _exchanged(self, one: int, other: int) -> tuple[RowPair, ...]:
        """The weights of two modules that stand at one place, if those of each are found in another module."""
        layer, theirs, layers = self.a.calls[one].name, self.b.calls[other].name, self.calls.layers
        if (
            not (self._is_first and layer in self.calls.by_value and theirs in layers.values())
            or layers[layer] == theirs
        ):
            return ()
        there = {kind_of(name): row for name, row in self.b.of("weights").items() if name.rpartition(".")[0] == theirs}
        rows = {kind_of(name): row for name, row in self.a.of("weights").items() if name.rpartition(".")[0] == layer}
        return self.apart([(row, there[kind]) for kind, row in rows.items() if kind in there])

    def _is_loss(self, one: int, other: int) -> bool:
        """Whether calls are those of a loss function: their output is the loss."""
        return any(
            loss and step.values[step.calls[at].outputs[0], _ELEMENTS] == 1
            for step, at, loss in ((self.a, one, self.loss), (self.b, other, self.loss))
        )

    def _goes_on(self, one: int, other: int) -> bool:
        """Whether what got the outputs of two calls, which may not be one, is apart, too, and the losses are."""
        if self.loss and self.calls.row_distance(*self.loss[0]) <= self.limit:
            return False
        for consumer in self.a.consumers(self.a.calls[one].outputs[0]):
            partner = self.calls.partner(consumer)
            if partner is not None and self.calls.outputs(consumer, partner)[0] <= self.limit:
                return False
        return True

    def _at(self, one: int, other: int) -> PartingPlace:
        call, theirs = self.a.calls[one], self.b.calls[other]
        return PartingPlace(
            call.name,
            theirs.name,
            call.kind,
            theirs.kind,
            call.number,
            call.line,
            theirs.line,
            bool(self.a.within(one) or self.b.within(other)),
        )

    def _between(self, one: int, other: int, rows: tuple[int, int]) -> PartingPlace:
        """Where a tensor comes from that is another in each run: of an unpaired call, or of the code around."""
        call, line_a = self._source(self.a, self.b, one, rows[0])
        theirs, line_b = self._source(self.b, self.a, other, rows[1])
        return PartingPlace(call.name, theirs.name, call.kind, theirs.kind, call.number, line_a, line_b, True)

    def _source(self, step: Step, against: Step, at: int, row: int) -> tuple[Call, str]:
        """The call that made a tensor of what the other run has, or the one whose own code did; and the line there."""
        paired = {pair.a if step is self.a else pair.b for pair in self.calls.pairs}
        there = against.values[[place for place, found in enumerate(against.rows) if found.link == "forward"]]
        first, passed = at, 0
        while (found := step.producer(row, at)) is not None and found not in paired:
            call = step.calls[found]
            unknown = [x for x in call.inputs if row_distances(step.values[x], there, False).min() > self.limit]
            passed += not any(np.array_equal(step.values[row, 1:], step.values[x, 1:]) for x in call.inputs)
            if not unknown and passed == 1:
                return call, call.line
            if not unknown:
                break
            at, row = found, unknown[0]
        return step.calls[self._around(step, first)], step.calls[first].line

    def _around(self, step: Step, at: int) -> int:
        """The innermost call around another whose inputs agree with those of its partner."""
        partners = {(x.a if step is self.a else x.b): (x.a, x.b) for x in self.calls.pairs}
        found = step.parent(at)
        while found is not None and (outer := step.parent(found)) is not None:
            if found in partners:
                _, rows = self.calls.inputs(*partners[found])
                if rows is None or not self._is_apart(*rows):
                    break
            found = outer
        return at if found is None else found

    def _loss(self) -> Part | None:
        tensors = self.apart(self.loss, max(self.limit, _GROWTH * self._seen))
        return Part(self.step, "loss", tensors) if tensors else None

    def _backward(self) -> Part | None:
        rows_a, rows_b = self.a.of("gradients"), self.b.of("gradients")
        if not rows_a or not rows_b:
            return None
        noise = self._noise
        apart: dict[str, RowPair] = {}
        for (name, other), weights in zip(self.names.items(), self.weights, strict=True):
            one, theirs = rows_a.get(name), rows_b.get(other)
            if one is not None and theirs is not None:
                size = np.fmax(self.a.values[one, _RMS], self.b.values[theirs, _RMS])
                if self._is_apart(one, theirs, _GRADIENT * (max(self.limit, self._seen) + noise / max(size, 1e-300))):
                    apart[name] = self._pair(one, theirs)
            elif (one is None) != (theirs is None) and self._moves_once(name, other, weights):
                rows = (
                    self.a.rows[weights[0] if one is None else one],
                    self.b.rows[weights[1] if theirs is None else theirs],
                )
                apart[name] = RowPair(*rows, np.inf)
        order = {call.name: place for place, call in enumerate(self.a.calls)}
        nearest = sorted(apart, key=lambda name: -order.get(name.rpartition(".")[0], -1))
        return Part(self.step, "backward", tuple(apart[name] for name in nearest)) if apart else None

    @cached_property
    def _noise(self) -> float:
        """The size up to which a gradient is one that is zero but for rounding."""
        sizes = [step.values[[*step.of("gradients").values()], _RMS] for step in (self.a, self.b)]
        return _NOISE * float(np.fmax.reduce(np.concatenate(sizes), initial=0.0))

    @cached_property
    def _sizes(self) -> dict[str, float]:
        """The root mean square of what each module of the first run gets."""
        return {call.name: float(self.a.values[[*call.inputs], _RMS].max(initial=0.0)) for call in self.a.calls}

    def _is_noise(self, gradients: tuple[int, int] | None) -> bool:
        """Whether the gradients of a weight, unlike zero, are nothing but rounding: Adam walks by whole steps of it."""
        if gradients is None:
            return False
        sizes = self.a.values[gradients[0], _RMS], self.b.values[gradients[1], _RMS]
        return bool(0 < max(sizes) <= self._noise)

    def _moves_once(self, name: str, other: str, before: tuple[int, int]) -> bool:
        """Whether a weight changes in one run only."""
        one, theirs = self.a.of("update").get(name), self.b.of("update").get(other)
        return one is not None and theirs is not None and self._update_distance(before, (one, theirs)) > _UPDATE

    def _update(self) -> Part | None:
        rows_a, rows_b = self.a.of("update"), self.b.of("update")
        slopes_a, slopes_b = self.a.of("gradients"), self.b.of("gradients")
        limit = max(_UPDATE, _GROWTH * max(self.limit, self._seen))
        apart = []
        for (name, other), before in zip(self.names.items(), self.weights, strict=True):
            if name in rows_a and other in rows_b:
                after = rows_a[name], rows_b[other]
                gradients = (slopes_a[name], slopes_b[other]) if name in slopes_a and other in slopes_b else None
                if self._is_noise(gradients):
                    continue
                if (far := self._update_distance(before, after, gradients)) > limit:
                    apart.append(self._pair(*after, far))
        apart.sort(key=lambda pair: -pair.distance)
        return Part(self.step, "update", tuple(apart), settings=tuple(self._settings())) if apart else None

    def _settings(self) -> Iterator[tuple[str, list[float], list[float]]]:
        """Settings whose values in all groups of parameters differ."""
        found: list[dict[str, list[float]]] = [{}, {}]
        for side, step in zip(found, (self.a, self.b), strict=True):
            for row in step.of("settings").values():
                side.setdefault(step.rows[row].port, []).append(float(step.values[row, _MEAN]))
        for name, values in found[0].items():
            theirs = found[1].get(name)
            if theirs is None or (
                len(values) == len(theirs) and np.allclose(sorted(values), sorted(theirs), _SAME_SETTING)
            ):
                continue
            yield name, values, theirs

    def _update_distance(
        self, before: tuple[int, int], after: tuple[int, int], gradients: tuple[int, int] | None = None
    ) -> float:
        """How far two updates are apart by their size, beyond what gradients and the weights' precision explain."""
        same = in_same_order(self.a.rows[after[0]].shape, self.b.rows[after[1]].shape)
        columns = [_MEAN, *range(_BAD + 1, len(COLUMNS))] if same else [_MEAN]
        noise = np.zeros(len(columns))  # of the gradients, by their size: Adam makes whole steps of it
        if gradients is not None:
            slopes = self.a.values[gradients[0], columns], self.b.values[gradients[1], columns]
            largest = np.fmax(np.fmax(*np.abs(slopes)), np.finfo(np.float32).tiny)
            noise = np.abs(slopes[0] - slopes[1]) / largest
            noise[0] = self.calls.row_distance(*gradients)
        one, other = (
            step.values[now, columns] - step.values[then, columns]
            for step, then, now in zip((self.a, self.b), before, after, strict=True)
        )
        size = float(np.fmax.reduce([*np.abs(one), *np.abs(other)]))
        rounding = _ROUNDED * np.fmax(np.abs(self.a.values[after[0], columns]), self.a.values[after[0], _RMS])
        if self.a.rows[after[0]].kind == "buffer":  # a mean that is zero but for rounding
            rounding = rounding + self.limit * self._sizes.get(self.a.rows[after[0]].name.rpartition(".")[0], 0.0)
        far = float(np.fmax.reduce(np.abs(one - other) - rounding - _GROWTH * noise * size))
        return far / size if size > 0 else 0.0


def _names(step: Step, rows: Mapping[str, int]) -> list[TensorName]:
    elements, numbers = step.values[:, _ELEMENTS], step.values[:, [_LOW, _HIGH, _MEAN]]
    return [TensorName(name, int(elements[row]), tuple(numbers[row].tolist())) for name, row in rows.items()]


def _by_layer(names: dict[str, str], theirs: Mapping[str, int]) -> dict[str, str]:
    """Pairs of one layer by their last words, if both layers have them: values would pair what has been exchanged."""
    stems = Counter((one.rpartition(".")[0], other.rpartition(".")[0]) for one, other in names.items())
    layers = {one: other for (one, other), _ in reversed(stems.most_common())}
    renamed = {}
    for one, other in names.items():
        stem, _, last = one.rpartition(".")
        same = f"{layers[stem]}.{last}" if layers[stem] else last
        renamed[one] = same if other.rpartition(".")[0] == layers[stem] and same in theirs else other
    return renamed if len({*renamed.values()}) == len(names) else names
