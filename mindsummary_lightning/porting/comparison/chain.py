"""The first link of a step that parts: data, weights, modules, loss, gradients, update, compared in this order.

A difference counts at the first output whose inputs agree; whatever follows is its consequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import product
from operator import ne

import numpy as np

from mindsummary_lightning.porting.comparison.calls import (
    ELEMENTS,
    MEAN,
    RMS,
    SAMPLED,
    Calls,
    RowPlaces,
    Step,
    row_distances,
)
from mindsummary_lightning.porting.comparison.carried_weights import CarriedWeights
from mindsummary_lightning.porting.comparison.chain_parts import (
    Chain,
    DifferenceKind,
    Link,
    Part,
    PartingPlace,
    RowPair,
)
from mindsummary_lightning.porting.comparison.distances import Floats, Tolerance, largest
from mindsummary_lightning.reading.output_statistics import OutputStatistics

_GROWTH = 10.0  # times the distance of its inputs: what an output may be apart by
GRADIENT = 25.0  # times the limit: of gradients, which are sums over a batch
_NOISE = 1e-5  # of the greatest gradient: a gradient that is zero but for rounding
_UPDATE = 1e-3  # of an update
_RISE = 30.0  # times the distance in the steps before: what rounding grows to in a step
_CUT_OFF = 1e3  # times as great as its outputs, inputs of a function may be, as of ReLU
_RISEN = 0.1  # of a gradient: from where on it grows by the factor of two runs of one program
_FLIP = 5e-4  # of a gradient: what one activation on the other side of zero makes
_FLIPPED = 3.0  # times the square root of the distance of outputs: of gradients
_CHANGE = 0.01  # of what something else than the update changes weights by
_UNCHANGED = 1e-6  # of one tensor, reduced twice, and of a setting
TIMES_FLOOR = 3.0  # of what two runs of the first program are apart
_ROUNDED = 2.0**-22  # of a weight: what an update is known to, of one precision


def compare_chains(
    a: OutputStatistics | None,
    b: OutputStatistics | None,
    limits: Tolerance,
    names: Mapping[str, str],
    again: OutputStatistics | None,
) -> tuple[Chain | None, Part | None, Mapping[str, str]]:
    """Pair weights, and follow the steps with a table in both, up to a gap behind which weights are others, if any.

    Args:
        a: tables of the first run.
        b: of the second.
        limits: distances up to which rows and losses agree.
        names: of weights in the second run, by those in the first, which decide.
        again: tables of a second run of the first program; three times as far apart as it is no
            difference.
    """
    if a is None or b is None:
        return None, None, {}
    steps: list[int] = []
    compared: _Compared | None = None
    last, part, late, is_sure = compared, None, None, True
    for step in np.intersect1d(a.steps, b.steps).tolist():
        compared = _Compared(
            step, Step(*a.rows_at(step)), Step(*b.rows_at(step)), limits, names, last
        )
        is_next = step == (steps[-1] + 1 if steps else 1)
        compared.is_sure = is_sure = (is_next and is_sure) or not compared.apart(compared.weights)
        if again is not None and step in again.steps:
            compared.floors = TIMES_FLOOR * compared.a.floors(Step(*again.rows_at(step)))
        if not is_next and (others := compared.apart(compared.weights)):
            late = Part(step, "weights", others)  # what led there is not known
            break
        steps.append(step)
        last, part = compared, compared.part()
        if part is not None:
            break
    return (
        Chain(steps, part, *last.links(), last.calls) if last else None,
        late,
        compared.names if compared else {},
    )


class _Compared:
    """One step of both runs, and the one before it, in which nothing parted."""

    def __init__(
        self,
        step: int,
        a: Step,
        b: Step,
        limits: Tolerance,
        names: Mapping[str, str],
        earlier: _Compared | None,
    ) -> None:
        self.step, self.a, self.b, self.limit, self.loss_limit = (
            step,
            a,
            b,
            limits.row,
            min(limits.loss, limits.row),
        )
        self._drift: dict[str, float] = {} if earlier is None else earlier.next_drift()
        self._unsure: dict[str, Floats] = {} if earlier is None else earlier._unsure
        self._grown: float = (
            0.0 if earlier is None else max(earlier._grown, earlier._effects[1], _FLIP)
        )
        self._risen = min(_RISE * self._grown, _RISEN + TIMES_FLOOR * self._grown)
        self._drifted: float = _FLIP if earlier is None else max(earlier._drifted, earlier._seen)
        self._carried = CarriedWeights(a, b, names)
        self.names: dict[str, str] = self._carried.names
        self.weights = self._rows_of("weights")
        self._parameters = [*zip(self.names.items(), self.weights, strict=True)]
        self.calls = Calls(a, b, self.names, self.limit)
        self._begun: list[RowPlaces] = (
            self.weights if earlier is None else self._changed_since(earlier)
        )
        counts = [float(len(step.of("loss"))) for step in (a, b)]
        self._counts = (
            (("number of losses", counts[:1], counts[1:]),) if counts[0] != counts[1] else ()
        )
        self.loss = [*zip(a.of("loss").values(), b.of("loss").values(), strict=False)][
            : 1 if self._counts else None
        ]
        self.is_sure = True  # that no optimizer has seen what was not recorded
        self.floors = np.zeros(len(a.rows))  # up to which each row of the first run agrees
        self._seen: float = 0.0  # the largest distance of outputs that agree
        # the row that parts, if one of several optimizers has updated before it
        self._until = len(a.rows)

    def part(self) -> Part | None:
        """The first link that parts."""
        if before := self._first("data", self._data_pairs()) or self._weights():
            return before
        if (forward := self._forward()) is not None and self._until == len(self.a.rows):
            return forward
        losses = [pair for pair in self.loss if pair[0] < self._until]
        link: DifferenceKind = "loss" if self.calls.pairs else "forward"
        far = max(
            [
                self._seen,
                *(self.calls.distance(*rows) for rows in self.weights if not self.calls.pairs),
            ]
        )
        loss = self._first(link, losses, max(self.limit, _GROWTH * far) if far else self.loss_limit)
        return loss or self._backward() or (self._update() if self.is_sure else None) or forward

    def _weights(self) -> Part | None:
        part = self._first("weights", self._begun)
        moved = part and self.apart(
            self._carried.exchanged("", {pair.a.name for pair in part.tensors})
        )
        return part._replace(tensors=moved) if part and moved else part

    def _first(
        self, link: DifferenceKind, pairs: list[RowPlaces], limit: float | None = None
    ) -> Part | None:
        return (
            Part(self.step, link, tensors, settings=self._counts)
            if (tensors := self.apart(pairs, limit))
            else None
        )

    def _changed_since(self, earlier: _Compared) -> list[RowPlaces]:
        """Weights that something changed since the end of the step before, in one run alone or otherwise in each."""
        changed: list[RowPlaces] = []
        limit = _GROWTH * max(
            [self.limit, *(earlier.calls.distance(*rows) for rows in earlier._rows_of("update"))]
        )
        for rows in self.weights:
            far = []
            for then, now, row in zip((earlier.a, earlier.b), (self.a, self.b), rows, strict=True):
                before = then.of("update").get(now.rows[row].name)
                far.append(0.0 if before is None else float(row_distances(then, before, now, row)))
            least = max(limit, _CHANGE * max(far)) if min(far) > _UNCHANGED else 0.0
            if max(far) > _UNCHANGED and self.calls.distance(*rows) > least:
                changed.append(rows)
        return changed

    def links(self) -> tuple[list[Link], Floats]:
        """What was compared, and how far outputs are apart."""
        pairs = {"data": self._data_pairs(), "weights": self.weights}
        pairs["forward"] = [self.calls.outputs(*pair) for pair in self.calls.pairs]
        pairs |= {
            "loss": self.loss,
            "gradients": self._rows_of("gradients"),
            "update": self._rows_of("update"),
        }
        far = {
            name: np.array([self._shown(name, *pair) for pair in rows], np.float64)
            for name, rows in pairs.items()
        }
        links = []
        for name, rows in pairs.items():
            ones, others = (
                step.calls if name == "forward" else step.of(name) for step in (self.a, self.b)
            )
            links.append(
                Link(
                    name,
                    len(rows),
                    (len(ones) - len(rows), len(others) - len(rows)),
                    largest(far[name]),
                )
            )
        return links, far["forward"]

    def _rows_of(self, link: str) -> list[RowPlaces]:
        rows_a, rows_b = (
            self.gradients if link == "gradients" else (self.a.of(link), self.b.of(link))
        )
        return [
            (rows_a[x], rows_b[y]) for x, y in self.names.items() if x in rows_a and y in rows_b
        ]

    def _pair(self, one: int, other: int, far: float | None = None) -> RowPair:
        return RowPair(
            self.a.row(one),
            self.b.row(other),
            self.calls.distance(one, other) if far is None else far,
        )

    def apart(self, pairs: list[RowPlaces], limit: float | None = None) -> tuple[RowPair, ...]:
        """What is beyond the limit, the farthest first."""
        found = [self._pair(*pair) for pair in pairs if self._is_apart(*pair, limit)]
        return tuple(sorted(found, key=lambda pair: -pair.distance))

    def _is_apart(self, one: int, other: int, limit: float | None = None) -> bool:
        """Whether rows are beyond the limit; in order, number or names of things only if it has an effect."""
        limit = max(self.limit if limit is None else limit, self.floors[one])
        if self.calls.distance(one, other) <= limit or self._has_effect():
            return self.calls.distance(one, other) > limit
        is_number = "int" not in self.a.rows[one].dtype
        return is_number and bool(
            limit < row_distances(self.a, one, self.b, other, by_order=False) < np.inf
        )

    def _has_effect(self, most: float = np.inf) -> bool:
        """Whether the loss or a gradient parts, without which elements may be in another order."""
        loss, limit = self._effects[0], GRADIENT * self.limit
        return loss > min(limit, most) or self._effects[1] > min(max(limit, self._risen), most)

    @cached_property
    def _effects(self) -> tuple[float, float]:
        """How far losses, and gradients that are no rounding, are apart; if there are none, infinitely."""
        slopes = [rows for rows in self._rows_of("gradients") if not self._is_noise(*rows)]
        loss, far = (
            max((self.calls.distance(*x) for x in pairs), default=0.0)
            for pairs in (self.loss, slopes)
        )
        return (loss, far) if self.loss or slopes else (np.inf, 0.0)

    def _data_pairs(self) -> list[RowPlaces]:
        """Tensors of the batch: by names that both have, if it matters; the likest first, then in their order."""
        pairs: dict[int, int] = {}
        ones, others = self.a.of("data"), self.b.of("data")
        by_name = (
            ones.keys() == others.keys() and not any(map(str.isdigit, ones)) and self._has_effect()
        )
        every = ((x != y, ones[x], others[y]) for x, y in product(ones, others))
        unlike = self.calls.unlikeness
        ranked = (
            (by_name and other, unlike(x, y, self.limit), other, x, y) for other, x, y in every
        )
        for _, rank, _, one, other in sorted(ranked):
            if rank < 3 and one not in pairs and other not in pairs.values():
                pairs[one] = other
        return [*pairs.items()]

    def _forward(self) -> Part | None:
        before: RowPair | None = None
        compared = {self.a.calls[one].name for one, _ in self.calls.pairs}
        own: dict[str, float] = {}  # of the weights in each module and in no other that is compared
        for rows in self.weights:
            name = module = self.a.rows[rows[0]].name
            while module and module not in compared:
                module = module.rpartition(".")[0]
            far = self.calls.distance(*rows) if self.a.rows[rows[0]].kind == "parameter" else 0.0
            own[module] = max(
                own.get(module, 0.0), far, min(self._drift.get(name, 0.0), self._drifted)
            )
        for one, other in self.calls.pairs:
            into, outputs = self.calls.inputs(one, other), self.calls.outputs(one, other)
            seen = self._seen
            # a function: of its inputs alone, which may be greater
            if into and not self.calls.held[0][one]:
                size = self.a.values[into[0], RMS] / max(self.a.values[outputs[0], RMS], 1e-300)
                seen = min(self.calls.distance(*into), max(seen, self.limit)) * min(
                    float(size), _CUT_OFF
                )
            room = max(self.limit, _GROWTH * max(seen, own.get(self.a.calls[one].name, 0.0)))
            if not self._is_apart(*outputs, room):
                far = self._shown("forward", *outputs)
                before = before if np.isnan(far) else self._pair(*outputs, far)
                # another order gives no room to what follows, rounding does
                in_order = self.calls.distance(*outputs)
                self._seen = float(
                    np.fmax(self._seen, in_order if in_order <= _GROWTH * self.limit else far)
                )
            elif self.loss and (
                self.a.is_loss(one, outputs[0]) or self.b.is_loss(other, outputs[1])
            ):
                return None
            elif self._counts_behind(*outputs):
                given = into if into is not None and self._is_apart(*into, room) else None
                place = self._place(one, other, given or outputs, bool(given))
                if min(self.a.of("settings").values(), default=self._until) < outputs[0]:
                    self._until = outputs[0]
                if exchanged := self.apart(self._carried.exchanged(place.a)):
                    return Part(self.step, "weights", exchanged)
                moved = () if given else self._moved(place.a)
                return Part(
                    self.step, "forward", (self._pair(*(given or outputs)), *moved), place, before
                )
        return None

    def _moved(self, module: str) -> tuple[RowPair, ...]:
        """Weights of a module that are apart after the step though neither run has a gradient of them."""
        slopes, parted = (
            self.gradients,
            self.apart(self._rows_of("update")) if all(self.gradients) else (),
        )
        own = (
            pair
            for pair in parted
            if (pair.a.kind, pair.a.name.rpartition(".")[0]) == ("parameter", module)
        )
        return tuple(
            pair for pair in own if pair.a.name not in slopes[0] and pair.b.name not in slopes[1]
        )

    def _counts_behind(self, one: int, other: int) -> bool:
        """Whether an output that neither run has elsewhere has an effect; the network's may be any of equal losses."""
        is_last = any(
            step.same(row, [*step.calls[-1].outputs]).any()
            for step, row in ((self.a, one), (self.b, other))
        )
        has_effect = not is_last or self._has_effect(self.calls.distance(one, other) / 10)
        return has_effect and not self.calls.are_elsewhere(one, other)

    def _place(self, one: int, other: int, rows: RowPlaces, is_given: bool) -> PartingPlace:
        """Where two calls part: unpaired calls that made their inputs or outputs; otherwise calls around, or they."""
        among = (
            (range(one), range(other)) if is_given else (self.a.within[one], self.b.within[other])
        )
        made = (
            self.calls.source(0, rows[0], among[0], one, self.limit),
            self.calls.source(1, rows[1], among[1], other, self.limit),
        )
        held = self.calls.held[0][made[0]], self.calls.held[1][made[1]]
        if all(held) and held[0][0] != held[1][0] and all(map(ne, made, (one, other))):
            made = one, other  # the code calls another one of the modules that both have
        outer = self._around(one, other) if is_given else made
        at = outer[0] if made[0] == one else made[0], outer[1] if made[1] == other else made[1]
        runs = zip(at, (self.a, self.b), strict=True)
        ones, others = (
            ("", "training step", 0) if x is None else step.calls[x][:3] for x, step in runs
        )
        lines = self.a.calls[made[0]].line, self.b.calls[made[1]].line
        between = is_given or bool(self.a.within[made[0]] or self.b.within[made[1]])
        return PartingPlace(ones[0], others[0], ones[1], others[1], ones[2], *lines, between)

    def _around(self, one: int, other: int) -> tuple[int | None, int | None]:
        """The innermost calls around two others whose inputs agree; ``None``: the training step."""
        for outer, partner in (
            (x, self.calls.partner[x]) for x in self.a.around(one) if x in self.calls.partner
        ):
            rows = self.calls.inputs(outer, partner)
            if (
                not self._is_apart(*rows)
                if rows
                else not (self.a.calls[outer].inputs and self.b.calls[partner].inputs)
            ):
                return outer, partner
        return None, None

    def _backward(self) -> Part | None:
        if not all(self.gradients) or not (apart := self._gradients_apart(1.0)):
            return None
        # One factor in all, or in the nearest, is a clipped norm or a scale: what it does not
        # explain is what differs.
        sizes = (
            (self.a.values[x, RMS], self.b.values[y, RMS], self.a.rows[x])
            for x, y in self._rows_of("gradients")
        )
        factors = {row: float(there / here) for here, there, row in sizes if min(here, there) > 0}
        likely = {
            float(np.median([*factors.values()] or 1)),
            *[factors[x.a] for x in apart if x.a in factors][:1],
        }
        rests = map(self._gradients_apart, likely)
        if rest := min(
            [apart, *(x for x in rests if len(x) < max(1, len(apart) - 2) and {*x} <= {*apart})],
            key=len,
        ):
            return Part(self.step, "backward", rest, settings=self._counts)
        one, other = self._norms(self.gradients)
        return Part(
            self.step,
            "backward",
            apart,
            settings=(*self._counts, ("norm of all gradients", one, other)),
        )

    def _norms(self, gradients: Iterable[dict[str, int]]) -> list[list[float]]:
        both = (
            step.values[[*x.values()]] for step, x in zip((self.a, self.b), gradients, strict=True)
        )
        return [[float(np.sqrt(np.nansum(rows[:, RMS] ** 2 * rows[:, ELEMENTS])))] for rows in both]

    def _gradients_apart(self, factor: float) -> tuple[RowPair, ...]:
        """Gradients beyond the limit if those of the second run are so many times too large, from the loss on."""
        slopes_a, slopes_b = self.gradients
        b = self.b.divided(factor)
        # Where activations are apart by a share of their size, about as many are on the other side
        # of zero.
        least = max(self._risen, _FLIPPED * float(np.sqrt(self._seen)))
        apart: dict[str, RowPair] = {}
        for (name, other), weights in self._parameters:
            one, theirs = slopes_a.get(name), slopes_b.get(other)
            if one is None or theirs is None:
                if one != theirs and self._update_distance(name, other, weights) > _UPDATE:
                    apart[name] = self._pair(
                        slopes_a.get(name, weights[0]), slopes_b.get(other, weights[1]), np.inf
                    )
            elif one < self._until:
                noise = self._noise / max(
                    np.fmax(self.a.values[one, RMS], self.b.values[theirs, RMS]), 1e-300
                )
                limit = max(
                    GRADIENT * (max(self.limit, self._seen) + noise), least, self.floors[one]
                )
                if row_distances(self.a, one, b, theirs, self._has_effect()) > limit:
                    apart[name] = self._pair(one, theirs)
        order = {call.name: place for place, call in enumerate(self.a.calls)}
        return tuple(
            apart[name]
            for name in sorted(apart, key=lambda name: -order.get(name.rpartition(".")[0], -1))
        )

    @cached_property
    def gradients(self) -> tuple[dict[str, int], dict[str, int]]:
        """Rows by name; after clipping, if one run alone has both and the other's gradients are nearer to those."""
        plain, clipped = ((self.a.of(link), self.b.of(link)) for link in ("gradients", "clipped"))
        if bool(clipped[0]) == bool(clipped[1]):
            return plain
        after = clipped[0] or plain[0], clipped[1] or plain[1]
        common = [
            pair for pair in self.names.items() if all(pair[side] in after[side] for side in (0, 1))
        ]
        rows = [
            [(ones[one], others[other]) for one, other in common] for ones, others in (plain, after)
        ]
        far = [np.median([self.calls.distance(*pair) for pair in pairs] or [0.0]) for pairs in rows]
        return after if far[1] < far[0] else plain

    @cached_property
    def _noise(self) -> float:
        """The size up to which a gradient is one that is zero but for rounding."""
        both = zip((self.a, self.b), self.gradients, strict=True)
        sizes = np.concatenate([step.values[[*rows.values()], RMS] for step, rows in both])
        return _NOISE * float(np.fmax.reduce(sizes, initial=0.0))

    def _update(self) -> Part | None:
        settings = [*self._settings()]
        least = 0.0 if any(name == "lr" for name, *_ in settings) else _UPDATE
        limit = max(least, _GROWTH * max(self.limit, self._seen))
        found = ((self._update_distance(*names, rows), names) for names, rows in self._parameters)
        rows_a, rows_b = self.a.of("update"), self.b.of("update")
        apart = [
            self._pair(rows_a[one], rows_b[other], far)
            for far, (one, other) in found
            if far > limit
        ]
        apart.sort(key=lambda pair: -pair.distance)
        return (
            Part(self.step, "update", tuple(apart), settings=(*self._counts, *settings))
            if apart
            else None
        )

    def _shown(self, link: str, one: int, other: int) -> float:
        """How far rows are apart; NaN of what is so without an effect, and of gradients that are rounding."""
        far = float(
            row_distances(
                self.a, one, self.b, other, link not in ("data", "forward") or self._has_effect()
            )
        )
        is_idle = link == "gradients" and self._is_noise(one, other)
        if link == "forward":
            is_idle = (
                not self._counts_behind(one, other) if self._is_apart(one, other) else far == np.inf
            )
        if link == "data":
            is_idle = far > self.limit and not self._is_apart(one, other)
        return np.nan if is_idle else far

    def _is_noise(self, one: int, other: int) -> bool:
        """Whether a gradient is zero but for rounding."""
        return bool(0 < max(self.a.values[one, RMS], self.b.values[other, RMS]) <= self._noise)

    def next_drift(self) -> dict[str, float]:
        """How far rounding may have moved weights apart as the next step begins.

        Where gradients are apart by a share of their size, about as many of their elements are
        nothing but rounding, and an optimizer like Adam makes whole steps of these.
        """
        drift, before, after = dict(self._drift), self.a.of("weights"), self.a.of("update")
        for rows in self._rows_of("gradients"):
            name = self.a.rows[rows[0]].name
            if name in before and name in after:
                moved = np.abs(
                    self.a.values[after[name], SAMPLED] - self.a.values[before[name], SAMPLED]
                ).max()
                share = float(moved) / max(float(self.a.values[after[name], RMS]), 1e-300)
                drift[name] = drift.get(name, 0.0) + share * np.sqrt(self.calls.distance(*rows))
        return drift

    def _settings(self) -> Iterator[tuple[str, list[float], list[float]]]:
        """The norms of clipped gradients, and settings in all groups of parameters, if they differ."""
        given = tuple(step.of("clipped") or step.of("gradients") for step in (self.a, self.b))
        one, other = self._norms(given)
        if given != self.gradients and not np.allclose(one, other, _UPDATE):
            yield "norm of the gradients that are applied", one, other
        found: list[dict[str, list[float]]] = [{}, {}]
        for side, step in zip(found, (self.a, self.b), strict=True):
            # some step twice
            for row in (row for row in step.of("settings").values() if not step.rows[row].call):
                side.setdefault(step.rows[row].port, []).append(float(step.values[row, MEAN]))
        for name, ones in found[0].items():
            others = found[1].get(name, ones)
            both = [sorted(x if len(ones) == len(others) else {*x}) for x in (ones, others)]
            if len(both[0]) != len(both[1]) or not np.allclose(both[0], both[1], _UNCHANGED):
                yield name, ones, others

    def _update_distance(self, name: str, other: str, before: RowPlaces) -> float:
        """How far two updates are apart by their size, beyond what gradients and the weights' precision explain."""
        after = self.a.of("update").get(name), self.b.of("update").get(other)
        slopes = self.gradients[0].get(name), self.gradients[1].get(other)
        if (
            after[0] is None
            or after[1] is None
            or self.calls.distance(after[0], after[1]) == np.inf
        ):
            return 0.0 if None in after else np.inf  # not as many elements are finite
        columns = (
            [MEAN, *SAMPLED] if self.a.layouts[after[0]] == self.b.layouts[after[1]] else [MEAN]
        )
        # of the gradients, by their size: Adam makes whole steps of it
        noise = np.zeros(len(columns))
        if slopes[0] is not None and slopes[1] is not None:
            if self._is_noise(slopes[0], slopes[1]):
                return 0.0
            ours, theirs = self.a.values[slopes[0], columns], self.b.values[slopes[1], columns]
            decays = (
                self.a.values[x, MEAN]
                for name, x in self.a.of("settings").items()
                if "weight_decay" in name
            )
            # to gradients, by some optimizers
            added = [x * self.a.values[before[0], columns] for x in (0.0, *decays)]
            sizes = [np.fmax(np.abs(ours + more), np.abs(theirs + more)) for more in added]
            noise = np.abs(ours - theirs) / np.fmax(
                np.min(sizes, axis=0), np.finfo(np.float32).tiny
            )
            # what single elements are unsure of, their mean is, too
            noise[0] = max(noise[0], noise.mean())
            noise = self._unsure[name] = np.fmax(noise, self._unsure.get(name, 0.0))
        one, other_ = (
            step.values[now, columns] - step.values[then, columns]
            for step, then, now in zip((self.a, self.b), before, after, strict=True)
        )
        size = float(np.fmax.reduce([*np.abs(one), *np.abs(other_)]))
        precision = (
            _ROUNDED if self.a.rows[after[0]].dtype == self.b.rows[after[1]].dtype else self.limit
        )
        rounding = precision * np.fmax(
            np.abs(self.a.values[after[0], columns]), self.a.values[after[0], RMS]
        )
        if self.a.rows[after[0]].kind == "buffer":  # a mean that is zero but for rounding
            given = [
                x
                for call in self.a.calls
                if call.name == name.rpartition(".")[0]
                for x in call.inputs
            ]
            rounding = rounding + _GROWTH * max(self.limit, self._seen) * self.a.values[
                given, RMS
            ].max(initial=0.0)
        far = float(np.fmax.reduce(np.abs(one - other_) - rounding - _GROWTH * noise * size))
        return far / size if size > 0 else 0.0
