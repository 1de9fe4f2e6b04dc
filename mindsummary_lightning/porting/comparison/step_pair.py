"""``StepPair``: a step of two runs, with paired weights and calls.

The stages only read it. A row that only one run has is shown as ``only_baseline`` or
``only_candidate``, and never decides the verdict.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import filterfalse
from typing import NamedTuple

import numpy as np

from mindsummary_lightning.porting.comparison.distances import Floats
from mindsummary_lightning.porting.comparison.divergence import RowPair, SettingDifference
from mindsummary_lightning.porting.comparison.pair_table import PairRow, RowRelation, Stage
from mindsummary_lightning.porting.comparison.paired_weights import PairedWeights
from mindsummary_lightning.porting.comparison.recorded_step import RMS, RecordedStep
from mindsummary_lightning.porting.comparison.row_distance import row_distances
from mindsummary_lightning.porting.comparison.step_pairing import RowIndices, StepPairing
from mindsummary_lightning.porting.comparison.tolerance_table import (
    GRADIENT_GROWTH,
    GRADIENT_NOISE,
    SPACINGS,
    TYPICAL_GRADIENT,
    ZERO_GRADIENT_SPACINGS,
    Tolerance,
)


class GradientRows(NamedTuple):
    """Row indices of the compared gradients, by parameter name, for both runs."""

    a: dict[str, int]
    b: dict[str, int]


class Effects(NamedTuple):
    """How far the losses and the gradients of a step differ between two runs.

    Attributes:
        loss: largest distance of a loss; infinite if there are neither losses nor gradients.
        gradient: largest distance of a gradient.
        typical_gradient: median distance of the gradients.
    """

    loss: float
    gradient: float
    typical_gradient: float


@dataclass(frozen=True, eq=False)
class StepPair:
    """A recorded step of two runs, with paired weights and module calls.

    Attributes:
        step: the step.
        a: the baseline's step.
        b: the candidate's step.
        weights: the weights, paired.
        calls: the module calls, paired.
        tolerance: the tolerances.
        noise: for each row of the baseline the distance up to which it is equal, measured by a
            repeat of the baseline; zeros without a repeat.
    """

    step: int
    a: RecordedStep
    b: RecordedStep
    weights: PairedWeights
    calls: StepPairing
    tolerance: Tolerance
    noise: Floats

    def exceeds(self, row_a: int, row_b: int, tolerance: float | None = None) -> bool:
        """Tell whether two rows differ by more than a tolerance.

        The default is the tolerance of rows. The order of elements counts only where it has an
        effect. So do whole numbers, which are often names of things.
        """
        limit = self.tolerance.row if tolerance is None else tolerance
        limit = max(limit, self.noise[row_a])
        distance = self.calls.distance(row_a, row_b)
        if distance <= limit or self.has_effect():
            return bool(distance > limit)
        if "int" in self.a.rows[row_a].dtype:
            return False
        unordered = float(row_distances(self.a, row_a, self.b, row_b, by_order=False))
        return bool(limit < unordered < np.inf)

    def has_effect(self, at_most: float = np.inf) -> bool:
        """Tell whether losses or gradients differ by more than tolerance or ``at_most``."""
        loss_limit = min(self.tolerance.row, at_most)
        gradient_limit = min(GRADIENT_GROWTH * self.tolerance.row, at_most)
        differs_typically = self.effects.typical_gradient > TYPICAL_GRADIENT
        differs_most = self.effects.gradient > gradient_limit
        return self.effects.loss > loss_limit or differs_most or differs_typically

    @cached_property
    def effects(self) -> Effects:
        """Return how far losses differ, and how far gradients larger than rounding do."""
        gradients = []
        for rows in self.rows_of("gradients"):
            if not self.is_noise(*rows):
                gradients.append(self.calls.distance(*rows))
        losses = [self.calls.distance(*rows) for rows in self.losses]
        if not losses and not gradients:
            return Effects(np.inf, 0.0, 0.0)
        typical = float(np.median(gradients or [0.0]))
        return Effects(max(losses, default=0.0), max(gradients, default=0.0), typical)

    @property
    def loss_counts(self) -> tuple[SettingDifference, ...]:
        """Return how many losses each run has in the step, if these numbers differ."""
        count_a, count_b = float(len(self.a.of("loss"))), float(len(self.b.of("loss")))
        if count_a == count_b:
            return ()
        return (SettingDifference("number of losses", [count_a], [count_b]),)

    @cached_property
    def losses(self) -> list[RowIndices]:
        """Return the paired losses of the step, in order.

        If the runs have different numbers of losses, only the first is returned.
        """
        losses_a, losses_b = [*self.a.of("loss").values()], [*self.b.of("loss").values()]
        pairs = [*zip(losses_a, losses_b, strict=False)]
        return pairs if len(losses_a) == len(losses_b) else pairs[:1]

    def rows_of(self, link: str) -> list[RowIndices]:
        """Return the paired rows of weights, gradients or updates."""
        rows_a, rows_b = self.a.of(link), self.b.of(link)
        if link == "gradients":
            rows_a, rows_b = self.gradients
        pairs = []
        for name_a, name_b in self.weights.names.items():
            if name_a in rows_a and name_b in rows_b:
                pairs.append((rows_a[name_a], rows_b[name_b]))
        return pairs

    @cached_property
    def gradients(self) -> GradientRows:
        """Return the gradients before clipping.

        If only the clipped gradients can be compared, these are returned.
        """
        plain = GradientRows(self.a.of("gradients"), self.b.of("gradients"))
        clipped = GradientRows(self.a.of("clipped"), self.b.of("clipped"))
        if bool(clipped.a) == bool(clipped.b):
            return plain
        after = GradientRows(clipped.a or plain.a, clipped.b or plain.b)
        common = []
        for name_a, name_b in self.weights.names.items():
            if name_a in after.a and name_b in after.b:
                common.append((name_a, name_b))
        before_distance = self._typical_distance(plain, common)
        return after if self._typical_distance(after, common) < before_distance else plain

    def _typical_distance(self, rows: GradientRows, names: list[tuple[str, str]]) -> float:
        distances = [
            self.calls.distance(rows.a[name_a], rows.b[name_b]) for name_a, name_b in names
        ]
        return float(np.median(distances or [0.0]))

    @cached_property
    def largest_gradient(self) -> float:
        """Return the largest root mean square of any gradient in either run."""
        sizes = [0.0]
        for step, rows in ((self.a, self.gradients.a), (self.b, self.gradients.b)):
            sizes += step.values[[*rows.values()], RMS].tolist()
        return float(np.fmax.reduce(sizes))

    def is_noise(self, row_a: int, row_b: int) -> bool:
        """Tell whether a gradient is zero in both runs, apart from rounding.

        Each run has its own limit, as a lower precision rounds more.
        """
        size_a, size_b = self.a.values[row_a, RMS], self.b.values[row_b, RMS]
        limit_a = _zero_gradient_limit(self.a, row_a) * self.largest_gradient
        limit_b = _zero_gradient_limit(self.b, row_b) * self.largest_gradient
        return bool(max(size_a, size_b) > 0 and size_a <= limit_a and size_b <= limit_b)

    def row_pair(self, row_a: int, row_b: int, distance: float | None = None) -> RowPair:
        """Return two rows as a pair, with the distance between them."""
        if distance is None:
            distance = self.calls.distance(row_a, row_b)
        return RowPair(self.a.row(row_a), self.b.row(row_b), distance)

    def exceeding(
        self, pairs: Iterable[RowIndices], tolerance: float | None = None
    ) -> tuple[RowPair, ...]:
        """Return row pairs that differ by more than a tolerance, largest distance first."""
        found = [self.row_pair(*rows) for rows in pairs if self.exceeds(*rows, tolerance)]
        return tuple(sorted(found, key=lambda pair: -pair.distance))

    def table_row(
        self,
        stage: Stage,
        rows: RowIndices,
        distance: float,
        tolerance: float,
        relation: RowRelation,
    ) -> PairRow:
        """Make a pair table row from a row of each run."""
        row_a, row_b = self.a.row(rows[0]), self.b.row(rows[1])
        shown = np.nan if relation == "skipped" else distance
        return PairRow(self.step, stage, row_a, row_b, shown, tolerance, relation)

    def unpaired_rows(
        self, stage: Stage, rows_a: Iterable[int], rows_b: Iterable[int]
    ) -> list[PairRow]:
        """Make pair table rows for rows that only a single run has."""
        rows = []
        for index in rows_a:
            row = self.a.row(index)
            rows.append(PairRow(self.step, stage, row, None, np.nan, np.nan, "only_baseline"))
        for index in rows_b:
            row = self.b.row(index)
            rows.append(PairRow(self.step, stage, None, row, np.nan, np.nan, "only_candidate"))
        return rows

    def unpaired_of(self, stage: Stage, link: str, pairs: Iterable[RowIndices]) -> list[PairRow]:
        """Make pair table rows for the rows of a stage that have no partner."""
        paired_a, paired_b = set(), set()
        for row_a, row_b in pairs:
            paired_a.add(row_a)
            paired_b.add(row_b)
        rows_a, rows_b = self.a.of(link).values(), self.b.of(link).values()
        if link == "gradients":
            rows_a, rows_b = self.gradients.a.values(), self.gradients.b.values()
        only_a = filterfalse(paired_a.__contains__, rows_a)
        only_b = filterfalse(paired_b.__contains__, rows_b)
        return self.unpaired_rows(stage, only_a, only_b)


def _zero_gradient_limit(step: RecordedStep, row: int) -> float:
    """Return the size up to which a gradient is zero but for rounding.

    It is relative to the largest gradient of the step. Only a vector, as a bias, can have no effect
    on the loss: a half precision rounds the sum that should be zero.
    """
    is_vector = sum(size != 1 for size in step.rows[row].shape) <= 1
    if not is_vector:
        return GRADIENT_NOISE
    return max(GRADIENT_NOISE, ZERO_GRADIENT_SPACINGS * SPACINGS[step.precision])
