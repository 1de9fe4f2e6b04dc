"""Facts of the recorded numbers around the place where two runs part. A hint states numbers and names no cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindsummary_lightning.comparison.alignment import Alignment, Side, have_other_shares
from mindsummary_lightning.comparison.distances import Floats
from mindsummary_lightning.reading.module_tables import origin_text
from mindsummary_lightning.values.text import listed

_ROUNDING = 1e-4  # of a tensor's largest element; updates that are smaller give no ratio
_SAME_RATIO = 0.02  # spread of what is called one ratio
_MAX_FACTOR = 2e-3  # of a tensor's own value
_FEW = 8  # steps
_LISTED = 5


@dataclass(frozen=True, slots=True)
class Hint:
    """What numbers are.

    Attributes:
        rule: ``loss_ratio``, ``update_ratio``, ``proportional``, ``unchanged``, ``not_finite``, ``losses_apart``,
            ``shares``, ``walks`` or ``rounding``.
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


def hints_of(a: Side, b: Side, alignment: Alignment, step: int) -> list[Hint]:
    """Facts about the step at which two runs part; rules that do not apply say nothing."""
    hints = [*_not_finite(alignment, step), *_loss_ratio_hint(a, b, alignment), *_unchanged(alignment)]
    column = alignment.at(step)
    if column is not None:
        hints += structure(alignment, column)
    return hints


def structure(alignment: Alignment, column: int) -> list[Hint]:
    """How the differences of a step are one multiple of the updates, or of the tensors, which no rounding is."""
    return _update_ratio(alignment, column) or _proportional(alignment, column)


def first_failures(a: Side, b: Side) -> list[Hint]:
    """What each run's chains, or its statistics of parameters, say of its first number that is not finite."""
    hints = []
    for run, side in (("a", a), ("b", b)):
        origin = side.modules and side.modules.first_non_finite()
        if origin:
            step, row = origin
            text = f"the first number in {run} that is not finite comes from {origin_text(step, row)}"
            hints.append(Hint("not_finite", text, {"run": run, "step": step, "link": row.link, "tensor": row.name}))
            continue
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


def losses_apart(step: int, distance: float, update: float) -> Hint:
    """That losses differ where the weights before and after the step do not."""
    text = f"the losses of step {step} are {distance:.1e} apart, and the updates of that step agree to {update:.1e} of "
    text += "their size: the losses are of other parts of the batches, or computed otherwise; only tensors are compared"
    return Hint("losses_apart", text, {"step": step, "distance": distance, "update": update})


def walks(name: str, distance: float, until: float) -> Hint:
    """That a tensor is apart and nothing else is, before a step."""
    before = "" if until == np.inf else f" before step {until:.0f}"
    text = f"{name} is up to {distance:.2g} apart{before}, no loss beyond the tolerance, no other tensor four times"
    return Hint("walks", text, {"tensor": name, "distance": distance})


def _not_finite(alignment: Alignment, step: int) -> list[Hint]:
    for index in np.flatnonzero(alignment.steps >= step).tolist()[:1]:
        for tensor, pair in enumerate(alignment.names.pairs):
            counts = alignment.nonfinite[:, tensor, index].sum(axis=1).tolist()
            if counts[0] != counts[1]:
                numbers = {"tensor": pair.a, "step": int(alignment.steps[index]), "a": counts[0], "b": counts[1]}
                text = f"{pair.a} has {counts[0]} elements that are not finite in a and {counts[1]} in b"
                return [Hint("not_finite", f"{text} at step {numbers['step']}", numbers)]
    return []


def _loss_ratio_hint(a: Side, b: Side, alignment: Alignment) -> list[Hint]:
    ratio = loss_ratio(alignment)
    if ratio is None:
        return []
    sizes = [side.settings.get("batch_size") for side in (a, b)]
    known = "" if None in sizes else f" (batch sizes {sizes[0]} and {sizes[1]})"
    numbers = {"ratio": ratio, "batch_size_a": sizes[0], "batch_size_b": sizes[1]}
    return [Hint("loss_ratio", f"the first losses differ by the factor {ratio}{known}", numbers)]


