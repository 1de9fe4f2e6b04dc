"""Compares the batches of two runs in a step, and their weights at its start."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mindsummary_lightning.porting.comparison.divergence import Divergence
from mindsummary_lightning.porting.comparison.pair_table import PairRow, Stage, relation_of
from mindsummary_lightning.porting.comparison.row_distance import row_distances
from mindsummary_lightning.porting.comparison.step_pair import StepPair
from mindsummary_lightning.porting.comparison.step_pairing import RowIndices, Similarity


class StageResult(NamedTuple):
    """The compared rows of a stage, and the divergence in this stage, if any."""

    rows: list[PairRow]
    divergence: Divergence | None


def compare_data(step: StepPair) -> StageResult:
    """Compare the batches of both runs, tensor by tensor."""
    pairs = data_pairs(step)
    rows = [_data_row(step, pair) for pair in pairs]
    rows += step.unpaired_of("data", "data", pairs)
    tensors = step.exceeding(pairs)
    if not tensors:
        return StageResult(rows, None)
    return StageResult(rows, Divergence(step.step, "data", tensors, settings=step.loss_counts))


def _data_row(step: StepPair, rows: RowIndices) -> PairRow:
    has_effect = step.has_effect()
    distance = float(row_distances(step.a, rows[0], step.b, rows[1], by_order=has_effect))
    exceeds = step.exceeds(*rows)
    is_skipped = distance > step.tolerance.row and not exceeds
    relation = relation_of(distance, exceeds=exceeds, is_skipped=is_skipped)
    return step.table_row("data", rows, distance, step.tolerance.row, relation)


def data_pairs(step: StepPair) -> list[RowIndices]:
    """Pair the tensors in the batches of both runs.

    Tensors are paired by name if names are given and decisive, else by similarity.
    """
    rows_a, rows_b = step.a.of("data"), step.b.of("data")
    have_words = not any(map(str.isdigit, rows_a))
    by_name = rows_a.keys() == rows_b.keys() and have_words and step.has_effect()
    ranked = []
    for name_a, row_a in rows_a.items():
        for name_b, row_b in rows_b.items():
            similarity = step.calls.similarity(row_a, row_b, step.tolerance.row)
            is_other_name = name_a != name_b
            if similarity < Similarity.UNRELATED:
                key = by_name and is_other_name, similarity, is_other_name
                ranked.append((key, row_a, row_b))
    pairs: dict[int, int] = {}
    for _, row_a, row_b in sorted(ranked):
        if row_a not in pairs and row_b not in pairs.values():
            pairs[row_a] = row_b
    return [*pairs.items()]


def compare_weights(step: StepPair) -> StageResult:
    """Compare the weights and buffers with which both runs begin the step."""
    pairs = step.rows_of("weights")
    rows = weight_rows(step, "weights", pairs)
    tensors = step.exceeding(pairs)
    if not tensors:
        return StageResult(rows, None)
    swapped = step.weights.swapped("", {pair.baseline.name for pair in tensors})
    tensors = step.exceeding(swapped) or tensors
    return StageResult(rows, Divergence(step.step, "weights", tensors, settings=step.loss_counts))


def weight_rows(step: StepPair, stage: Stage, pairs: list[RowIndices]) -> list[PairRow]:
    """Make the table rows for the weights at the start or at the end of a step.

    Their tolerance is the tolerance of rows.
    """
    rows = []
    for pair in pairs:
        distance = step.calls.distance(*pair)
        exceeds = step.exceeds(*pair)
        tolerance = float(np.fmax(step.tolerance.row, step.noise[pair[0]]))
        relation = relation_of(distance, exceeds=exceeds, is_skipped=False)
        rows.append(step.table_row(stage, pair, distance, tolerance, relation))
    return rows + step.unpaired_of(stage, stage, pairs)
