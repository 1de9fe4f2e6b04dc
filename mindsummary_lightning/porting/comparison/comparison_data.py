"""``ComparisonData``: the findings of a comparison.

It has no methods that show them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from mindsummary_lightning.porting.comparison.alignment import Alignment
from mindsummary_lightning.porting.comparison.first_difference import Doubt, FirstDifference
from mindsummary_lightning.porting.comparison.notes import Note
from mindsummary_lightning.porting.comparison.run_distances import RepeatDistance, RunDistances
from mindsummary_lightning.porting.comparison.statistics_comparison import StatisticsComparison
from mindsummary_lightning.porting.comparison.tolerance_table import Tolerance

Verdict: TypeAlias = Literal["same", "different", "undecided", "not_comparable"]


class Compared(NamedTuple):
    """Numbers of steps, tensors and losses that both runs recorded."""

    steps: int
    tensors: int
    losses: int


class OnlyIn(NamedTuple):
    """The steps (their number) and tensors (their names) that a single run recorded."""

    steps: int
    tensors: tuple[str, ...]


class OtherShape(NamedTuple):
    """A tensor with the same name in both runs, but with different shapes.

    Attributes:
        name: its name.
        baseline: its shape in the baseline; its number of elements where a run did not record the
            shape.
        candidate: the same of the candidate.
    """

    name: str
    baseline: tuple[int, ...] | int
    candidate: tuple[int, ...] | int


class Largest(NamedTuple):
    """The largest loss distance and tensor distance; ``None`` without a common step."""

    loss: float | None
    tensor: float | None


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonData:
    """The findings of a comparison.

    Attributes:
        baseline: directory of the baseline.
        candidate: directory of the candidate.
        verdict: ``same`` within the tolerance, ``different``, ``undecided`` if rounding can explain
            the difference, or ``not_comparable`` without anything that both recorded.
        sentence: the verdict in words, with its numbers.
        next_step: what to do next; ``""`` if the runs are the same.
        first_difference: the first step at which the runs differ; only with ``different``.
        undecided_difference: the first step beyond tolerance; only with ``undecided``.
        doubt: why that step does not decide; only with ``undecided``.
        compared: what both runs recorded.
        only_in_baseline: what only the baseline recorded.
        only_in_candidate: what only the candidate recorded.
        other_shapes: tensors among them that have one name and two shapes.
        matched_by_value: pairs of names that were matched by values of the first step.
        matched_by_position: pairs of names that were matched by their position alone.
        largest: largest distances at any common step.
        tolerance: the tolerances.
        repeat: how far a repeat of the baseline differs, or ``None``.
        settings: settings that both runs state differently: name, value of the baseline, value of
            the candidate.
        scalars: largest relative difference of every other common scalar, the largest first.
        whole_tensors: largest distance of every tensor that both runs recorded whole.
        notes: facts in addition to the verdict.
        output_statistics: result of comparing the output statistics, or ``None``.
        alignment: the runs side by side.
        distances: their distances.
    """

    baseline: str
    candidate: str
    verdict: Verdict
    sentence: str
    next_step: str
    first_difference: FirstDifference | None
    undecided_difference: FirstDifference | None
    doubt: Doubt | None
    compared: Compared
    only_in_baseline: OnlyIn
    only_in_candidate: OnlyIn
    other_shapes: tuple[OtherShape, ...]
    matched_by_value: tuple[tuple[str, str], ...]
    matched_by_position: tuple[tuple[str, str], ...]
    largest: Largest
    tolerance: Tolerance
    repeat: RepeatDistance | None
    settings: Mapping[str, tuple[Any, Any]]
    scalars: Mapping[str, float]
    whole_tensors: Mapping[str, float]
    notes: tuple[Note, ...]
    output_statistics: StatisticsComparison | None = field(repr=False)
    alignment: Alignment = field(repr=False)
    distances: RunDistances = field(repr=False)

    @property
    def is_same(self) -> bool:
        """Whether the verdict is ``same``."""
        return self.verdict == "same"

    @property
    def shown_difference(self) -> FirstDifference | None:
        """The first step with a difference beyond tolerance, decisive or not."""
        return self.first_difference or self.undecided_difference

    def __bool__(self) -> bool:
        raise TypeError(
            "a Comparison cannot be used as a condition. Use .is_same, or .verdict, which "
            "has four values"
        )
