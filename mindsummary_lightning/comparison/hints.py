"""What the numbers around the first difference look like. A hint states its numbers and claims no cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.comparison.alignment import Alignment, Side, have_other_shares
from mindsummary_lightning.comparison.distances import Floats, Tolerance
from mindsummary_lightning.comparison.names import GRADIENT, plain_name
from mindsummary_lightning.values.text import listed

_ROUNDING = 3e-6  # of a tensor's largest element; updates that are not far above it give no ratio
_SAME_RATIO = 0.02  # spread of what is called one ratio
_MAX_DECAY = 2e-3  # learning rate times weight decay
_SUDDEN = 30.0  # times the distance of the loss before
_MOST_GROWTH = 10.0  # of a tensor's second update by its first; beyond it, the tensor did not begin as assumed
_LISTED = 5


@dataclass(frozen=True, slots=True)
class Hint:
    """What numbers look like.

    Attributes:
        rule: name of the rule: ``loss_ratio``, ``update_ratio``, ``weight_decay``, ``not_updated``, ``batch``,
            ``accumulation``, ``optimizer_state``, ``one_run_only``, ``not_finite``, ``no_effect``, ``shares`` or
            ``rounding``.
        text: the rule in words, with its numbers.
        numbers: the numbers and names that the text uses.
    """

    rule: str
    text: str
    numbers: Mapping[str, Any]


def loss_ratio(alignment: Alignment) -> int | None:
    """The whole number by which the first losses differ, or ``None``."""
    if not alignment.losses.shape[1]:
        return None
    one, other = alignment.losses[:, 0].tolist()
    small, large = sorted((abs(one), abs(other)))
    ratio = large / small if small > 0 and np.isfinite(large) and (one > 0) == (other > 0) else 0.0
    return round(ratio) if round(ratio) >= 2 and abs(ratio - round(ratio)) < 1e-4 * ratio else None


def hints_of(
    a: Side, b: Side, alignment: Alignment, losses: Floats, distances: Floats, step: int, limits: Tolerance
) -> tuple[Hint, ...]:
    """What the numbers at the first difference look like; rules that do not apply say nothing."""
    hints = [
        *_not_finite(alignment, step),
        *_loss_ratio_hint(a, b, alignment),
        *_one_run_only(alignment),
        *_not_updated(alignment),
    ]
    hints += _accumulation(alignment)
    if not {hint.rule for hint in hints} & {"accumulation", "one_run_only", "loss_ratio"}:
        hints += _batch(alignment, losses, step, limits)
    at = np.flatnonzero(alignment.steps == step)
    is_update = not (losses[alignment.loss_steps == step] > limits.loss).any()
    if is_update and at.size and not any(hint.rule in ("not_updated", "accumulation") for hint in hints):
        column = int(at[0])
        hints += (
            _update_ratio(alignment, column)
            or _weight_decay(alignment, distances, column, limits)
            or _optimizer_state(alignment, distances, column, limits)
        )
    return tuple(hints)


def first_failures(a: Side, b: Side) -> list[Hint]:
    """What each run's statistics of parameters say of its first number that is not finite."""
    hints = []
    for run, side in (("a", a), ("b", b)):
        first = side.table and side.table.first_non_finite()
        if first:
            numbers = {"run": run, "tensor": first.parameter, "step": first.step, "kind": first.kind}
            text = f"the {first.kind} of {first.parameter} is not finite at step {first.step}, the first in {run}"
            hints.append(Hint("not_finite", text, numbers))
    return hints


def shares(a: Side, b: Side) -> list[Hint]:
    """That the losses of runs with other numbers of processes say nothing of each other."""
    if not have_other_shares(a, b):
        return []
    numbers = {"a": a.settings["device_num"], "b": b.settings["device_num"]}
    text = f"device_num is {numbers['a']} and {numbers['b']}: each run recorded the loss of its own share of a batch"
    return [Hint("shares", f"{text}, so only tensors are compared", numbers)]


def _not_finite(alignment: Alignment, step: int) -> list[Hint]:
    for index in np.flatnonzero(alignment.steps >= step).tolist()[:1]:
        for tensor, pair in enumerate(alignment.names.pairs):
            counts = alignment.nonfinite[:, tensor, index].sum(axis=1).tolist()
            if counts[0] != counts[1]:
                numbers = {"tensor": pair.a, "step": int(alignment.steps[index]), "a": counts[0], "b": counts[1]}
                text = f"{pair.a} has {counts[0]} elements that are not finite in a and {counts[1]} in b"
                return [Hint("not_finite", f"{text}, first at step {numbers['step']}", numbers)]
    return []


