"""Result of a comparison of two runs, its lines, and its JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from html import escape
from typing import Any, Literal, NamedTuple, TypeAlias

from mindsummary_lightning.porting.comparison.alignment import Alignment
from mindsummary_lightning.porting.comparison.chain_parts import Chain, DifferenceKind, PartingPlace
from mindsummary_lightning.porting.comparison.chain_words import LISTED, both, chain_dict, lines
from mindsummary_lightning.porting.comparison.distances import Floats, Tolerance
from mindsummary_lightning.porting.comparison.hints import Hint
from mindsummary_lightning.porting.comparison.name_blocks import GRADIENT
from mindsummary_lightning.values.text import counted, finite_or_named, listed, map_json

Verdict: TypeAlias = Literal["same", "different", "undecided", "not_comparable"]
Mode: TypeAlias = Literal["exact", "trend"]
SETTINGS = "settings that differ"
TRENDS = {
    "final_loss": "mean of the last tenth of the losses",
    "seconds_per_step": "seconds per step",
}


@dataclass(frozen=True, slots=True)
class TensorDistance:
    """A tensor of both runs.

    Attributes:
        a: its name in the first run.
        b: its name in the second run.
        distance: largest difference of minimum, maximum and mean, over the largest element;
            infinite if one run counts other elements that are not finite.
    """

    a: str
    b: str
    distance: float


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """Where two runs part.

    Attributes:
        step: the first recorded step at which they differ.
        kind: ``weights`` if tensors are farther apart after it than ten updates lead; ``forward``
            if the loss of the step differs and no weight before it; ``update`` if tensors do after
            it and its loss does not; ``None`` where the records do not show which. With the chains
            of the steps also ``data``, ``loss``, ``backward``.
        loss_distance: of the losses at that step, or ``None`` if one of them was not recorded.
        tensors: those that differ at that step, the farthest first.
        after: the last recorded step at which they did not differ, or ``None``.
        module: with the chains and of kind ``forward``, where.
        settings: with the chains, numbers of losses, norms and settings of optimizers that differ:
            name, all values.
    """

    step: int
    kind: DifferenceKind | None
    loss_distance: float | None
    tensors: tuple[TensorDistance, ...]
    after: int | None
    module: PartingPlace | None = None
    settings: tuple[tuple[str, list[float], list[float]], ...] = ()


class Alone(NamedTuple):
    """What one run alone recorded: numbers of steps and of tensors."""

    steps: int
    tensors: int


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Result of :func:`~mindsummary_lightning.porting.comparison.verdict.compare_runs`.

    Attributes:
        a: directory of the first run.
        b: directory of the second run.
        verdict: ``same``, ``different``, ``undecided`` if it may be rounding, or
            ``not_comparable``.
        mode: ``exact`` if the runs are followed step by step, because the first losses agree or the
            weights began alike; ``trend`` if only their courses are compared; ``None`` if nothing
            can be compared.
        sentence: the verdict in words.
        first_difference: where they part; only in mode ``exact``.
        unmatched: names of tensors that only one run has, by ``a`` and ``b``.
        guessed: pairs of names that were matched by their place alone.
        by_value: pairs of names that were matched by the numbers of the first step.
        compared: numbers of common ``steps``, ``tensors`` and ``losses``.
        alone: what ``a`` and ``b`` alone recorded.
        largest: largest distance of ``loss`` and ``tensor`` at any common step; ``None`` without
            one.
        tolerance: the distances up to which the runs are the same.
        floor: largest distance of ``loss`` and ``tensor`` of two runs of the first program, or
            ``None``.
        settings: settings that both runs state differently: name, value of the first, value of the
            second.
        scalars: largest relative difference of every other common scalar, the greatest first.
        whole_tensors: largest distance of every tensor that both runs recorded whole, the greatest
            first.
        hints: facts of the numbers.
        trend: in mode ``trend``, differences of the runs' courses.
        chain: what the chains of the steps say, or ``None``.
        alignment: the runs side by side.
        losses: distances of the losses, float64, one per common step of the loss.
        distances: distances of the tensors, float64, shape ``(tensors, steps)``; NaN where not
            recorded.
    """

    a: str
    b: str
    verdict: Verdict
    mode: Mode | None
    sentence: str
    first_difference: FirstDifference | None
    unmatched: Mapping[str, tuple[str, ...]]
    guessed: tuple[tuple[str, str], ...]
    by_value: tuple[tuple[str, str], ...]
    compared: Mapping[str, int]
    alone: Mapping[str, Alone]
    largest: Mapping[str, float | None]
    tolerance: Tolerance
    floor: Mapping[str, float | None] | None
    settings: Mapping[str, tuple[Any, Any]]
    scalars: Mapping[str, float]
    whole_tensors: Mapping[str, float]
    hints: tuple[Hint, ...]
    trend: Mapping[str, float | None]
    chain: Chain | None = field(repr=False)
    alignment: Alignment = field(repr=False)
    losses: Floats = field(repr=False)
    distances: Floats = field(repr=False)

    @property
    def is_same(self) -> bool:
        """Whether the verdict is ``same``."""
        return self.verdict == "same"

    def __bool__(self) -> bool:
        raise TypeError(
            "a Comparison is neither true nor false: ask .is_same, or .verdict, which has four answers"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.verdict!r}, {self.sentence!r})"

    def __str__(self) -> str:
        return "\n".join(comparison_lines(self))

    def _repr_html_(self) -> str:
        # here: it draws what this is
        from mindsummary_lightning.porting.comparison.page import comparison_page

        page = escape(comparison_page(self), quote=True)
        return f'<iframe srcdoc="{page}" height="600" style="border: 0; width: 100%"></iframe>'

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON has it; numbers that are not finite are ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``."""
        shown = {each.name: getattr(self, each.name) for each in fields(self) if each.repr}
        first = self.first_difference
        if first is not None:
            settings = _both((name, (one, other)) for name, one, other in first.settings)
            module = first.module and first.module._asdict()
            # the class has its first name, too
            changed = {"class": first.kind, "module": module, "settings": settings}
            shown["first_difference"] = asdict(replace(first, module=None)) | changed
        result: dict[str, Any] = map_json(
            shown
            | {
                "alone": {run: alone._asdict() for run, alone in self.alone.items()},
                "by_value": [{"a": one, "b": other} for one, other in self.by_value],
                "chain": self.chain and chain_dict(self.chain),
                "guessed": [{"a": one, "b": other} for one, other in self.guessed],
                "hints": [asdict(hint) for hint in self.hints],
                "settings": _both(self.settings.items()),
                "tolerance": self.tolerance._asdict(),
            },
            finite_or_named,
        )
        return result


def _both(values: Iterable[tuple[str, tuple[Any, Any]]]) -> dict[str, dict[str, Any]]:
    return {name: {"a": one, "b": other} for name, (one, other) in values}


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """The lines of the text."""
    compared = comparison.compared
    yield from (f"a: {comparison.a}", f"b: {comparison.b}")
    tag = comparison.alignment.loss_tag
    loss = (
        f"the loss ({tag}) at {counted(compared['losses'], 'step')}"
        if tag
        else "no loss of a training step"
    )
    yield f"compared: {counted(compared['steps'], 'step')}, {loss}, {counted(compared['tensors'], 'tensor')}"
    for side, alone in comparison.alone.items():
        unmatched = comparison.unmatched[side]
        weights = [name for name in unmatched if not name.endswith(GRADIENT)]
        parts = [counted(alone.steps, "step")] if alone.steps else []
        kinds = (
            ("tensor", weights),
            ("gradient", [name for name in unmatched if name not in weights]),
        )
        parts += [
            f"{counted(len(names), kind)} ({listed(names, LISTED)})"
            for kind, names in kinds
            if names
        ]
        if parts:
            yield f"in {side} alone, not compared: {', '.join(parts)}"
    for how, matched in (
        ("by their first numbers", comparison.by_value),
        ("by their place alone", comparison.guessed),
    ):
        if matched:
            pairs = [f"{one} = {other}" for one, other in matched]
            yield f"paired {how} (--map decides): {listed(pairs, LISTED)}"
    if comparison.settings:
        yield SETTINGS
        yield from (
            f"  {name}: {one} | {other}" for name, (one, other) in comparison.settings.items()
        )
    yield comparison.sentence
    first = comparison.first_difference
    if first is not None and (comparison.chain is None or comparison.chain.part is None):
        yield from (
            f"  {tensor.distance:8.1e}  {both(tensor.a, tensor.b)}"
            for tensor in first.tensors[:LISTED]
        )
        if len(first.tensors) > LISTED:
            yield f"  and {len(first.tensors) - LISTED} more"
    if comparison.chain is not None:
        yield from lines(comparison.chain, comparison.tolerance.row)
    trend = (
        (TRENDS[name[:-2]], name[-1], value)
        for name, value in comparison.trend.items()
        if value is not None
    )
    yield from (f"  {name} of {run}: {value:.4g}" for name, run, value in trend)
    yield from (f"- {hint.text}" for hint in comparison.hints)
