"""``compare_runs``: are two recorded runs the same training, and if not, where do they part?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

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
    largest_first,
    loss_distances,
    smoothed,
    tensor_distances,
)
from mindsummary_lightning.comparison.hints import Hint, first_failures, hints_of, loss_ratio, shares
from mindsummary_lightning.comparison.names import GRADIENT, plain_name
from mindsummary_lightning.comparison.recorded_tensors import WholeTensor, whole_tensors
from mindsummary_lightning.comparison.result import (
    Comparison,
    DifferenceKind,
    FirstDifference,
    Mode,
    TensorDistance,
    Verdict,
)
from mindsummary_lightning.comparison.rounding import has_grown_slowly, stays_small, wandering_tensors
from mindsummary_lightning.values.text import listed

_COMPARABLE = 1e-2  # distance of the first losses; beyond it the runs began differently
_BEYOND_ROUNDING = 1e-2  # of a tensor recorded whole
_MANY_ELEMENTS, _RANDOM_BEGINNING, _FIRST_UPDATES = 64, 0.4, 3.0


def compare_runs(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    names: Mapping[str, str] | None = None,
    tolerance: Literal["float32", "bfloat16", "float16"] | float | None = None,
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
    whole = whole_tensors(sides[0].whole, sides[1].whole)
    first = remarks = None
    trend: dict[str, float | None] = {}
    if mode == "exact":
        first, remarks = _first_difference(alignment, losses, distances, limits)
        first = first or _first_whole_tensor(whole, limits)
    elif mode == "trend":
        trend = _trend(*sides, alignment)
    is_same = mode == "exact" and first is None
    verdict: Verdict = "not_comparable" if mode is None else "same" if is_same else "different"
    hints = hints_of(*sides, alignment, losses, distances, first.step, limits) if first else ()
    not_compared = shares(*sides) if alignment.names.pairs else []
    hints = (*not_compared, *(remarks or ()), *first_failures(*sides), *hints)
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
        whole_tensors=largest_first({tensor.a: float(tensor.distances.max()) for tensor in whole}),
        hints=hints,
        trend=trend,
        alignment=alignment,
        losses=losses,
        distances=distances,
    )


def _tolerance(asked: object, a: Side, b: Side) -> Tolerance:
    if asked is None:
        stated = " ".join(str(side.settings.get("precision", "")) for side in (a, b))
        return TOLERANCES["bfloat16" if "16" in stated else "float32"]
    if isinstance(asked, str) and asked in (*TOLERANCES, "float16"):
        return TOLERANCES["float32" if asked == "float32" else "bfloat16"]
    if isinstance(asked, bool) or not isinstance(asked, (int, float)) or not 0 < asked < 1:
        raise ValueError(f"tolerance must be float32, bfloat16, float16 or a number between 0 and 1, not {asked!r}")
    return Tolerance(f"{asked:g}", float(asked), float(asked))


def _mode(alignment: Alignment, losses: Floats, distances: Floats, limits: Tolerance) -> Mode | None:
    if losses.size:
        if losses[0] <= limits.loss or loss_ratio(alignment) is not None:
            return "exact"
        has_equal_beginning = _began_alike(alignment, distances)
        if has_equal_beginning is None:
            # A first loss that is a number in one run only is no other beginning, but what is to be told.
            has_equal_beginning = bool(losses[0] <= _COMPARABLE or losses[0] == np.inf)
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
    if gradients.all() and not losses.size:  # nothing else can decide
        limits = limits._replace(tensor=max(_BEYOND_ROUNDING, limits.tensor))
        gradients[:] = False
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
    kind: DifferenceKind = "forward" if loss is not None and loss > limits.loss else "update"
    after = int(before[-1]) if before.size else None
    is_beginning = after == recorded[0] or losses[alignment.loss_steps < step].max(initial=0.0) > 0
    if kind == "forward" and after == step - 1 and is_beginning and _updates_one_side(alignment):
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


def _first_whole_tensor(whole: list[WholeTensor], limits: Tolerance) -> FirstDifference | None:
    """Where tensors recorded whole part by more than rounding, of runs whose losses and weights agree."""
    limit = max(_BEYOND_ROUNDING, limits.tensor)
    far = {int(tensor.steps[tensor.distances > limit][0]) for tensor in whole if (tensor.distances > limit).any()}
    if not far:
        return None
    step = min(far)
    tensors = [
        TensorDistance(tensor.a, tensor.b, float(tensor.distances[tensor.steps == step][0]))
        for tensor in whole
        if (tensor.distances[tensor.steps == step] > limit).any()
    ]
    before = [int(earlier) for tensor in whole for earlier in tensor.steps if earlier < step]
    tensors.sort(key=lambda tensor: -tensor.distance)
    return FirstDifference(step, "forward", None, tuple(tensors), max(before, default=None))


def _updates_one_side(alignment: Alignment) -> bool:
    """Whether exactly one run recorded weights that the other did not: the other's optimizer does not hold them."""
    weights = [
        [name for name in names if not name.endswith(GRADIENT)]
        for names in (alignment.names.unmatched_a, alignment.names.unmatched_b)
    ]
    return alignment.has_weights and bool(weights[0]) != bool(weights[1])


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
        largest = np.fmax.reduce(np.abs([one, other]), axis=None)
        trend["largest_loss_difference"] = float(np.fmax.reduce(np.abs(one - other)) / (largest or 1.0))
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
    if first.kind == "forward" and first.tensors and first.loss_distance is None:
        farthest = first.tensors[0]
        return (
            f"{where}, in {farthest.a}, recorded whole: {farthest.distance:.1e} apart; losses and weights are the same."
        )
    if first.kind == "forward":
        cause = "in the forward pass or its data"
        if first.after is not None and not alignment.has_weights_before(first.step):
            cause = "in the forward pass, its data or an update before it"
        return f"{where}, {cause}: the losses are {first.loss_distance:.1e} apart ({tolerances})."
    if not first.tensors:
        return f"{where}, in the update of tensors that only one of them recorded ({tolerances})."
    names = listed([tensor.a for tensor in first.tensors], 3)
    far = first.tensors[0].distance
    equal = ", the loss is the same" if losses.size else ""
    return f"{where}, in the update: {names} are up to {far:.1e} apart{equal} ({tolerances})."


def _largest(distances: Floats) -> float | None:
    known = distances[~np.isnan(distances)]
    return float(known.max()) if known.size else None
