"""Writes the verdict and the next step as sentences."""

from __future__ import annotations

import numpy as np

from mindsummary_lightning.porting.comparison.distances import largest
from mindsummary_lightning.porting.comparison.divergence import (
    Divergence,
    DivergenceLocation,
    RowPair,
    SettingDifference,
)
from mindsummary_lightning.porting.comparison.first_difference import Doubt, FirstDifference
from mindsummary_lightning.porting.comparison.judgement import Judgement
from mindsummary_lightning.porting.comparison.row_text import both, is_only_in_one, module_text
from mindsummary_lightning.porting.comparison.run_distances import RepeatDistance, RunDistances
from mindsummary_lightning.porting.comparison.tolerance_table import Tolerance
from mindsummary_lightning.values.text import Phrase, listed

_LISTED = 3


def same_text(distances: RunDistances, steps: int) -> Phrase:
    """Write the largest differences of two runs that are equal within tolerance."""
    loss, tensor = largest(distances.losses), largest(distances.tensors)
    if loss is None and tensor is None:
        return Phrase(
            "all stages of the recorded steps agree (tolerance {})", distances.tolerance.name
        )
    if loss is None:
        text = Phrase("tensors differ by at most {}", distance_text(tensor or 0.0))
    elif tensor is None:
        text = Phrase("losses differ by at most {}", distance_text(loss))
    else:
        text = Phrase(
            "losses differ by at most {}, tensors by at most {}",
            distance_text(loss),
            distance_text(tensor),
        )
    text = Phrase("{} at {} common steps ({})", text, steps, tolerance_text(distances))
    if _is_overruled(distances):
        return Phrase("{}; in the steps that exceed it, the output statistics agree", text)
    return text


def _is_overruled(distances: RunDistances) -> bool:
    """Tell whether any loss or tensor differs by more than its tolerance.

    If the verdict is ``same``, output statistics that agree have overruled it.
    """
    return bool(distances.losses_exceed.any() or distances.tensors_exceed.any())


def tolerance_text(distances: RunDistances) -> Phrase:
    """Write the tolerances of losses and tensors."""
    name = distances.tolerance.name
    loss, tensor = distances.largest_limits
    is_raised = loss > distances.tolerance.loss or tensor > distances.tolerance.tensor
    if is_raised:
        text = (
            "tolerance {}, or three times the difference of the repeat if that is more: "
            "loss {:.2g}, tensors {:.2g}"
        )
        return Phrase(text, name, loss, tensor)
    return Phrase("tolerance {}: loss {:.2g}, tensors {:.2g}", name, loss, tensor)


def distance_text(distance: float) -> str:
    """Write a distance with two digits; 0 means bit-equal recorded values."""
    return "0" if distance == 0 else f"{distance:.1e}"


def numbers_text(
    difference: FirstDifference, distances: RunDistances, doubt: Doubt | None
) -> Phrase:
    """Write at which step losses and tensors exceed a tolerance, and by how much."""
    text = Phrase("from step {}", difference.step)
    last = difference.last_equal_step
    if last is None:
        text = Phrase("from step {}, the first common step", difference.step)
    elif difference.step - last > 1:
        text = Phrase(
            "from step {} (steps {} to {} were not recorded by both runs)",
            difference.step,
            last + 1,
            difference.step - 1,
        )
    tensors, loss = difference.tensors, difference.loss_distance
    if loss is not None and loss > distances.largest_limits.loss:
        text = Phrase("{}, the loss differs by {}", text, distance_text(loss))
    elif loss is not None:
        text = Phrase("{}, the loss agrees", text)
    if tensors:
        names = listed([both(tensor.baseline, tensor.candidate) for tensor in tensors], _LISTED)
        largest_distance = max(tensor.distance for tensor in tensors)
        text = Phrase("{}, tensors {}: {}", text, _differ(largest_distance), names)
    if doubt is not None:
        text = Phrase("{}; {}", text, _DOUBTS[doubt])
    return Phrase("{} ({})", text, tolerance_text(distances))


_DOUBTS: dict[Doubt, Phrase] = {
    "growth": Phrase("smaller differences came before, and rounding errors can grow to this size"),
    "biases": Phrase("only biases differ, and rounding alone can move a bias"),
    "losses": Phrase("no recorded weight differs at any step"),
    "later step": Phrase("earlier steps agree, but rounding errors can grow to this size"),
    "different start": Phrase("the cause of the different weights was not recorded"),
}


def _differs(distance: float) -> Phrase:
    """Write by how much a tensor differs; other sizes are stated without a distance."""
    if distance == np.inf:
        return Phrase("differs in its size or its number of non-finite elements")
    return Phrase("differs by {}", distance_text(distance))


def _differ(distance: float) -> Phrase:
    """Write the largest difference among several tensors."""
    if distance == np.inf:
        return Phrase("differ in their sizes or their numbers of non-finite elements")
    return Phrase("differ by up to {}", distance_text(distance))


def divergence_text(divergence: Divergence, tolerance: Tolerance) -> Phrase:
    """Write in which stage of a step two runs diverge first, and by how much."""
    if divergence.stage is None:
        text = Phrase("from step {}", divergence.step)
    else:
        text = Phrase("from step {}, first {}", divergence.step, _stage_text(divergence))
    if divergence.stage in ("data", "weights", "forward", "loss"):
        limit = tolerance.row if divergence.tolerance is None else divergence.tolerance
        text = Phrase("{} (tolerance {:.1g})", text, limit)
    for setting in divergence.settings:
        text = Phrase("{}; {}", text, setting_text(setting))
    return text


