"""Makes notes: facts that a comparison reports in addition to its verdict.

A note is a fact in addition to the verdict. It states numbers and names no cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindsummary_lightning.porting.comparison.alignment import (
    Alignment,
    have_other_world_sizes,
)
from mindsummary_lightning.porting.comparison.run_data import RunData
from mindsummary_lightning.porting.comparison.tolerance_table import SAME_TENSOR
from mindsummary_lightning.reading.output_statistics import origin_text
from mindsummary_lightning.values.text import Phrase, listed

_LISTED = 5
_RUNS = "baseline", "candidate"


@dataclass(frozen=True, slots=True)
class Note:
    """A fact that the comparison found in addition to the verdict.

    Attributes:
        rule: ``loss_ratio``, ``unchanged``, ``not_finite``, ``world_sizes`` or ``step_offset``.
        text: the fact in words, with its numbers.
        numbers: the numbers and names that the text uses.
    """

    rule: str
    text: str
    numbers: Mapping[str, Any]


def notes_of(
    runs: tuple[RunData, RunData], alignment: Alignment, offset: int, step: int | None
) -> Iterator[Note]:
    """Yield all notes about two runs.

    Args:
        runs: baseline and candidate.
        alignment: both runs by common steps.
        offset: the number of steps by which the candidate was moved.
        step: the first step beyond tolerance, or ``None``.
    """
    if offset:
        text = Phrase(
            "the step numbers of the candidate are shifted by {:+d} to align the first losses",
            offset,
        )
        yield Note("step_offset", text, {"steps": offset})
    if alignment.names.pairs and have_other_world_sizes(*runs):
        yield _world_sizes(runs)
    yield from _first_non_finite(runs, alignment)
    if step is not None:
        yield from _non_finite_counts(alignment, step)
        yield from _loss_ratio(runs, alignment)
        yield from _unchanged(alignment)


def _world_sizes(runs: tuple[RunData, RunData]) -> Note:
    baseline, candidate = runs
    size_a, size_b = baseline.settings["device_num"], candidate.settings["device_num"]
    text = Phrase(
        "device_num is {} in the baseline and {} in the candidate: each run recorded the "
        "loss of its own part of a batch, "
        "so losses are not compared",
        size_a,
        size_b,
    )
    return Note("world_sizes", text, {"baseline": size_a, "candidate": size_b})


def _first_non_finite(runs: tuple[RunData, RunData], alignment: Alignment) -> Iterator[Note]:
    """Yield a note on the first step at which a run recorded a non-finite value.

    It comes from the output statistics, else from the parameter statistics, else from the loss.
    """
    for name, run, losses in zip(_RUNS, runs, alignment.losses.values, strict=True):
        note = _non_finite_output(name, run) or _non_finite_parameter(name, run)
        if note is None:
            failed = alignment.losses.steps[~np.isfinite(losses)]
            if failed.size:
                step = int(failed[0])
                text = Phrase(
                    "the loss of the {} is non-finite for the first time at step {}",
                    Phrase(name),
                    step,
                )
                note = Note("not_finite", text, {"run": name, "step": step})
        if note is not None:
            yield note


def _non_finite_output(name: str, run: RunData) -> Note | None:
    origin = run.output_statistics and run.output_statistics.first_non_finite()
    if not origin:
        return None
    step, row = origin
    text = Phrase(
        "the first non-finite value of the {} is in {}",
        Phrase(name),
        origin_text(step, row),
    )
    numbers = {"run": name, "step": step, "stage": row.link, "tensor": row.name}
    return Note("not_finite", text, numbers)


def _non_finite_parameter(name: str, run: RunData) -> Note | None:
    first = run.parameters and run.parameters.first_non_finite()
    if not first:
        return None
    text = Phrase(
        "the {} of {} is non-finite for the first time at step {} of the {}",
        Phrase(first.kind),
        first.parameter,
        first.step,
        Phrase(name),
    )
    numbers = {
        "run": name,
        "step": first.step,
        "kind": Phrase(first.kind),
        "tensor": first.parameter,
    }
    return Note("not_finite", text, numbers)


def _non_finite_counts(alignment: Alignment, step: int) -> Iterator[Note]:
    """Yield a note on the first tensor with different counts of non-finite values."""
    column = alignment.column(step)
    if column is None:
        return
    counts = alignment.tensors.nonfinite[:, :, column].sum(axis=2)
    for index in np.flatnonzero(counts[0] != counts[1]).tolist()[:1]:
        name = alignment.names.pairs[index].a
        count_a, count_b = counts[:, index].tolist()
        text = Phrase(
            "{} has {} non-finite elements in the baseline and {} in the candidate at step {}",
            name,
            count_a,
            count_b,
            step,
        )
        numbers = {"tensor": name, "baseline": count_a, "candidate": count_b, "step": step}
        yield Note("not_finite", text, numbers)


def _loss_ratio(runs: tuple[RunData, RunData], alignment: Alignment) -> Iterator[Note]:
    """Yield a note if the first losses differ by a factor that is a whole number."""
    if not alignment.losses.steps.size:
        return
    first = alignment.losses.values[:, 0]
    if not (np.isfinite(first).all() and first.all()):
        return
    ratio = float(max(first[0] / first[1], first[1] / first[0]))
    whole = round(ratio)
    if whole < 2 or abs(ratio - whole) >= SAME_TENSOR * ratio:
        return
    sizes = [run.settings.get("batch_size") for run in runs]
    known = "" if None in sizes else Phrase(" (batch sizes {} and {})", *sizes)
    text = Phrase("the first losses differ by the factor {}{}", whole, known)
    numbers = {"ratio": whole, "batch_size_baseline": sizes[0], "batch_size_candidate": sizes[1]}
    yield Note("loss_ratio", text, numbers)


def _unchanged(alignment: Alignment) -> Iterator[Note]:
    """Yield notes on weights that change in the baseline only or the candidate only."""
    moves = (np.diff(alignment.tensors.values, axis=2) != 0).any(axis=3).any(axis=2)
    for name, own, other in (("baseline", moves[0], moves[1]), ("candidate", moves[1], moves[0])):
        still = []
        for index in np.flatnonzero(~own & other & alignment.is_weight).tolist():
            pair = alignment.names.pairs[index]
            still.append(pair.a if name == "baseline" else pair.b)
        if still:
            text = Phrase(
                "{} did not change in the {} at any of {} steps",
                listed(still, _LISTED),
                Phrase(name),
                alignment.tensors.steps.size,
            )
            yield Note("unchanged", text, {"run": name, "tensors": still})
