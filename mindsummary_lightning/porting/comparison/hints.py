"""Facts of the recorded numbers around the place where two runs part. A hint states numbers and names no cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindsummary_lightning.porting.comparison.alignment import Alignment, have_other_shares
from mindsummary_lightning.porting.comparison.sides import Side
from mindsummary_lightning.reading.output_statistics import origin_text
from mindsummary_lightning.values.text import Phrase, listed

_CLEAR = 1e-4  # of a tensor's largest element; updates that are smaller give no ratio
_SAME_RATIO = 0.02  # spread of what is called one ratio
_LISTED = 5


@dataclass(frozen=True, slots=True)
class Hint:
    """What numbers are.

    Attributes:
        rule: ``loss_ratio``, ``update_ratio``, ``unchanged``, ``not_finite``, ``losses_apart``,
            ``shares``, ``shift`` or ``walks``.
        text: the rule in words, with its numbers.
        numbers: the numbers and names that the text uses.
    """

    rule: str
    text: str
    numbers: Mapping[str, Any]


def remarks_of(
    sides: tuple[Side, Side],
    has_pairs: bool,
    apart: tuple[int, float, float] | None,
    walking: Mapping[str, float],
    shift: int,
) -> Iterator[Hint]:
    """How steps were counted, and what was left out: losses of shares of a batch, tensors that walk by themselves."""
    if shift:
        text = Phrase(
            "the first losses of {} are those of {} a step later; compared are equal ones",
            *"ba"[::shift],
        )
        yield Hint("shift", text, {"steps": shift})
    if has_pairs and have_other_shares(*sides):
        numbers: dict[str, Any] = dict(
            zip("ab", (side.settings["device_num"] for side in sides), strict=True)
        )
        text = Phrase(
            "device_num is {} and {}: each run recorded the loss of its own share of a batch, so only tensors are "
            "compared",
            *numbers.values(),
        )
        yield Hint("shares", text, numbers)
    if apart is not None:
        text = Phrase(
            "the losses of step {} are {:.1e} apart, and the updates of that step agree to {:.1e} of their size: the "
            "losses are of other parts of the batches, or computed otherwise; only tensors are compared",
            *apart,
        )
        yield Hint(
            "losses_apart", text, dict(zip(("step", "distance", "update"), apart, strict=True))
        )
    for name, far in walking.items():
        text = Phrase(
            "{} walks, up to {:.2g} apart, while no compared loss is beyond the tolerance",
            name,
            far,
        )
        yield Hint("walks", text, {"tensor": name, "distance": far})


def first_failures(sides: tuple[Side, Side], alignment: Alignment) -> Iterator[Hint]:
    """What each run's chains, statistics of parameters or losses say of its first number that is not finite."""
    for run, side, losses in zip("ab", sides, alignment.losses, strict=True):
        if origin := side.modules and side.modules.first_non_finite():
            step, row = origin
            text = Phrase(
                "the first number in chains of {} that is not finite is in {}",
                run,
                origin_text(step, row),
            )
            yield Hint(
                "not_finite", text, {"run": run, "step": step, "link": row.link, "tensor": row.name}
            )
        elif first := side.table and side.table.first_non_finite():
            numbers = {
                "kind": Phrase(first.kind),
                "tensor": first.parameter,
                "step": first.step,
                "run": run,
            }
            text = Phrase(
                "the {} of {} is not finite at step {}, the first in the statistics of {}",
                *numbers.values(),
            )
            yield Hint("not_finite", text, numbers)
        elif (failed := alignment.loss_steps[~np.isfinite(losses)]).size:
            text = Phrase(
                "the loss of {} is not finite at step {}, the first of those compared",
                run,
                int(failed[0]),
            )
            yield Hint("not_finite", text, {"run": run, "step": int(failed[0])})


