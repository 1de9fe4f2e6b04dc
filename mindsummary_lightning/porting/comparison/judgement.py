"""Decides the verdict from output statistics, losses, histograms, whole tensors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mindsummary_lightning.porting.comparison.alignment import Alignment
from mindsummary_lightning.porting.comparison.comparison_data import Verdict
from mindsummary_lightning.porting.comparison.divergence import Divergence
from mindsummary_lightning.porting.comparison.first_difference import (
    Doubt,
    FirstDifference,
    TensorDistance,
    first_difference,
    last_before,
    whole_difference,
)
from mindsummary_lightning.porting.comparison.other_values import WholeDistances
from mindsummary_lightning.porting.comparison.run_data import LOSS
from mindsummary_lightning.porting.comparison.run_distances import RunDistances, without_steps
from mindsummary_lightning.porting.comparison.statistics_comparison import StatisticsComparison


class Judgement(NamedTuple):
    """The verdict of a comparison, with its reason.

    Attributes:
        verdict: the verdict.
        difference: the first step beyond tolerance, or ``None``.
        doubt: why the difference does not decide; only with ``undecided``.
        divergence: the divergence of output statistics from which the difference is, or ``None``.
        exceeded_before: where output statistics exceed their tolerance before, or in, a step whose
            losses or tensors decide.
        is_of_whole_tensors: whether it is of tensors that both runs recorded whole.
    """

    verdict: Verdict
    difference: FirstDifference | None = None
    doubt: Doubt | None = None
    divergence: Divergence | None = None
    exceeded_before: Divergence | None = None
    is_of_whole_tensors: bool = False


def judge(
    alignment: Alignment,
    distances: RunDistances,
    statistics: StatisticsComparison | None,
    whole: WholeDistances,
) -> Judgement:
    """Decide the verdict about two runs.

    Output statistics decide first, as they tell the stage; then losses and histograms; and then
    tensors recorded whole, if everything else agrees.
    """
    if not _is_anything_compared(distances, statistics, whole):
        return Judgement("not_comparable")
    numbers = _by_numbers(alignment, distances, statistics)
    by_statistics = _by_statistics(statistics, alignment, distances)
    if by_statistics is not None and _comes_first(by_statistics, numbers, statistics):
        return by_statistics
    if numbers is not None:
        return numbers
    of_whole = whole_difference(whole, distances.tolerance.tensor)
    if of_whole is not None:
        return Judgement("different", of_whole, is_of_whole_tensors=True)
    return Judgement("same")


def _by_numbers(
    alignment: Alignment, distances: RunDistances, statistics: StatisticsComparison | None
) -> Judgement | None:
    """Decide the verdict from losses and histograms.

    Steps that agree by their output statistics do not count.
    """
    agreed: list[int] = []
    if statistics is not None:
        agreed = statistics.agreed_steps
        if statistics.shown.pair.calls.pairs and distances.repeat is None:
            distances = without_steps(distances, alignment, agreed)
    found = first_difference(alignment, distances, agreed)
    if found.difference is None:
        return None
    verdict: Verdict = "different" if found.doubt is None else "undecided"
    before = None if statistics is None else statistics.open_divergence
    if before is not None and before.step > found.difference.step:
        before = None
    return Judgement(verdict, found.difference, found.doubt, exceeded_before=before)


def _is_anything_compared(
    distances: RunDistances,
    statistics: StatisticsComparison | None,
    whole: WholeDistances,
) -> bool:
    has_numbers = distances.losses.size > 0 or bool((~np.isnan(distances.tensors)).any())
    return has_numbers or statistics is not None or bool(whole)


def _by_statistics(
    statistics: StatisticsComparison | None, alignment: Alignment, distances: RunDistances
) -> Judgement | None:
    """Decide the verdict from the output statistics.

    ``None`` if no step diverges or exceeds its tolerances.
    """
    if statistics is None:
        return None
    if statistics.divergence is not None:
        difference = _difference_of(statistics.divergence, statistics, alignment, distances)
        return Judgement("different", difference, None, statistics.divergence)
    if statistics.open_divergence is not None:
        doubt: Doubt = "different start" if statistics.judged_step is None else "later step"
        difference = _difference_of(statistics.open_divergence, statistics, alignment, distances)
        return Judgement("undecided", difference, doubt, statistics.open_divergence)
    return None


def _comes_first(
    by_statistics: Judgement, numbers: Judgement | None, statistics: StatisticsComparison | None
) -> bool:
    """Tell whether output statistics decide the verdict, not losses and histograms.

    A step that was judged with equal weights decides, unless other numbers differ between it and
    the divergence. What is open does not hide numbers that decide.
    """
    if numbers is None or numbers.difference is None or by_statistics.difference is None:
        return True
    step, numbers_step = by_statistics.difference.step, numbers.difference.step
    numbers_decide = numbers.verdict == "different"
    if by_statistics.verdict == "undecided":
        return not numbers_decide and step <= numbers_step
    judged = None if statistics is None else statistics.judged_step
    is_between = judged is not None and judged <= numbers_step < step
    return not (numbers_decide and is_between)


def _difference_of(
    divergence: Divergence,
    statistics: StatisticsComparison,
    alignment: Alignment,
    distances: RunDistances,
) -> FirstDifference:
    tensors = []
    for pair in divergence.tensors:
        tensors.append(TensorDistance(pair.baseline.name, pair.candidate.name, pair.distance))
    recorded = [*alignment.tensors.steps.tolist(), *statistics.steps]
    if alignment.loss_tag == LOSS:  # a logged loss may be counted from zero
        recorded += alignment.losses.steps.tolist()
    return FirstDifference(
        divergence.step,
        divergence.stage,
        alignment.loss_at(divergence.step, distances.losses),
        tuple(tensors),
        last_before(divergence.step, recorded),
        divergence.location,
        divergence.settings,
    )