def _loss_ratio_hint(a: Side, b: Side, alignment: Alignment) -> list[Hint]:
    ratio = loss_ratio(alignment)
    if ratio is None:
        return []
    sizes = [side.settings.get("batch_size") for side in (a, b)]
    looks = (
        "a sum in the place of a mean over the batch" if ratio in sizes else "a sum in the place of a mean, or a factor"
    )
    known = "" if None in sizes else f" (batch sizes {sizes[0]} and {sizes[1]})"
    text = f"the first losses differ by the factor {ratio}{known}: looks like {looks}"
    return [Hint("loss_ratio", text, {"ratio": ratio, "batch_size_a": sizes[0], "batch_size_b": sizes[1]})]


def _one_run_only(alignment: Alignment) -> list[Hint]:
    hints = []
    for side, other, names in (("a", "b", alignment.names.unmatched_a), ("b", "a", alignment.names.unmatched_b)):
        weights = [name for name in names if not name.endswith(GRADIENT)]
        if weights and alignment.has_weights:
            text = f"{listed(weights, _LISTED)} recorded in {side} only: looks like frozen in {other}, "
            text += "not given to its optimizer, not selected for its histograms, or named otherwise"
            hints.append(Hint("one_run_only", text, {"run": side, "tensors": weights}))
    return hints


def _not_updated(alignment: Alignment) -> list[Hint]:
    still: tuple[list[str], list[str]] = ([], [])
    for index, pair in enumerate(alignment.names.pairs):
        if not pair.a.endswith(GRADIENT):
            moves = [bool(_moves(side[index]).any()) for side in alignment.tensors]
            if moves[0] != moves[1] and not alignment.nonfinite[:, index].any():
                still[moves.index(False)].append(pair.a if not moves[0] else pair.b)
    return [
        Hint(
            "not_updated",
            f"{listed(names, _LISTED)} never changed in {run}: looks like frozen or detached",
            {"run": run, "tensors": names},
        )
        for run, names in zip("ab", still, strict=True)
        if names
    ]


def _accumulation(alignment: Alignment) -> list[Hint]:
    weights = [index for index, pair in enumerate(alignment.names.pairs) if not pair.a.endswith(GRADIENT)]
    if alignment.steps.size < 5 or not weights:
        return []
    moves = [np.any([_moves(side[index]) for index in weights], axis=0) for side in alignment.tensors]
    for run, own, other in (("a", *moves), ("b", *moves[::-1])):
        if other.all() and 1 < (moved := int(own.sum())) < own.size:
            gaps = np.unique(np.diff(np.flatnonzero(own)))
            if gaps.size == 1 and gaps[0] > 1:
                text = f"{run} changes its weights at {moved} of {own.size} steps, every {gaps[0]}"
                looks = "looks like accumulated batches"
                return [Hint("accumulation", f"{text}: {looks}", {"run": run, "every": int(gaps[0])})]
    return []


def _batch(alignment: Alignment, losses: Floats, step: int, limits: Tolerance) -> list[Hint]:
    at = np.flatnonzero(alignment.loss_steps == step)
    if not at.size or at[0] == 0 or losses[at[0]] <= limits.loss or alignment.loss_steps[at[0] - 1] != step - 1:
        return []
    if not alignment.has_weights_before(step):
        return []
    before, now = float(losses[: at[0]].max()), float(losses[at[0]])
    if now < _SUDDEN * before or now == np.inf:  # a loss that is not finite says nothing of batches
        return []
    text = (
        f"the losses agree to {before:.1e} up to step {step - 1} and are {now:.1e} apart at step {step}, before its "
        "update: looks like another batch, or another order in it"
    )
    return [Hint("batch", text, {"step": step, "distance": now, "before": before})]


def _update_ratio(alignment: Alignment, at: int) -> list[Hint]:
    """One ratio of all updates of a step, from weights that were the same before it."""
    measured = _ratio_of_updates(alignment, at)
    if measured is None and not at and alignment.steps.size > 1:
        measured = _ratio_of_updates(alignment, 1)  # the weights have hardly parted yet
    if measured is None:
        return []
    ratio, names = measured
    step = int(alignment.steps[at])
    if at:
        looks = f"a learning rate or a schedule that differs from step {step} on"
    elif 1.05 < ratio < 2:
        looks = "another learning rate, or Nesterov momentum (1 + momentum at the first step)"
    elif ratio < 0.95:
        looks = "clipped gradients, dampening, or another learning rate"
    else:
        looks = "another learning rate"
    text = f"updates of {len(names)} tensors at step {step} are {ratio:.4g} times as large in b: looks like {looks}"
    return [Hint("update_ratio", text, {"ratio": ratio, "step": step, "tensors": names})]


