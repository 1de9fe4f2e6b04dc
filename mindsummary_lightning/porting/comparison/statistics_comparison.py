"""Compares the output statistics of two runs.

The first step with equal weights is judged, later steps give numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mindsummary_lightning.porting.comparison.divergence import Divergence
from mindsummary_lightning.porting.comparison.step_comparison import (
    StepComparison,
    compare_step,
    recorded_causes,
    weights_changed_after,
)
from mindsummary_lightning.porting.comparison.tolerance_table import Tolerance
from mindsummary_lightning.reading.output_statistics import OutputStatistics

_FIRST_STEP = 1  # both a collector and a StepRecorder count from it


@dataclass(frozen=True, eq=False)
class StatisticsComparison:
    """The result of comparing two runs by their output statistics.

    Attributes:
        steps: common steps that were compared, up to the first that differs.
        shown: the step whose pair table is shown: the one that diverges or exceeds, or the last.
        judged_step: the first step with equal weights, or step 1; ``None`` if every common step
            begins with different weights.
        divergence: where the runs differ, or ``None``.
        open_divergence: where a later step exceeds its tolerance. Rounding that grew since the
            judged step can be the cause; so can a mistake that shows late.
        names: names of weights in the candidate by names in the baseline.
    """

    steps: list[int]
    shown: StepComparison
    judged_step: int | None
    divergence: Divergence | None
    open_divergence: Divergence | None
    names: Mapping[str, str]

    @property
    def agreed_steps(self) -> list[int]:
        """Return the steps that agree, beginning with the judged step."""
        if self.judged_step is None:
            return []
        agreed = [step for step in self.steps if step >= self.judged_step]
        ends_earlier = self.divergence is not None or self.open_divergence is not None
        return agreed[:-1] if ends_earlier else agreed


def compare_output_statistics(
    a: OutputStatistics | None,
    b: OutputStatistics | None,
    tolerance: Tolerance,
    names: Mapping[str, str],
    repeat: OutputStatistics | None,
) -> StatisticsComparison | None:
    """Compare the common steps of two runs in order, until a step differs.

    Args:
        a: output statistics of the baseline.
        b: output statistics of the candidate.
        tolerance: the tolerances.
        names: names of weights in the candidate by names in the baseline, which decide.
        repeat: output statistics of a repeat of the baseline.

    Returns:
        The result, or ``None`` without a common step.
    """
    if a is None or b is None:
        return None
    steps: list[int] = []
    judged: StepComparison | None = None
    shown: StepComparison | None = None  # the step before, from the judged one on
    for step in np.intersect1d(a.steps, b.steps).tolist():
        found = compare_step(step, (a, b), tolerance, names, repeat)
        steps.append(step)
        if judged is None and not _can_be_judged(found):
            shown = shown or found
            continue
        outcome = _outcome(found, judged, shown)
        judged, shown = judged or found, found
        if outcome.divergence is not None or outcome.open_divergence is not None:
            return _result(steps, found, judged, outcome)
    if shown is None:
        return None
    if judged is None:
        return _result(steps, shown, None, _Outcome(None, shown.divergence))
    return _result(steps, shown, judged, _Outcome(None, None))


class _Outcome(NamedTuple):
    """A step's divergence: it decides the verdict, or it leaves the verdict open."""

    divergence: Divergence | None
    open_divergence: Divergence | None


def _can_be_judged(step: StepComparison) -> bool:
    """Tell whether a step can be the judged step, whose stages decide the verdict.

    It can if it begins with equal weights. So can step 1: different weights are a mistake there.
    """
    return step.weights_agree or step.step == _FIRST_STEP


def _outcome(
    step: StepComparison, judged: StepComparison | None, before: StepComparison | None
) -> _Outcome:
    """Judge a step: the judged step by its stages, a later step by new causes."""
    if judged is None or before is None:
        return _Outcome(step.divergence, None)
    return _later_outcome(step, judged, before)


def _later_outcome(
    step: StepComparison, judged: StepComparison, before: StepComparison
) -> _Outcome:
    """Judge a step after the judged step, by differences that begin in it.

    With a repeat that shows rounding, the stages of the step decide, too. An update after steps
    that were not recorded never decides: these steps may have changed the state of the optimizer.
    """
    is_next = step.step == before.step + 1
    changed = weights_changed_after(before, step)
    if changed is not None and is_next:
        return _Outcome(changed, None)
    cause = recorded_causes(step, judged)
    if cause is not None:
        return _Outcome(cause, None)
    if changed is not None:
        return _Outcome(None, changed)
    later = step.divergence
    if later is not None and later.stage == "weights":  # they follow from the steps before
        later = step.divergence_after_weights
    is_update_after_gap = later is not None and later.stage == "update" and not is_next
    if step.repeat_differs and not is_update_after_gap:
        return _Outcome(later, None)
    return _Outcome(None, later)


def _result(
    steps: list[int], shown: StepComparison, judged: StepComparison | None, outcome: _Outcome
) -> StatisticsComparison:
    return StatisticsComparison(
        steps,
        shown,
        None if judged is None else judged.step,
        outcome.divergence,
        outcome.open_divergence,
        shown.pair.weights.names,
    )
