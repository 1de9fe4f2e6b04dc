"""Compares the losses of a step in two runs."""

from __future__ import annotations

import numpy as np

from mindsummary_lightning.porting.comparison.divergence import Divergence, RowPair
from mindsummary_lightning.porting.comparison.forward_stage import ForwardResult
from mindsummary_lightning.porting.comparison.input_stage import StageResult
from mindsummary_lightning.porting.comparison.pair_table import Stage, relation_of
from mindsummary_lightning.porting.comparison.recorded_step import MEAN
from mindsummary_lightning.porting.comparison.step_pair import StepPair
from mindsummary_lightning.porting.comparison.step_pairing import RowIndices
from mindsummary_lightning.porting.comparison.tolerance_table import LOSS_GROWTH, OUTPUT_GROWTH

_BFLOAT16_BITS = 8  # of a significand, with the leading one
_BFLOAT16_UNUSED = 0xFFFF  # bits of a float32 that bfloat16 does not have


def compare_loss(step: StepPair, forward: ForwardResult) -> StageResult:
    """Compare the losses that both runs recorded in a step.

    If no output was compared, a difference belongs to the forward pass.
    """
    carried_on = _carried_on(step, forward)
    rows = []
    exceeding: list[tuple[RowPair, float]] = []
    for pair in step.losses:
        distance = step.calls.distance(*pair)
        tolerance = _own_rounding(step, pair) + carried_on
        exceeds = step.exceeds(*pair, tolerance)
        relation = relation_of(distance, exceeds=exceeds, is_skipped=False)
        rows.append(step.table_row("loss", pair, distance, tolerance, relation))
        if exceeds and pair[0] < forward.end:  # before an update of the same step
            exceeding.append((step.row_pair(*pair), tolerance))
    rows += step.unpaired_of("loss", "loss", step.losses)
    if not exceeding:
        return StageResult(rows, None)
    exceeding.sort(key=lambda found: -found[0].distance)
    tensors = tuple(pair for pair, _ in exceeding)
    stage: Stage = "loss" if step.calls.pairs else "forward"
    divergence = Divergence(
        step.step, stage, tensors, settings=step.loss_counts, tolerance=exceeding[0][1]
    )
    return StageResult(rows, divergence)


def _carried_on(step: StepPair, forward: ForwardResult) -> float:
    """Return how far a loss may differ because its inputs differ.

    These are the outputs, or the weights where no output is compared.

    A loss is mostly a mean over many elements: it differs little more than its outputs do.
    """
    if step.calls.pairs:
        return LOSS_GROWTH * forward.drift
    drift = forward.drift
    for rows in step.rows_of("weights"):
        drift = max(drift, step.calls.distance(*rows))
    return OUTPUT_GROWTH * drift


def _own_rounding(step: StepPair, pair: RowIndices) -> float:
    """Return how far two losses may differ by rounding although the outputs agree.

    A loss that was computed in bfloat16 may also be the next number of bfloat16.
    """
    tolerance = step.tolerance.recorded_loss
    if step.tolerance.name != "bfloat16":
        return tolerance
    losses = np.array([step.a.values[pair[0], MEAN], step.b.values[pair[1], MEAN]], np.float32)
    is_bfloat16 = (losses.view(np.uint32) & _BFLOAT16_UNUSED) == 0
    largest = float(np.abs(losses).max())
    if not is_bfloat16.any() or not np.isfinite(largest) or largest == 0:
        return tolerance
    _, exponent = np.frexp(largest)
    spacing = float(np.ldexp(1.0, exponent - _BFLOAT16_BITS))
    return max(tolerance, spacing / largest)
