"""``compare_runs``: are two recorded runs the same training, and if not, where do they part?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.comparison.alignment import (
    Alignment,
    Side,
    align,
    largest_scalar_differences,
    read_side,
    setting_differences,
)
from mindsummary_lightning.comparison.distances import (
    TOLERANCES,
    Floats,
    Tolerance,
    loss_distances,
    smoothed,
    tensor_distances,
)
from mindsummary_lightning.comparison.hints import Hint, first_failures, hints_of, loss_ratio
from mindsummary_lightning.comparison.names import GRADIENT, plain_name
from mindsummary_lightning.comparison.rounding import has_grown_slowly, stays_small, wandering_tensors

_COMPARABLE = 1e-2  # distance of the first losses; beyond it the runs began differently
_MANY_ELEMENTS, _RANDOM_BEGINNING, _FIRST_UPDATES = 64, 0.4, 3.0


@dataclass(frozen=True, slots=True)
class TensorDistance:
    """A tensor of both runs.

    Attributes:
        a: its name in the first run.
        b: its name in the second run.
        distance: largest difference of minimum, maximum and mean, over the largest element; infinite if one run counts
            other elements that are not finite.
    """

    a: str
    b: str
    distance: float


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """Where two runs part.

    Attributes:
        step: the first recorded step at which they differ.
        kind: ``forward`` if the loss differs at that step, before its update; ``update`` if only tensors do.
        loss_distance: of the losses at that step, or ``None`` if one of them was not recorded.
        tensors: those that differ at that step, the farthest first.
        after: the last recorded step at which they did not differ, or ``None``.
    """

    step: int
    kind: str
    loss_distance: float | None
    tensors: tuple[TensorDistance, ...]
    after: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Result of :func:`compare_runs`.

    Attributes:
        a: directory of the first run.
        b: directory of the second run.
        verdict: ``same``, ``different`` or ``not_comparable``.
        mode: ``exact`` if both began with the same weights, as their first two steps show, or else if the first common
            losses agree to 1e-2; otherwise ``trend``; ``None`` if nothing can be compared.
        sentence: the verdict in words.
        first_difference: where they part; only in mode ``exact``.
        unmatched: names of tensors that only one run has, by ``a`` and ``b``.
        guessed: pairs of names that were matched by their place alone.
        compared: numbers of common ``steps``, ``tensors`` and ``losses``.
        largest: largest distance of ``loss`` and ``tensor`` at any common step; ``None`` without one.
        tolerance: the distances up to which the runs are the same.
        settings: settings that both runs state differently: name, value of the first, value of the second.
        scalars: largest relative difference of every other common scalar, the greatest first.
        hints: what the numbers look like.
        trend: in mode ``trend``, differences of the runs' courses.
        alignment: the runs side by side.
        losses: distances of the losses, float64, one per common step of the loss.
        distances: distances of the tensors, float64, shape ``(tensors, steps)``; NaN where not recorded.
    """

    a: str
    b: str
    verdict: str
    mode: str | None
    sentence: str
    first_difference: FirstDifference | None
    unmatched: Mapping[str, tuple[str, ...]]
    guessed: tuple[tuple[str, str], ...]
    compared: Mapping[str, int]
    largest: Mapping[str, float | None]
    tolerance: Tolerance
    settings: Mapping[str, tuple[Any, Any]]
    scalars: Mapping[str, float]
    hints: tuple[Hint, ...]
    trend: Mapping[str, float | None]
    alignment: Alignment = field(repr=False)
    losses: Floats = field(repr=False)
    distances: Floats = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON has it; numbers that are not finite are ``None``."""
        first = self.first_difference
        result: dict[str, Any] = _json(
            {
                "a": self.a,
                "b": self.b,
                "verdict": self.verdict,
                "mode": self.mode,
                "sentence": self.sentence,
                "first_difference": first
                and {
                    "step": first.step,
                    "class": first.kind,
                    "after": first.after,
                    "loss_distance": first.loss_distance,
                    "tensors": [asdict(tensor) for tensor in first.tensors],
                },
                "unmatched": {side: list(names) for side, names in self.unmatched.items()},
                "guessed": [{"a": one, "b": other} for one, other in self.guessed],
                "compared": dict(self.compared),
                "largest": dict(self.largest),
                "tolerance": self.tolerance._asdict(),
                "settings": {name: {"a": one, "b": other} for name, (one, other) in self.settings.items()},
                "scalars": dict(self.scalars),
                "hints": [asdict(hint) for hint in self.hints],
                "trend": dict(self.trend),
            }
        )
        return result


def compare_runs(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    names: Mapping[str, str] | None = None,
    tolerance: str | float | None = None,
) -> Comparison:
    """Compare two runs by their losses and the histograms of their weights and gradients.

    Args:
        a: directory of a run, of MindSpore or of this package.
        b: directory of another run.
        names: tensors of the first run by their names in the second, where they cannot be matched by themselves.
        tolerance: ``"float32"``, ``"bfloat16"``, a positive number for tensors and losses alike, or ``None``: by the
            weaker precision that the runs state.

    Returns:
        The result. It names no cause, only what the numbers look like.

    Raises:
        NotADirectoryError: ``a`` or ``b`` is not a directory.
        FileNotFoundError: it holds no run.
        DamagedFileError: a file is damaged.
        ValueError: ``names`` or ``tolerance`` cannot be used.
    """
    sides = read_side(a), read_side(b)
    limits = _tolerance(tolerance, *sides)
    alignment = align(*sides, names)
    losses = loss_distances(*alignment.losses)
    distances = tensor_distances(*alignment.tensors)
    distances = np.where((alignment.nonfinite[0] != alignment.nonfinite[1]).any(axis=2), np.inf, distances)
    mode = _mode(alignment, losses, distances, limits)
    first = remarks = None
    trend: dict[str, float | None] = {}
    if mode == "exact":
        first, remarks = _first_difference(alignment, losses, distances, limits)
    elif mode == "trend":
        trend = _trend(*sides, alignment)
    verdict = "not_comparable" if mode is None else "same" if mode == "exact" and first is None else "different"
    hints = hints_of(*sides, alignment, losses, distances, first.step, limits) if first else ()
    hints = (*(remarks or ()), *first_failures(*sides), *hints)
    return Comparison(
        a=sides[0].run_dir,
        b=sides[1].run_dir,
        verdict=verdict,
        mode=mode,
        sentence=_sentence(mode, first, alignment, losses, distances, limits),
        first_difference=first,
        unmatched={"a": alignment.names.unmatched_a, "b": alignment.names.unmatched_b},
        guessed=tuple((pair.a, pair.b) for pair in alignment.names.pairs if pair.rule == "guess"),
        compared={
            "steps": int(np.union1d(alignment.steps, alignment.loss_steps).size),
            "tensors": len(alignment.names.pairs),
            "losses": int(alignment.loss_steps.size),
        },
        largest={"loss": _largest(losses), "tensor": _largest(distances)},
        tolerance=limits,
        settings=setting_differences(*sides),
        scalars=largest_scalar_differences(*sides),
        hints=hints,
        trend=trend,
        alignment=alignment,
        losses=losses,
        distances=distances,
    )


def _tolerance(asked: str | float | None, a: Side, b: Side) -> Tolerance:
    if asked is None:
        stated = " ".join(str(side.settings.get("precision", "")) for side in (a, b))
        return TOLERANCES["bfloat16" if "16" in stated else "float32"]
    if isinstance(asked, str) and asked in (*TOLERANCES, "float16"):
        return TOLERANCES["float32" if asked == "float32" else "bfloat16"]
    if isinstance(asked, bool) or not isinstance(asked, (int, float)) or not 0 < asked < 1:
        raise ValueError(f"tolerance must be float32, bfloat16, float16 or a number between 0 and 1, not {asked!r}")
    return Tolerance(f"{asked:g}", float(asked), float(asked))


def _mode(alignment: Alignment, losses: Floats, distances: Floats, limits: Tolerance) -> str | None:
    if losses.size:
        if losses[0] <= limits.loss or loss_ratio(alignment) is not None:
            return "exact"
        has_equal_beginning = _began_alike(alignment, distances)
        if has_equal_beginning is None:
            has_equal_beginning = bool(losses[0] <= _COMPARABLE)
        return "exact" if has_equal_beginning else "trend"
    if not np.isfinite(distances).any():
        return None
    first = distances[:, np.isfinite(distances).any(axis=0).argmax()]
    return "exact" if np.nanmedian(first) <= _COMPARABLE else "trend"


def _began_alike(alignment: Alignment, distances: Floats) -> bool | None:
    """Whether both runs began with the same weights, judged after the first step; ``None`` if that cannot be told.

    Means of ``n`` random elements differ by about their spread over the root of ``n``; from equal weights, one update
    leads about as far as the next one.
    """
    if list(alignment.steps[:2]) != [1, 2]:
        return None
    weights = [index for index, pair in enumerate(alignment.names.pairs) if plain_name(pair.a).endswith("weight")]
    has_spread = np.ptp(alignment.tensors[0, :, 0, :2], axis=1) > 0
    chosen = [index for index in weights if has_spread[index] and alignment.elements[index] >= _MANY_ELEMENTS]
    first, second = alignment.tensors[:, chosen, 0], alignment.tensors[:, chosen, 1]
    if len(chosen) < 2 or not np.isfinite([first, second]).all():
        return None
    share = np.median(distances[chosen, 0] * np.sqrt(alignment.elements[chosen]))
    updates = np.abs(second - first).max(axis=2).sum(axis=0)
    is_far = np.abs(first[0] - first[1]).max(axis=1) > _FIRST_UPDATES * updates
    is_random, is_beyond = bool(share >= _RANDOM_BEGINNING), bool(np.median(is_far) == 1)
    return not is_random if is_random == is_beyond else None


def _first_difference(
    alignment: Alignment, losses: Floats, distances: Floats, limits: Tolerance
) -> tuple[FirstDifference | None, list[Hint]]:
    """Where the runs part, if they do; and what departs without being a difference."""
    wandering = wandering_tensors(alignment, losses, distances, limits)
    gradients = np.array([pair.a.endswith(GRADIENT) for pair in alignment.names.pairs], np.bool_)
    counting = np.where((wandering | gradients)[:, None], 0.0, distances)  # rounding shows in gradients first
    exceeding = counting > limits.tensor
    steps = np.union1d(alignment.steps[exceeding.any(axis=0)], alignment.loss_steps[losses > limits.loss])
    remarks = [_wanders(alignment, distances, index) for index in np.flatnonzero(wandering).tolist()]
    if not steps.size:
        return None, remarks
    step = int(steps[0])
    if stays_small(alignment, losses, counting, step, limits) or has_grown_slowly(alignment, losses, counting, step):
        numbers = {"step": step, "loss": _at(alignment.loss_steps, losses, step), "tolerance": limits.tensor}
        text = f"distances grew from rounding level, without a jump, and exceed the tolerance from step {step} on"
        return None, [*remarks, Hint("rounding", f"looks like rounding that has grown: {text}", numbers)]
    recorded = np.union1d(alignment.steps, alignment.loss_steps)
    before = recorded[recorded < step]
    loss = _at(alignment.loss_steps, losses, step)
    kind = "forward" if loss is not None and loss > limits.loss else "update"
    after = int(before[-1]) if before.size else None
    if kind == "forward" and after == step - 1 and _updates_one_side(alignment):
        # What only one run recorded moved in the update before, as no common tensor shows.
        step, kind, loss = after, "update", _at(alignment.loss_steps, losses, after)
        after = int(before[-2]) if before.size > 1 else None
    tensors = []
    for column in np.flatnonzero(alignment.steps == step).tolist():
        for index in np.flatnonzero((distances[:, column] > limits.tensor) & ~wandering).tolist():
            pair = alignment.names.pairs[index]
            tensors.append(TensorDistance(pair.a, pair.b, float(distances[index, column])))
    tensors.sort(key=lambda tensor: -tensor.distance)
    return FirstDifference(step, kind, loss, tuple(tensors), after), remarks


def _updates_one_side(alignment: Alignment) -> bool:
    """Whether exactly one run recorded weights that the other did not: the other's optimizer does not hold them."""
    weights = [
        [name for name in names if not name.endswith(GRADIENT)]
        for names in (alignment.names.unmatched_a, alignment.names.unmatched_b)
    ]
    return bool(weights[0]) != bool(weights[1])


