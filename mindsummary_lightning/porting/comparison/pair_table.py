"""``PairTable``: the compared tensors of a step, a row per tensor.

A row holds a tensor of both runs, or a tensor that only one run recorded. The sentence, the
terminal's table, JSON and the page read only this table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from mindsummary_lightning.values.step_chain import OutputRow

Stage: TypeAlias = Literal["data", "weights", "forward", "loss", "gradients", "update"]
STAGES: tuple[Stage, ...] = ("data", "weights", "forward", "loss", "gradients", "update")
"""The stages of a step in the order in which they are computed and judged."""

RowRelation: TypeAlias = Literal[
    "equal", "within", "exceeds", "only_baseline", "only_candidate", "skipped"
]


@dataclass(frozen=True, slots=True)
class PairRow:
    """A row of the pair table: a tensor that either run recorded in the step.

    Attributes:
        step: the step.
        stage: the part of the step.
        baseline: the row in the baseline, or ``None``.
        candidate: the row in the candidate, or ``None``.
        distance: relative distance; NaN where nothing was compared.
        tolerance: largest distance that is no difference.
        relation: ``equal`` to the last bit that was recorded, ``within`` the tolerance,
            ``exceeds`` it, in one run only, or ``skipped``: the tensors differ, and the difference
            has no effect on loss and gradients, or is rounding of a gradient that is zero.
    """

    step: int
    stage: Stage
    baseline: OutputRow | None
    candidate: OutputRow | None
    distance: float
    tolerance: float
    relation: RowRelation

    @property
    def is_paired(self) -> bool:
        """Whether both runs have the tensor."""
        return self.baseline is not None and self.candidate is not None


class StageSummary(NamedTuple):
    """How many rows of a stage are paired or differ, and the largest distance.

    Attributes:
        stage: name of the stage.
        compared: number of tensors of both runs; of the forward pass, of module calls.
        only_baseline: number that only the baseline has.
        only_candidate: number that only the candidate has.
        exceeding: number beyond the tolerance.
        distance: the largest distance, or ``None``.
    """

    stage: Stage
    compared: int
    only_baseline: int
    only_candidate: int
    exceeding: int
    distance: float | None


class PairTable:
    """The pair table of a step; its rows are in the order of the stages."""

    def __init__(self, rows: Iterable[PairRow]) -> None:
        self.rows: tuple[PairRow, ...] = tuple(rows)

    def of(self, stage: Stage) -> tuple[PairRow, ...]:
        """Return the rows that belong to a stage."""
        return tuple(row for row in self.rows if row.stage == stage)

    def exceeding(self) -> tuple[PairRow, ...]:
        """Return the rows beyond their tolerance."""
        return tuple(row for row in self.rows if row.relation == "exceeds")

    def summaries(self) -> Iterator[StageSummary]:
        """Yield a summary of every stage."""
        for stage in STAGES:
            yield _summary(stage, self.of(stage))


def _summary(stage: Stage, rows: tuple[PairRow, ...]) -> StageSummary:
    relations = [row.relation for row in rows]
    only_baseline = relations.count("only_baseline")
    only_candidate = relations.count("only_candidate")
    known = [row.distance for row in rows if not np.isnan(row.distance)]
    return StageSummary(
        stage,
        len(rows) - only_baseline - only_candidate,
        only_baseline,
        only_candidate,
        relations.count("exceeds"),
        max(known, default=None),
    )


def relation_of(distance: float, *, exceeds: bool, is_skipped: bool) -> RowRelation:
    """Name how two paired rows relate, such as ``equal`` or ``exceeds``."""
    if is_skipped:
        return "skipped"
    if exceeds:
        return "exceeds"
    return "equal" if distance == 0 else "within"