def setting_text(setting: SettingDifference) -> Phrase:
    """Write the values of a setting in both runs."""
    value_a, value_b = _numbers_text(setting.baseline), _numbers_text(setting.candidate)
    name = Phrase(setting.name)
    return Phrase("{} is {} in the baseline and {} in the candidate", name, value_a, value_b)


def _numbers_text(values: list[float]) -> str:
    return ", ".join(f"{value:.6g}" for value in values)


def _stage_text(divergence: Divergence) -> Phrase:
    tensors = divergence.tensors
    largest_distance = max((pair.distance for pair in tensors), default=0.0)
    names = listed([both(pair.baseline.name, pair.candidate.name) for pair in tensors], _LISTED)
    stage = divergence.stage
    if stage == "data":
        return Phrase("in the data: batch tensor {} {}", names, _differs(largest_distance))
    if stage == "weights":
        distance = _differs(largest_distance) if len(tensors) == 1 else _differ(largest_distance)
        return Phrase("in the weights with which the step begins: {} {}", names, distance)
    if stage == "forward":
        return _forward_text(divergence.location, tensors)
    if stage == "loss":
        return Phrase(
            "in the loss: all compared outputs agree, but the loss {}", _differs(largest_distance)
        )
    if stage == "gradients":
        return _gradients_text(tensors, _differ(largest_distance))
    if not divergence.has_gradients:
        text = (
            "in the gradients or the update: gradients could not be compared, the updates of {} {}"
        )
        return Phrase(text, names, _differ(largest_distance))
    return Phrase("in the update: the updates of {} {}", names, _differ(largest_distance))


def _gradients_text(tensors: tuple[RowPair, ...], distance: Phrase) -> Phrase:
    """Name the gradients that differ; gradients of a single run come first."""
    only_in = {is_only_in_one(pair) for pair in tensors} - {""}
    shown = []
    for pair in tensors:
        if is_only_in_one(pair) or not only_in:
            shown.append(both(pair.baseline.name, pair.candidate.name))
    names = listed(shown, _LISTED)
    if only_in:
        run = Phrase(min(only_in))
        return Phrase("in the gradients: only the {} has gradients of {}", run, names)
    return Phrase(
        "in the gradients: everything computed before them agrees, but {} {}", names, distance
    )


def _forward_text(location: DivergenceLocation | None, tensors: tuple[RowPair, ...]) -> Phrase:
    distance = _differs(tensors[0].distance)
    if location is None:
        text = (
            "in the forward pass or the loss function: outputs could not be compared, the loss {}"
        )
        return Phrase(text, distance)
    module = both(
        module_text(location.baseline, location.kind_baseline),
        module_text(location.candidate, location.kind_candidate),
    )
    if location.is_between:
        module = Phrase("{}, outside of the modules that are compared", module)
    if tensors[0].baseline.port == "input":
        given = both(tensors[0].baseline.name, tensors[0].candidate.name)
        return Phrase("in the forward pass, in {}: the input of {} {}", module, given, distance)
    text = Phrase("in the forward pass, in {}: its inputs agree, its output {}", module, distance)
    if len(tensors) > 1:
        text = Phrase("{}, and so do its weights that have no gradient", text)
    return text


def sentence_of(judgement: Judgement, distances: RunDistances, steps: int) -> Phrase:
    """Write the verdict with its numbers.

    Args:
        judgement: the verdict.
        distances: of losses and tensors.
        steps: number of common steps.
    """
    difference = judgement.difference
    if judgement.verdict == "not_comparable":
        return Phrase("the runs share no step at which both recorded the same tensor or the loss")
    if difference is None:
        return same_text(distances, steps)
    if judgement.is_of_whole_tensors:
        return _whole_text(difference)
    if judgement.divergence is None:
        text = numbers_text(difference, distances, judgement.doubt)
        before = judgement.exceeded_before
        if before is None:
            return text
        exceeds = "{}; output statistics exceed their tolerance at step {}, first {}"
        return Phrase(exceeds, text, before.step, _stage_text(before))
    text = divergence_text(judgement.divergence, distances.tolerance)
    if judgement.doubt is not None:
        text = Phrase("{}; {}", text, _DOUBTS[judgement.doubt])
    return text


def _whole_text(difference: FirstDifference) -> Phrase:
    names = listed([tensor.baseline for tensor in difference.tensors], _LISTED)
    distance = _differ(difference.tensors[0].distance)
    return Phrase(
        "from step {}, tensors recorded whole {}: {}; losses and weights agree",
        difference.step,
        distance,
        names,
    )


def next_step_text(judgement: Judgement, repeat: RepeatDistance | None) -> str:
    """Return the advice for the next step; ``""`` if the runs are the same."""
    difference = judgement.difference
    if judgement.verdict == "same":
        return ""
    if difference is None:
        return Phrase(
            "record both runs with collect_freq=1 and histogram_regular='.*', "
            "or log a loss at every step"
        )
    step = difference.step
    if judgement.divergence is not None and judgement.doubt is None:
        return Phrase(
            "correct this difference, then compare again: later differences may follow from it"
        )
    if judgement.verdict == "different":
        return Phrase(
            "to find the module, record step {0} of both runs "
            "with collect_output_statistics=({0},), "
            "or check step {0} with PortCheck",
            step,
        )
    if judgement.doubt == "losses":
        return Phrase("check step {} with PortCheck, which compares loss and gradients", step)
    if repeat is not None and not repeat.differs:
        return Phrase(
            "check step {} with PortCheck: the repeat equals the baseline, so it shows no rounding",
            step,
        )
    return Phrase(
        "record the baseline again and pass that run with --same, to measure rounding, or "
        "check step {} with PortCheck",
        step,
    )
