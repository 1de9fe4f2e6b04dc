"""Compare a recorded step of two runs, stage by stage.

The result is the first divergence, and the pair table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mindsummary_lightning.porting.comparison.divergence import Divergence, SettingDifference
from mindsummary_lightning.porting.comparison.forward_stage import compare_forward
from mindsummary_lightning.porting.comparison.gradient_stage import compare_gradients
from mindsummary_lightning.porting.comparison.input_stage import (
    compare_data,
    compare_weights,
    data_pairs,
)
from mindsummary_lightning.porting.comparison.loss_stage import compare_loss
from mindsummary_lightning.porting.comparison.pair_table import PairTable
from mindsummary_lightning.porting.comparison.paired_weights import PairedWeights
from mindsummary_lightning.porting.comparison.recorded_step import RecordedStep
from mindsummary_lightning.porting.comparison.row_distance import repeat_distances, row_distances
from mindsummary_lightning.porting.comparison.step_pair import StepPair
from mindsummary_lightning.porting.comparison.step_pairing import StepPairing
from mindsummary_lightning.porting.comparison.tolerance_table import (
    OUTPUT_GROWTH,
    REPEAT_FACTOR,
    Tolerance,
)
from mindsummary_lightning.porting.comparison.update_stage import (
    compare_update,
    setting_differences_of_step,
)
from mindsummary_lightning.reading.output_statistics import OutputStatistics


@dataclass(frozen=True, eq=False)
class StepComparison:
    """The result of comparing two runs in a single step.

    Attributes:
        pair: the step of both runs.
        table: its pair table.
        divergence: the first stage that differs, or ``None``.
        divergence_after_weights: the first stage after the weights that differs, or ``None``.
        weights_agree: whether the step begins with equal weights.
        repeat_differs: whether a repeat of the baseline differs from it in this step, so that it
            shows how far rounding leads.
    """

    pair: StepPair
    table: PairTable
    divergence: Divergence | None
    divergence_after_weights: Divergence | None
    weights_agree: bool
    repeat_differs: bool

    @property
    def step(self) -> int:
        """The number of the compared step."""
        return self.pair.step


def compare_step(
    step: int,
    tables: tuple[OutputStatistics, OutputStatistics],
    tolerance: Tolerance,
    names: Mapping[str, str],
    repeat: OutputStatistics | None,
) -> StepComparison:
    """Compare a step that both runs recorded.

    Args:
        step: the step.
        tables: output statistics of the baseline and of the candidate.
        tolerance: the tolerances.
        names: names of weights in the candidate by names in the baseline, which decide.
        repeat: output statistics of a repeat of the baseline.
    """
    table_a, table_b = tables
    a, b = RecordedStep(*table_a.rows_at(step)), RecordedStep(*table_b.rows_at(step))
    weights = PairedWeights(a, b, names)
    calls = StepPairing(a, b, weights.names, tolerance.row)
    noise = np.zeros(len(a.rows))
    if repeat is not None and step in repeat.steps:
        noise = repeat_distances(a, RecordedStep(*repeat.rows_at(step)))
    pair = StepPair(step, a, b, weights, calls, tolerance, REPEAT_FACTOR * noise)
    data, weights_at_begin = compare_data(pair), compare_weights(pair)
    forward = compare_forward(pair)
    loss = compare_loss(pair, forward)
    gradients = compare_gradients(pair, forward)
    update = compare_update(pair, forward)
    forward_first, forward_last = forward.divergence, None
    if forward.end < len(a.rows):  # an update came before it
        forward_first, forward_last = None, forward.divergence
    after_weights = (
        forward_first,
        loss.divergence,
        gradients.divergence,
        update.divergence,
        forward_last,
    )
    stages = data, weights_at_begin, forward, loss, gradients, update
    later = next(filter(None, after_weights), None)
    return StepComparison(
        pair,
        PairTable(row for stage in stages for row in stage.rows),
        data.divergence or weights_at_begin.divergence or later,
        later,
        weights_at_begin.divergence is None,
        bool(noise.any()),
    )


def weights_changed_after(before: StepComparison, step: StepComparison) -> Divergence | None:
    """Return weights that changed between an earlier step and this step.

    They differ by more than ten times the difference at the end of the earlier step. Rounding
    cannot be the cause, as it does not occur between two steps. Something other than the
    update changed the weights.
    """
    distances = {}
    for row in before.table.of("update"):
        if row.baseline is not None and row.candidate is not None:
            distances[row.baseline.name] = row.distance
    changed = []
    for pair in step.pair.rows_of("weights"):
        name = step.pair.a.rows[pair[0]].name
        limit = OUTPUT_GROWTH * max(step.pair.tolerance.row, distances.get(name, 0.0))
        if step.pair.exceeds(*pair, limit):
            changed.append(step.pair.row_pair(*pair))
    if not changed:
        return None
    changed.sort(key=lambda pair: -pair.distance)
    return Divergence(step.step, "weights", tuple(changed))


def recorded_causes(step: StepComparison, judged: StepComparison) -> Divergence | None:
    """Return the recorded causes of a difference in a later step.

    A cause follows from no earlier step: it is the batch, or a setting. A setting, and the number
    of losses, counts if it agreed in the judged step. The order of samples never counts here: no
    later step tells whether it has an effect.
    """
    pair = step.pair
    tensors = []
    for row_a, row_b in data_pairs(pair):
        distance = float(row_distances(pair.a, row_a, pair.b, row_b, by_order=False))
        is_number = "int" not in pair.a.rows[row_a].dtype
        if is_number and distance > pair.tolerance.row:
            tensors.append(pair.row_pair(row_a, row_b, distance))
    if tensors:
        tensors.sort(key=lambda row: -row.distance)
        return Divergence(step.step, "data", tuple(tensors))
    settings = _settings_that_agreed(step, judged)
    if not settings:
        return None
    update = step.divergence
    if update is None or update.stage != "update" or not step.weights_agree:
        return Divergence(step.step, None, (), settings=settings)
    return update._replace(settings=settings)


def _settings_that_agreed(
    step: StepComparison, judged: StepComparison
) -> tuple[SettingDifference, ...]:
    differed = set()
    for setting in (*judged.pair.loss_counts, *setting_differences_of_step(judged.pair)):
        differed.add(setting.name)
    settings = []
    for setting in (*step.pair.loss_counts, *setting_differences_of_step(step.pair)):
        if setting.name not in differed:
            settings.append(setting)
    return tuple(settings)