def _at(steps: NDArray[np.int64], values: Floats, step: int) -> float | None:
    at = np.flatnonzero(steps == step)
    return float(values[at[0]]) if at.size else None


def _wanders(alignment: Alignment, distances: Floats, index: int) -> Hint:
    pair = alignment.names.pairs[index]
    far = float(np.nanmax(distances[index]))
    text = f"{pair.a} is up to {far:.2g} apart and no loss shows it: looks like a parameter whose true gradient is zero"
    return Hint("no_effect", text, {"tensor": pair.a, "distance": far})


def _trend(a: Side, b: Side, alignment: Alignment) -> dict[str, float | None]:
    """Differences of the courses of two runs that began differently."""
    trend: dict[str, float | None] = {}
    if alignment.loss_tag is not None and alignment.losses.shape[1]:
        one, other = (smoothed(losses) for losses in alignment.losses)
        scale = max(abs(one[-1]), abs(other[-1])) or 1.0
        trend["final_loss_a"], trend["final_loss_b"] = float(one[-1]), float(other[-1])
        trend["final_loss_difference"] = float(abs(one[-1] - other[-1]) / scale)
        trend["largest_loss_difference"] = float(np.nanmax(np.abs(one - other)) / np.nanmax(np.abs([one, other])))
    for key, side in (("seconds_per_step_a", a), ("seconds_per_step_b", b)):
        series = side.numbers.scalars.get(alignment.loss_tag or "")
        if series is not None and len(series) > 2:
            trend[key] = float(np.median(np.diff(series.wall_times) / np.diff(series.steps)))
    return trend


