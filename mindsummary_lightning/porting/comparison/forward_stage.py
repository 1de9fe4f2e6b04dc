"""Compares the forward passes of a step in two runs, module call by module call.

The first call that differs by more than its inputs explain is the divergence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mindsummary_lightning.porting.comparison.call_location import locate
from mindsummary_lightning.porting.comparison.divergence import Divergence, RowPair
from mindsummary_lightning.porting.comparison.pair_table import PairRow, relation_of
from mindsummary_lightning.porting.comparison.recorded_step import RMS
from mindsummary_lightning.porting.comparison.row_distance import row_distances
from mindsummary_lightning.porting.comparison.step_pair import StepPair
from mindsummary_lightning.porting.comparison.step_pairing import RowIndices
from mindsummary_lightning.porting.comparison.tolerance_table import (
    MAX_INPUT_AMPLIFICATION,
    OUTPUT_GROWTH,
)

_TINY = 1e-300  # in place of a divisor that is zero


class ForwardResult(NamedTuple):
    """The result of comparing a step's module calls in two runs.

    Attributes:
        rows: a row for each call.
        divergence: the first call that diverges, or ``None``.
        drift: largest distance of the outputs within tolerance, up to the divergence.
        end: index in the baseline of the diverging output if an optimizer of the same step had
            already updated weights before it, as in a GAN: that update may be the cause and is
            judged first, by the rows before this one. Otherwise the number of rows.
    """

    rows: list[PairRow]
    divergence: Divergence | None
    drift: float
    end: int


class _Judged(NamedTuple):
    """The row of a call in the pair table, and whether the call diverges."""

    row: PairRow
    diverges: bool


def compare_forward(step: StepPair) -> ForwardResult:
    """Compare the paired module calls in the order in which they finished."""
    drift, last_match, divergence = 0.0, None, None
    end = len(step.a.rows)
    rows = []
    weight_drift = weight_drift_by_module(step)
    calls = iter(step.calls.pairs)
    for call_a, call_b in calls:
        outputs = step.calls.outputs(call_a, call_b)
        tolerance = _output_tolerance(step, call_a, call_b, drift, weight_drift)
        judged = _judge_output(step, outputs, tolerance)
        rows.append(judged.row)
        if not step.exceeds(*outputs, tolerance):
            drift = float(np.fmax(drift, _propagated_distance(step, outputs, judged.row)))
            if not np.isnan(judged.row.distance):
                last_match = step.row_pair(*outputs, judged.row.distance)
        elif step.losses and _is_loss_function(step, call_a, call_b, outputs):
            break  # belongs to the stage "loss", which comes next
        elif judged.diverges:
            divergence = _divergence(step, call_a, call_b, tolerance, last_match)
            first_update = min(step.a.of("settings").values(), default=end)
            end = min(end, outputs[0]) if first_update < outputs[0] else end
            break
    for call_a, call_b in calls:  # downstream
        outputs = step.calls.outputs(call_a, call_b)
        rows.append(_judge_output(step, outputs, step.tolerance.row).row)
    return ForwardResult(rows + _unpaired_calls(step), divergence, drift, end)


def _is_loss_function(step: StepPair, call_a: int, call_b: int, outputs: RowIndices) -> bool:
    is_loss_of_a = step.a.is_loss_function(call_a, outputs[0])
    return is_loss_of_a or step.b.is_loss_function(call_b, outputs[1])


def _judge_output(step: StepPair, outputs: RowIndices, tolerance: float) -> _Judged:
    """Judge whether the outputs of two paired calls differ beyond a tolerance.

    A difference without effect on loss and gradients is skipped.
    """
    by_order = step.has_effect()
    distance = float(row_distances(step.a, outputs[0], step.b, outputs[1], by_order=by_order))
    differs = step.exceeds(*outputs)
    counts = differs and _has_consequences(step, outputs)
    diverges = counts and step.exceeds(*outputs, tolerance)
    is_skipped = not counts if differs else distance == np.inf
    relation = relation_of(distance, exceeds=diverges, is_skipped=is_skipped)
    return _Judged(step.table_row("forward", outputs, distance, tolerance, relation), diverges)


def _output_tolerance(
    step: StepPair, call_a: int, call_b: int, drift: float, weight_drift: dict[str, float]
) -> float:
    """Return the distance up to which the outputs of two paired calls agree.

    The tolerance follows from the differences of their inputs and weights.
    """
    inputs = step.calls.inputs(call_a, call_b)
    from_inputs = drift
    if inputs and not step.calls.held_a[call_a]:  # without weights: a function of its inputs alone
        input_size = step.a.values[inputs[0], RMS]
        output_size = step.a.values[step.calls.outputs(call_a, call_b)[0], RMS]
        amplification = min(float(input_size / max(output_size, _TINY)), MAX_INPUT_AMPLIFICATION)
        input_distance = min(step.calls.distance(*inputs), max(drift, step.tolerance.row))
        from_inputs = input_distance * amplification
    from_weights = weight_drift.get(step.a.calls[call_a].name, 0.0)
    return max(step.tolerance.row, OUTPUT_GROWTH * max(from_inputs, from_weights))


def weight_drift_by_module(step: StepPair) -> dict[str, float]:
    """Return by how much each compared module's weights differ between the runs.

    Running statistics are left out: they follow biases that may move freely, so they excuse no
    output.
    """
    compared = {step.a.calls[call_a].name for call_a, _ in step.calls.pairs}
    drift: dict[str, float] = {}
    for row_a, row_b in step.rows_of("weights"):
        weight = step.a.rows[row_a]
        module = weight.name
        while module and module not in compared:
            module = module.rpartition(".")[0]
        distance = step.calls.distance(row_a, row_b) if weight.kind == "parameter" else 0.0
        drift[module] = max(drift.get(module, 0.0), distance)
    return drift


def _propagated_distance(step: StepPair, outputs: RowIndices, row: PairRow) -> float:
    """Return how much of an output's distance may explain later differences.

    Rounding explains them. A different order of elements does not.
    """
    in_order = step.calls.distance(*outputs)
    return in_order if in_order <= OUTPUT_GROWTH * step.tolerance.row else row.distance


def _has_consequences(step: StepPair, outputs: RowIndices) -> bool:
    """Tell whether a differing output counts as a divergence.

    It does not count if each output also occurs elsewhere in the second run. The last output
    counts only with an effect on loss or gradients: a network may return logits in one run and
    log-probabilities in the other, with equal losses.
    """
    has_effect = step.has_effect(step.calls.distance(*outputs) / 10)
    if _is_last_output(step, outputs) and not has_effect:
        return False
    return not step.calls.both_occur_elsewhere(*outputs)


def _is_last_output(step: StepPair, outputs: RowIndices) -> bool:
    last_of_a = step.a.equals(outputs[0], [*step.a.calls[-1].outputs]).any()
    last_of_b = step.b.equals(outputs[1], [*step.b.calls[-1].outputs]).any()
    return bool(last_of_a or last_of_b)


def _divergence(
    step: StepPair, call_a: int, call_b: int, tolerance: float, last_match: RowPair | None
) -> Divergence:
    """Describe where a call diverges: at its inputs or at its output.

    If the inputs differ, the cause is in the code around the call.
    """
    inputs, outputs = step.calls.inputs(call_a, call_b), step.calls.outputs(call_a, call_b)
    is_at_input = inputs is not None and step.exceeds(*inputs, tolerance)
    rows = inputs if inputs is not None and is_at_input else outputs
    location = locate(step, call_a, call_b, rows, is_at_input=is_at_input)
    swapped = step.exceeding(step.weights.swapped(location.baseline))
    if swapped:
        return Divergence(step.step, "weights", swapped)
    tensors: tuple[RowPair, ...] = (step.row_pair(*rows),)
    if not is_at_input:
        tensors += moved_without_gradient(step, location.baseline)
    return Divergence(step.step, "forward", tensors, location, last_match, tolerance=tolerance)


def moved_without_gradient(step: StepPair, module: str) -> tuple[RowPair, ...]:
    """Return a module's weights that have no gradient, yet differ after the step."""
    gradients = step.gradients
    if not gradients.a or not gradients.b:
        return ()
    moved = []
    for pair in step.exceeding(step.rows_of("update")):
        name_a, name_b = pair.baseline.name, pair.candidate.name
        is_own = pair.baseline.kind == "parameter" and name_a.rpartition(".")[0] == module
        if is_own and name_a not in gradients.a and name_b not in gradients.b:
            moved.append(pair)
    return tuple(moved)


def _unpaired_calls(step: StepPair) -> list[PairRow]:
    """Make a table row for every module call that has no partner in the second run.

    Such a call is shown and decides nothing.
    """
    paired_b = set(step.calls.partner.values())
    only_a, only_b = [], []
    for index, call in enumerate(step.a.calls):
        if index not in step.calls.partner:
            only_a.append(call.outputs[0])
    for index, call in enumerate(step.b.calls):
        if index not in paired_b:
            only_b.append(call.outputs[0])
    return step.unpaired_rows("forward", only_a, only_b)