def _unchanged(alignment: Alignment) -> list[Hint]:
    """Weights whose numbers stay the same in one run only."""
    hints = []
    moves = (np.diff(alignment.tensors, axis=2) != 0).any(axis=3)
    finite = ~alignment.nonfinite.any(axis=(0, 2, 3)) & np.isfinite(alignment.tensors).all(axis=(0, 2, 3))
    steps = alignment.steps.size
    for run, one, other in (("a", *moves), ("b", *moves[::-1])):
        still = np.flatnonzero(~one.any(axis=1) & other.any(axis=1) & alignment.is_weight & finite)
        names = [getattr(alignment.names.pairs[index], run) for index in still.tolist()]
        if names:
            text = f"{listed(names, _LISTED)}: minimum, maximum and mean are the same at all {steps} steps in {run}"
            hints.append(Hint("unchanged", text, {"run": run, "tensors": names}))
        own, theirs = (moved[alignment.is_weight & finite].any(axis=0) for moved in (one, other))
        gaps = np.unique(np.diff(np.flatnonzero(own)))
        if steps > _FEW and theirs.all() and gaps.size == 1 and gaps[0] > 1:
            text = f"{run} changes its weights at every step of {gaps[0]}, the other run at every one"
            hints.append(Hint("unchanged", text, {"run": run, "every": int(gaps[0])}))
    return hints


def _update_ratio(alignment: Alignment, at: int) -> list[Hint]:
    """One ratio of all updates of a step, from weights that were recorded before it."""
    at = max(at, 1)  # what was before the first step is not known, and the weights have hardly parted after it
    if at >= alignment.steps.size or alignment.steps[at] - alignment.steps[at - 1] != 1:
        return []
    now, before = alignment.tensors[:, :, at], alignment.tensors[:, :, at - 1]
    one, other = now - before
    clear = np.abs(one) > _ROUNDING * np.maximum(np.abs(now).max(axis=(0, 2)), 1e-12)[:, None]
    clear &= alignment.is_weight[:, None] & np.isfinite(one) & np.isfinite(other)
    if clear.sum() < 3 or clear.any(axis=1).sum() < 2:
        return []
    ratios = other[clear] / one[clear]
    ratio = float(np.median(ratios))
    close = np.abs(ratios - ratio) <= _SAME_RATIO * abs(ratio)
    spread = float(np.median(np.abs(ratios[close] - ratio))) if close.any() else 0.0
    if close.mean() < 0.8 or abs(ratio - 1) < 3 * spread + 1e-4:
        return []
    step = int(alignment.steps[at])
    names = [alignment.names.pairs[index].a for index in np.flatnonzero(clear.any(axis=1)).tolist()]
    text = f"from step {step - 1} to {step} nearly all of {len(names)} tensors change {ratio:.4g} times as much in b"
    return [Hint("update_ratio", text, {"ratio": ratio, "step": step, "tensors": names})]


def _proportional(alignment: Alignment, at: int) -> list[Hint]:
    """Differences that are one multiple of the tensors themselves."""
    one, other = alignment.tensors[:, :, at]
    difference: Floats = other - one
    largest = np.abs(difference).max(axis=1)
    far = alignment.is_weight & (largest > _ROUNDING / 30 * np.abs(one).max(axis=1)) & np.isfinite(largest)
    if not far.any():
        return []
    one, difference, largest = one[far], difference[far], largest[far]
    with np.errstate(invalid="ignore", divide="ignore"):  # a tensor of zeros gives no factor
        factors = (difference * one).sum(axis=1) / (one * one).sum(axis=1)
    rest = np.abs(difference - factors[:, None] * one).max(axis=1)
    middle = float(np.median(factors))
    is_one = (rest <= 0.3 * largest).all() and (np.abs(factors - middle) <= 0.3 * abs(middle)).all()
    if not is_one or not 0 < abs(middle) < _MAX_FACTOR:
        return []
    names = [alignment.names.pairs[index].a for index in np.flatnonzero(far).tolist()]
    text = f"{listed(names, _LISTED)} differ by {abs(middle):.2g} times their own value at step "
    text += f"{int(alignment.steps[at])}, the smaller ones in {'a' if middle > 0 else 'b'}"
    return [Hint("proportional", text, {"factor": middle, "tensors": names})]