def hints_of(sides: tuple[Side, Side], alignment: Alignment, step: int) -> Iterator[Hint]:
    """Facts about the step at which two runs part; rules that do not apply say nothing."""
    column = alignment.at(step)
    if column is not None:
        counts = alignment.nonfinite[:, :, column].sum(axis=2)
        for index in np.flatnonzero(counts[0] != counts[1]).tolist()[:1]:
            one, other = counts[:, index].tolist()
            numbers: dict[str, Any] = {
                "tensor": alignment.names.pairs[index].a,
                "a": one,
                "b": other,
                "step": step,
            }
            text = Phrase(
                "{} has {} elements that are not finite in a and {} in b at step {}",
                *numbers.values(),
            )
            yield Hint("not_finite", text, numbers)
    if (ratio := loss_ratio(alignment)) is not None:
        sizes = [side.settings.get("batch_size") for side in sides]
        known = "" if None in sizes else Phrase(" (batch sizes {} and {})", *sizes)
        numbers = {"ratio": ratio, "batch_size_a": sizes[0], "batch_size_b": sizes[1]}
        yield Hint(
            "loss_ratio",
            Phrase("the first losses differ by the factor {}{}", ratio, known),
            numbers,
        )
    yield from _unchanged(alignment)
    yield from update_ratio(alignment, column)


def loss_ratio(alignment: Alignment) -> int | None:
    """The whole number by which the first losses differ, or ``None``."""
    if not alignment.losses.shape[1]:
        return None
    one, other = alignment.losses[:, 0].tolist()
    ratio = (
        max(one / other, other / one) if one and other and np.isfinite([one, other]).all() else 0.0
    )
    return round(ratio) if round(ratio) >= 2 and abs(ratio - round(ratio)) < 1e-4 * ratio else None


def _unchanged(alignment: Alignment) -> Iterator[Hint]:
    """Weights whose numbers stay the same in one run only."""
    moves = (np.diff(alignment.tensors, axis=2) != 0).any(axis=3)
    moves[:, ~alignment.is_weight] = False
    for run, one, other in (("a", *moves), ("b", *moves[::-1])):
        still = np.flatnonzero(~one.any(axis=1) & other.any(axis=1))
        if names := [getattr(alignment.names.pairs[index], run) for index in still.tolist()]:
            values = listed(names, _LISTED), alignment.steps.size, run
            text = Phrase(
                "{}: minimum, maximum and mean are the same at all {} steps in {}", *values
            )
            yield Hint("unchanged", text, {"run": run, "tensors": names})


def update_ratio(alignment: Alignment, column: int | None) -> list[Hint]:
    """Whether nearly all updates of weights in a step have one ratio, which no rounding has."""
    # what was before the first step is not known, and the weights have hardly parted after it
    at = max(column or 0, 1)
    if (
        column is None
        or at >= alignment.steps.size
        or alignment.steps[at] - alignment.steps[at - 1] != 1
    ):
        return []
    one, other = np.diff(alignment.tensors[:, :, at - 1 : at + 1], axis=2)[:, :, 0]
    largest = np.abs(alignment.tensors[:, :, at - 1 : at + 1]).max(axis=(0, 2, 3))
    clear = (np.abs(one) > _CLEAR * np.maximum(largest, 1e-12)[:, None]) & alignment.is_weight[
        :, None
    ]
    names = [alignment.names.pairs[index].a for index in np.flatnonzero(clear.any(axis=1)).tolist()]
    ratios = other[clear] / one[clear]
    if len(names) < 2:
        return []
    ratio = float(np.median(ratios))
    close = np.abs(ratios - ratio) <= _SAME_RATIO * abs(ratio)
    spread = float(np.median(np.abs(ratios[close] - ratio))) if close.any() else 0.0
    if close.mean() < 0.8 or abs(ratio - 1) < 3 * spread + 1e-4:
        return []
    step = int(alignment.steps[at])
    values = step - 1, step, len(names), ratio
    text = Phrase(
        "from step {} to {} nearly all of {} tensors change {:.4g} times as much in b", *values
    )
    return [Hint("update_ratio", text, {"ratio": ratio, "step": step, "tensors": names})]
