"""Compares the update of a step: the weights after it, and optimizer settings.

The gradients of the step explain a part of the differences.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mindsummary_lightning.porting.comparison.divergence import (
    Divergence,
    RowPair,
    SettingDifference,
)
from mindsummary_lightning.porting.comparison.forward_stage import ForwardResult
from mindsummary_lightning.porting.comparison.gradient_stage import gradient_norm
from mindsummary_lightning.porting.comparison.input_stage import StageResult
from mindsummary_lightning.porting.comparison.pair_table import PairRow, relation_of
from mindsummary_lightning.porting.comparison.recorded_step import MEAN, RecordedStep
from mindsummary_lightning.porting.comparison.step_pair import GradientRows, StepPair
from mindsummary_lightning.porting.comparison.tolerance_table import (
    OUTPUT_GROWTH,
    TOLERANCES,
    UPDATE,
)
from mindsummary_lightning.porting.comparison.update_distance import update_distance

_SETTING = TOLERANCES["float32"].row  # settings are recorded as float32


def compare_update(step: StepPair, forward: ForwardResult) -> StageResult:
    """Compare the weight updates that both runs made in a step.

    The tolerance is the larger of UPDATE and OUTPUT_GROWTH times the differences of outputs. If the
    learning rate differs, UPDATE does not count.
    """
    settings = [*_applied_norms(step), *setting_differences_of_step(step)]
    has_other_rate = any(setting.name == "lr" for setting in settings)
    base = 0.0 if has_other_rate else UPDATE
    tolerance = max(base, OUTPUT_GROWTH * max(step.tolerance.row, forward.drift))
    rows_a, rows_b = step.a.of("update"), step.b.of("update")
    rows: list[PairRow] = []
    tensors: list[RowPair] = []
    pairs = []
    for name_a, name_b in step.weights.names.items():
        if name_a not in rows_a or name_b not in rows_b:
            continue
        pair = rows_a[name_a], rows_b[name_b]
        pairs.append(pair)
        distance = update_distance(step, forward.drift, name_a, name_b)
        exceeds = distance > tolerance
        if exceeds:
            tensors.append(step.row_pair(*pair, distance))
        shown = step.calls.distance(*pair)
        relation = relation_of(shown, exceeds=exceeds, is_skipped=False)
        rows.append(step.table_row("update", pair, shown, tolerance, relation))
    rows += step.unpaired_of("update", "update", pairs)
    if not tensors:
        return StageResult(rows, None)
    tensors.sort(key=lambda pair: -pair.distance)
    all_settings = (*step.loss_counts, *settings)
    divergence = Divergence(
        step.step,
        "update",
        tuple(tensors),
        settings=all_settings,
        has_gradients=bool(step.rows_of("gradients")),
    )
    return StageResult(rows, divergence)


def _applied_norms(step: StepPair) -> Iterator[SettingDifference]:
    """Yield the two norms of the applied gradients if the norms differ.

    They are compared only if the stage ``gradients`` compared the gradients before clipping.
    """
    applied = GradientRows(
        step.a.of("clipped") or step.a.of("gradients"),
        step.b.of("clipped") or step.b.of("gradients"),
    )
    norm_a, norm_b = gradient_norm(step.a, applied.a), gradient_norm(step.b, applied.b)
    if applied != step.gradients and not np.allclose([norm_a], [norm_b], UPDATE):
        yield SettingDifference("norm of the gradients that are applied", [norm_a], [norm_b])


def setting_differences_of_step(step: StepPair) -> Iterator[SettingDifference]:
    """Yield the optimizer settings that differ in a step.

    A setting counts with its values in all parameter groups, if both optimizers have it. If one run
    has more groups, only the different values count.
    """
    settings_a, settings_b = optimizer_settings(step.a), optimizer_settings(step.b)
    for name, values_a in settings_a.items():
        values_b = settings_b.get(name, values_a)
        shown_a, shown_b = sorted(values_a), sorted(values_b)
        if len(values_a) != len(values_b):
            shown_a, shown_b = sorted({*values_a}), sorted({*values_b})
        is_equal = len(shown_a) == len(shown_b) and np.allclose(shown_a, shown_b, _SETTING)
        if not is_equal:
            yield SettingDifference(name, values_a, values_b)


def optimizer_settings(step: RecordedStep) -> dict[str, list[float]]:
    """Return the values of every optimizer setting in all parameter groups.

    If an optimizer steps several times, they are the values at its first step.
    """
    settings: dict[str, list[float]] = {}
    for row in step.of("settings").values():
        if not step.rows[row].call:  # some optimizers step twice
            value = float(step.values[row, MEAN])
            settings.setdefault(step.rows[row].port, []).append(value)
    return settings