def _sentence(
    mode: str | None,
    first: FirstDifference | None,
    alignment: Alignment,
    losses: Floats,
    distances: Floats,
    limits: Tolerance,
) -> str:
    if mode is None:
        return (
            "The runs have no step in common at which both recorded a loss or a tensor: record both with "
            "collect_freq=1 and histogram_regular='.*'."
        )
    if mode == "trend":
        return (
            "The runs began differently (other weights, other data or another loss), so only their courses can be "
            "compared."
        )
    tolerances = f"tolerance {limits.name}: loss {limits.loss:g}, tensors {limits.tensor:g}"
    if first is None:
        largest = [
            f"{name} at most {value:.1e}"
            for name, value in (("losses", _largest(losses)), ("tensors", _largest(distances)))
            if value is not None
        ]
        return f"No difference: {', '.join(largest)} apart ({tolerances})."
    where = f"The runs part at step {first.step}"
    if first.after is not None and first.step - first.after > 1:
        where += f" (nothing was recorded between {first.after} and {first.step})"
    if first.kind == "forward":
        return (
            f"{where}, in the forward pass or its data: the losses are {first.loss_distance:.1e} apart ({tolerances})."
        )
    if not first.tensors:
        return f"{where}, in the update of tensors that only one of them recorded ({tolerances})."
    names = ", ".join(tensor.a for tensor in first.tensors[:3])
    more = f" and {len(first.tensors) - 3} more" if len(first.tensors) > 3 else ""
    far = first.tensors[0].distance
    return f"{where}, in the update: {names}{more} are up to {far:.1e} apart, the loss is the same ({tolerances})."


def _largest(distances: Floats) -> float | None:
    known = distances[~np.isnan(distances)]
    return float(known.max()) if known.size else None


def _json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