def _ratio_of_updates(alignment: Alignment, at: int) -> tuple[float, list[str]] | None:
    ratios, names = [], []
    for index, pair in enumerate(alignment.names.pairs):
        if pair.a.endswith(GRADIENT):
            continue
        now = alignment.tensors[:, index, at]
        before = _before(alignment, index, at, pair.a)
        if before is None or not np.isfinite(now).all():
            continue
        one, other = now[0] - before[0], now[1] - before[1]
        clear = np.abs(one) > 30 * _ROUNDING * max(float(np.abs(now).max()), 1e-12)
        if clear.any():
            ratios += (other[clear] / one[clear]).tolist()
            names.append(pair.a)
    if len(ratios) < 3 or len(names) < 2:
        return None
    ratio = float(np.median(ratios))
    close = np.abs(np.array(ratios) - ratio) <= _SAME_RATIO * abs(ratio)
    spread = float(np.median(np.abs(np.array(ratios)[close] - ratio)))
    return None if close.mean() < 0.8 or abs(ratio - 1) < 3 * spread + 1e-4 else (ratio, names)


def _before(alignment: Alignment, index: int, at: int, name: str) -> Floats | None:
    """A tensor of both runs before a step: as recorded at the step before, or as layers begin, if its updates fit."""
    if at:
        before = alignment.tensors[:, index, at - 1]
        is_next = alignment.steps[at] - alignment.steps[at - 1] == 1
        return before if is_next and np.isfinite(before).all() else None
    last = plain_name(name).rpartition(".")[2]
    now = alignment.tensors[:, index, at]
    if list(alignment.steps[at : at + 2]) != [1, 2]:
        return None
    if last == "bias":
        before = np.zeros_like(now)
    elif last == "weight" and np.abs(now - 1).max() < 0.2:  # of a normalization
        before = np.ones_like(now)
    else:
        return None
    next_update = np.abs(alignment.tensors[:, index, 1] - now).max()
    has_begun_there = np.abs(now - before).max() <= _MOST_GROWTH * next_update
    return before if has_begun_there else None


def _weight_decay(alignment: Alignment, distances: Floats, at: int, limits: Tolerance) -> list[Hint]:
    """Differences that are one multiple of the tensors themselves."""
    factors, names = [], []
    for index in np.flatnonzero(distances[:, at] > limits.tensor).tolist():
        if alignment.names.pairs[index].a.endswith(GRADIENT):
            continue
        one, other = alignment.tensors[:, index, at]
        difference = other - one
        factor = float(difference @ one / (one @ one)) if one.any() else 0.0
        rest = np.abs(difference - factor * one).max()
        if rest > 0.3 * np.abs(difference).max():
            return []
        factors.append(factor)
        names.append(alignment.names.pairs[index].a)
    if not factors or not 0 < abs(middle := float(np.median(factors))) < _MAX_DECAY:
        return []
    if np.abs(np.array(factors) - middle).max() > 0.3 * abs(middle):
        return []
    run = "a" if middle > 0 else "b"
    text = (
        f"{listed(names, _LISTED)} differ by {abs(middle):.2g} times their own value at step "
        f"{int(alignment.steps[at])}: looks like weight decay of these in {run} only (learning rate times decay)"
    )
    return [Hint("weight_decay", text, {"factor": middle, "tensors": names, "run": run})]


def _optimizer_state(alignment: Alignment, distances: Floats, at: int, limits: Tolerance) -> list[Hint]:
    """Updates that are the same at the very first step, and nearly all different at the second."""
    weights = [index for index, pair in enumerate(alignment.names.pairs) if not pair.a.endswith(GRADIENT)]
    if alignment.steps[at] != 2 or at != 1 or (distances[weights, 1] > limits.tensor).mean() < 0.5:
        return []
    first, second = (float(np.nanmax(distances[weights, column])) for column in (0, 1))
    text = (
        f"tensors agree to {first:.1e} after the first update and are up to {second:.1e} apart after the second, whose "
        "loss is the same: looks like the optimizer's memory (momentum, dampening, betas)"
    )
    return [Hint("optimizer_state", text, {"first": first, "second": second})]


def _moves(tensor: Floats) -> NDArray[np.bool_]:
    """At which steps a tensor changed since the one before, shape ``(steps - 1,)``."""
    moved: NDArray[np.bool_] = (np.diff(tensor, axis=0) != 0).any(axis=1)
    return moved & np.isfinite(tensor[1:, 0])
