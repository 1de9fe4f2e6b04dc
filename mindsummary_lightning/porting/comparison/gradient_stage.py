"""Compares the gradients of a step in two runs, from the loss backwards."""

from __future__ import annotations

import numpy as np

from mindsummary_lightning.porting.comparison.divergence import (
    Divergence,
    RowPair,
    SettingDifference,
)
from mindsummary_lightning.porting.comparison.forward_stage import ForwardResult
from mindsummary_lightning.porting.comparison.input_stage import StageResult
from mindsummary_lightning.porting.comparison.pair_table import PairRow, relation_of
from mindsummary_lightning.porting.comparison.recorded_step import ELEMENTS, RMS, RecordedStep
from mindsummary_lightning.porting.comparison.row_distance import row_distances
from mindsummary_lightning.porting.comparison.step_pair import StepPair
from mindsummary_lightning.porting.comparison.step_pairing import RowIndices
from mindsummary_lightning.porting.comparison.tolerance_table import (
    ACTIVATION_FLIPS,
    GRADIENT_GROWTH,
    GRADIENT_NOISE,
    UPDATE,
)
from mindsummary_lightning.porting.comparison.update_distance import update_distance

_TINY = 1e-300  # in place of a divisor that is zero


def compare_gradients(step: StepPair, forward: ForwardResult) -> StageResult:
    """Compare the gradients that both runs recorded in a step.

    If a single factor explains all differences, the cause is a clipped norm or a scale.
    """
    rows = _gradient_rows(step, forward)
    tensors = _exceeding_gradients(step, forward, factor=1.0)
    if not (step.gradients.a and step.gradients.b) or not tensors:
        return StageResult(rows, None)
    unexplained = _unexplained_by_one_factor(step, forward, tensors)
    settings = step.loss_counts
    if not unexplained:
        unexplained = tensors
        settings += (_norm_difference(step),)
    return StageResult(rows, Divergence(step.step, "gradients", unexplained, settings=settings))


def gradient_tolerance(step: StepPair, forward: ForwardResult, rows: RowIndices) -> float:
    """Return the distance up to which two gradients agree.

    Where activations differ by a fraction of their size, about the square root of it are on the
    other side of zero, and their gradients are left out in one run.
    """
    size = np.fmax(step.a.values[rows[0], RMS], step.b.values[rows[1], RMS])
    noise = GRADIENT_NOISE * step.largest_gradient / max(float(size), _TINY)
    from_outputs = GRADIENT_GROWTH * (max(step.tolerance.row, forward.drift) + noise)
    from_activations = ACTIVATION_FLIPS * float(np.sqrt(forward.drift))
    return max(from_outputs, from_activations, float(step.noise[rows[0]]))


def _gradient_rows(step: StepPair, forward: ForwardResult) -> list[PairRow]:
    pairs = step.rows_of("gradients")
    rows = []
    for pair in pairs:
        distance = step.calls.distance(*pair)
        tolerance = gradient_tolerance(step, forward, pair)
        relation = relation_of(
            distance, exceeds=distance > tolerance, is_skipped=step.is_noise(*pair)
        )
        rows.append(step.table_row("gradients", pair, distance, tolerance, relation))
    return rows + step.unpaired_of("gradients", "gradients", pairs)


def _exceeding_gradients(
    step: StepPair, forward: ForwardResult, factor: float
) -> tuple[RowPair, ...]:
    """Return gradients that differ beyond tolerance, nearest to the loss first.

    A gradient that only one run has is included if the weight's update differs.

    Args:
        step: the step.
        forward: the result of comparing its module calls.
        factor: how many times the candidate's gradients are too large.
    """
    candidate = step.b.divided(factor)
    exceeding: dict[str, RowPair] = {}
    for name_a, name_b in step.weights.names.items():
        row_a, row_b = step.gradients.a.get(name_a), step.gradients.b.get(name_b)
        if row_a is None and row_b is None:
            continue
        if row_a is None or row_b is None:
            found = _gradient_of_one_run(step, forward, name_a, name_b)
        else:
            found = _gradient_of_both(step, forward, candidate, (row_a, row_b))
        if found is not None:
            exceeding[name_a] = found
    order = {call.name: place for place, call in enumerate(step.a.calls)}
    from_loss_on = sorted(exceeding, key=lambda name: -order.get(name.rpartition(".")[0], -1))
    return tuple(exceeding[name] for name in from_loss_on)


def _gradient_of_one_run(
    step: StepPair, forward: ForwardResult, name_a: str, name_b: str
) -> RowPair | None:
    """Return a gradient that only one run has, if the weight's updates differ."""
    if update_distance(step, forward.drift, name_a, name_b) <= UPDATE:
        return None
    row_a = step.gradients.a.get(name_a, step.a.of("weights")[name_a])
    row_b = step.gradients.b.get(name_b, step.b.of("weights")[name_b])
    return step.row_pair(row_a, row_b, np.inf)


def _gradient_of_both(
    step: StepPair, forward: ForwardResult, candidate: RecordedStep, rows: RowIndices
) -> RowPair | None:
    """Return a weight's gradients in both runs if they differ beyond tolerance.

    ``None`` for gradients from ``forward.end`` on: an update of the same step came before them.
    ``None``, too, if the gradient is zero but for rounding.
    """
    if rows[0] >= forward.end or step.is_noise(*rows):
        return None
    by_order = step.has_effect()
    distance = row_distances(step.a, rows[0], candidate, rows[1], by_order=by_order)
    return step.row_pair(*rows) if distance > gradient_tolerance(step, forward, rows) else None


def _unexplained_by_one_factor(
    step: StepPair, forward: ForwardResult, tensors: tuple[RowPair, ...]
) -> tuple[RowPair, ...]:
    """Return the gradients that still differ once a common factor is divided out.

    The candidate's gradients are divided by one factor: the typical factor, or the factor of the
    exceeding gradient nearest to the loss. It explains the differences only if no gradient beyond
    tolerance is left, or at least three fewer than before, and if no new gradient is among them.
    """
    unexplained = tensors
    for factor in sorted(_likely_factors(step, tensors)):
        left = _exceeding_gradients(step, forward, factor)
        explains = len(left) < max(1, len(tensors) - 2) and {*left} <= {*tensors}
        if explains and len(left) < len(unexplained):
            unexplained = left
    return unexplained


def _likely_factors(step: StepPair, tensors: tuple[RowPair, ...]) -> set[float]:
    factors = {}
    for row_a, row_b in step.rows_of("gradients"):
        size_a, size_b = step.a.values[row_a, RMS], step.b.values[row_b, RMS]
        if min(size_a, size_b) > 0:
            factors[step.a.rows[row_a].name] = float(size_b / size_a)
    likely = {float(np.median([*factors.values()] or 1.0))}
    for tensor in tensors:
        if tensor.baseline.link in ("gradients", "clipped") and tensor.baseline.name in factors:
            likely.add(factors[tensor.baseline.name])
            break
    return likely


def _norm_difference(step: StepPair) -> SettingDifference:
    norm_a = gradient_norm(step.a, step.gradients.a)
    norm_b = gradient_norm(step.b, step.gradients.b)
    return SettingDifference("norm of all gradients", [norm_a], [norm_b])


def gradient_norm(step: RecordedStep, gradients: dict[str, int]) -> float:
    """Return the norm of all gradients, taken as a single vector."""
    values = step.values[[*gradients.values()]]
    return float(np.sqrt(np.nansum(values[:, RMS] ** 2 * values[:, ELEMENTS])))
