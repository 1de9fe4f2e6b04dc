"""Values of both runs, and values that only a single run recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindsummary_lightning.porting.comparison.alignment import Alignment
from mindsummary_lightning.porting.comparison.comparison_data import (
    Compared,
    OnlyIn,
    OtherShape,
)
from mindsummary_lightning.porting.comparison.matching.tensor_names import (
    GRADIENT,
    names_in_baseline,
    names_in_candidate,
)
from mindsummary_lightning.porting.comparison.recorded_step import RecordedStep
from mindsummary_lightning.porting.comparison.run_data import LOSS, RunData, statistics_tensors
from mindsummary_lightning.porting.comparison.statistics_comparison import StatisticsComparison


def compared(alignment: Alignment, statistics: StatisticsComparison | None) -> Compared:
    """Count the values that both runs recorded."""
    steps = set(alignment.tensors.steps.tolist())
    if statistics is not None:
        steps |= set(statistics.steps)
    if alignment.loss_tag == LOSS:  # a logged loss may be counted from zero
        steps |= set(alignment.losses.steps.tolist())
    tensors = len(alignment.names.pairs) if alignment.tensors.steps.size else 0
    losses = int(alignment.losses.steps.size)
    return Compared(max(len(steps), losses), tensors, losses)


def only_in_each(
    runs: tuple[RunData, RunData], alignment: Alignment, statistics: StatisticsComparison | None
) -> tuple[OnlyIn, OnlyIn]:
    """Name the tensors that a single run recorded, in any kind of recording."""
    a, b = runs
    paired_a = names_in_baseline(alignment.names.pairs)
    paired_b = names_in_candidate(alignment.names.pairs)
    names_a, names_b = list(alignment.names.unmatched_a), list(alignment.names.unmatched_b)
    if statistics is not None:
        paired_a |= set(statistics.names)
        paired_b |= set(statistics.names.values())
        names_a += _parameters(statistics.shown.pair.a)
        names_b += _parameters(statistics.shown.pair.b)
    if a.parameters is not None and b.parameters is not None:
        names_a += statistics_tensors(a.parameters, {*names_a, *paired_a})
        names_b += statistics_tensors(b.parameters, {*names_b, *paired_b})
    return (
        OnlyIn(a.steps_without(b), _without(names_a, paired_a)),
        OnlyIn(b.steps_without(a), _without(names_b, paired_b)),
    )


def other_shapes(
    runs: tuple[RunData, RunData], only_a: OnlyIn, only_b: OnlyIn
) -> tuple[OtherShape, ...]:
    """Find tensors with the same name, but different shapes, in the two runs."""
    a, b = runs
    sizes_a, sizes_b = (a.shapes, a.elements), (b.shapes, b.elements)
    both = set(only_b.tensors)
    found = []
    for name in only_a.tensors:
        if name in both and not name.endswith(GRADIENT):
            found += _other_shape(name, sizes_a, sizes_b)
    return tuple(found)


def _other_shape(name: str, *runs: tuple[Mapping[str, Any], Mapping[str, int]]) -> list[OtherShape]:
    """List a tensor's two shapes, or its two numbers of elements.

    The list is empty if they are equal.
    """
    for known in zip(*runs, strict=True):
        sizes = [of_run.get(name) for of_run in known]
        if None not in sizes:
            return [] if sizes[0] == sizes[1] else [OtherShape(name, *sizes)]
    return []


def _parameters(step: RecordedStep) -> list[str]:
    names = []
    for row in step.rows:
        if row.link == "weights" and row.kind == "parameter":
            names.append(row.name)
    return names


def _without(names: list[str], paired: set[str]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(names) if name not in paired)
