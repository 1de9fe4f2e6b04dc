"""Compares the losses of a step."""

from __future__ import annotations

from mindsummary_lightning.porting.comparison.divergence import Divergence
from mindsummary_lightning.porting.comparison.forward_stage import ForwardResult
from mindsummary_lightning.porting.comparison.input_stage import StageResult
from mindsummary_lightning.porting.comparison.pair_table import Stage, relation_of
from mindsummary_lightning.porting.comparison.step_pair import StepPair
from mindsummary_lightning.porting.comparison.tolerance_table import OUTPUT_GROWTH


def compare_loss(step: StepPair, forward: ForwardResult) -> StageResult:
    """Compare the losses of a step.

    If no output was compared, a difference belongs to the forward pass.
    """
    tolerance = _loss_tolerance(step, forward)
    rows = []
    for pair in step.losses:
        distance = step.calls.distance(*pair)
        exceeds = step.exceeds(*pair, tolerance)
        relation = relation_of(distance, exceeds=exceeds, is_skipped=False)
        rows.append(step.table_row("loss", pair, distance, tolerance, relation))
    rows += step.unpaired_of("loss", "loss", step.losses)
    before_update = [pair for pair in step.losses if pair[0] < forward.end]
    tensors = step.exceeding(before_update, tolerance)
    if not tensors:
        return StageResult(rows, None)
    stage: Stage = "loss" if step.calls.pairs else "forward"
    return StageResult(rows, Divergence(step.step, stage, tensors, settings=step.loss_counts))


def _loss_tolerance(step: StepPair, forward: ForwardResult) -> float:
    """Return the tolerance of losses, or ten times the distance of outputs or weights."""
    drift = forward.drift
    if not step.calls.pairs:
        for rows in step.rows_of("weights"):
            drift = max(drift, step.calls.distance(*rows))
    return max(step.tolerance.recorded_loss, OUTPUT_GROWTH * drift)
