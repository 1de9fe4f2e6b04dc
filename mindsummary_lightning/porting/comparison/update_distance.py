"""Measures by how much the update of a weight differs between two runs.

Differences that gradients and precision explain do not count.
"""

from __future__ import annotations

import numpy as np

from mindsummary_lightning.porting.comparison.distances import Floats
from mindsummary_lightning.porting.comparison.recorded_step import MEAN, RMS, SAMPLED
from mindsummary_lightning.porting.comparison.step_pair import StepPair
from mindsummary_lightning.porting.comparison.step_pairing import RowIndices
from mindsummary_lightning.porting.comparison.tolerance_table import (
    OUTPUT_GROWTH,
    SPACINGS,
    UPDATE_SPACINGS,
)

_AVERAGES = (MEAN, RMS)
"""Columns of all elements: sampled elements may agree where other elements do not."""


def update_distance(step: StepPair, drift: float, name_a: str, name_b: str) -> float:
    """Return the distance between two updates, relative to the larger update.

    Args:
        step: the step.
        drift: largest distance of the step's outputs.
        name_a: name of the weight in the baseline.
        name_b: name of the weight in the candidate.

    Returns:
        0 where there is nothing to compare; infinite if other elements are finite after the step.
    """
    row_a, row_b = step.a.of("update").get(name_a), step.b.of("update").get(name_b)
    if row_a is None or row_b is None:
        return 0.0
    if step.calls.distance(row_a, row_b) == np.inf:
        return np.inf
    after = row_a, row_b
    before = step.a.of("weights")[name_a], step.b.of("weights")[name_b]
    gradients = _gradient_rows(step, name_a, name_b)
    if gradients and step.is_noise(*gradients):
        return 0.0  # Adam makes whole steps of a gradient that is rounding
    has_one_layout = step.a.layouts[row_a] == step.b.layouts[row_b]
    columns = [*_AVERAGES, *SAMPLED] if has_one_layout else [*_AVERAGES]
    update_a = step.a.values[row_a, columns] - step.a.values[before[0], columns]
    update_b = step.b.values[row_b, columns] - step.b.values[before[1], columns]
    size = float(np.fmax.reduce([*np.abs(update_a), *np.abs(update_b)]))
    if not size > 0:
        return 0.0
    precision = UPDATE_SPACINGS * _spacing_of_weights(step, before, gradients)
    rounding = _rounding_of_weights(step, drift, after, columns, precision)
    if gradients:
        noise = _gradient_distances(step, gradients, before[0], columns)
        rounding = rounding + OUTPUT_GROWTH * noise * size
    return float(np.fmax.reduce(np.abs(update_a - update_b) - rounding)) / size


def _gradient_rows(step: StepPair, name_a: str, name_b: str) -> RowIndices | None:
    row_a, row_b = step.gradients.a.get(name_a), step.gradients.b.get(name_b)
    return None if row_a is None or row_b is None else (row_a, row_b)


def _gradient_distances(
    step: StepPair, gradients: RowIndices, weight: int, columns: list[int]
) -> Floats:
    """Return the distances between two gradients, element by element.

    A distance is relative to the size of the element. Some optimizers add the decayed weight to the
    gradient, which may leave little of it: the smaller size counts.
    """
    gradient_a = step.a.values[gradients[0], columns]
    gradient_b = step.b.values[gradients[1], columns]
    sizes = np.fmax(np.abs(gradient_a), np.abs(gradient_b))
    for name, row in step.a.of("settings").items():
        if "weight_decay" in name:
            added = step.a.values[row, MEAN] * step.a.values[weight, columns]
            decayed = np.fmax(np.abs(gradient_a + added), np.abs(gradient_b + added))
            sizes = np.minimum(sizes, decayed)
    tiny = np.finfo(np.float32).tiny
    distances: Floats = np.abs(gradient_a - gradient_b) / np.fmax(sizes, tiny)
    # what single elements are unsure of, their averages are, too
    averages = slice(len(_AVERAGES))
    distances[averages] = np.fmax(distances[averages], distances.mean())
    return distances


def _spacing_of_weights(step: StepPair, before: RowIndices, gradients: RowIndices | None) -> float:
    """Return the relative gap between neighbouring numbers of the weights' dtypes.

    Equal weights with equal gradients are rounded alike in half precision, too. Their updates may
    differ only as those of float32.
    """
    has_equal_weights = step.calls.distance(*before) == 0
    has_equal_gradients = gradients is None or step.calls.distance(*gradients) == 0
    if has_equal_weights and has_equal_gradients:
        return SPACINGS["float32"]
    dtypes = step.a.rows[before[0]].dtype, step.b.rows[before[1]].dtype
    return max(SPACINGS.get(dtype, SPACINGS["float32"]) for dtype in dtypes)


def _rounding_of_weights(
    step: StepPair, drift: float, after: RowIndices, columns: list[int], precision: float
) -> Floats:
    """Return by how much rounding can change the recorded values of an update.

    The precision of the weight limits it, or the precision of the module's inputs.
    """
    weight_a = step.a.rows[after[0]]
    values, rms = step.a.values[after[0], columns], step.a.values[after[0], RMS]
    rounding: Floats = precision * np.fmax(np.abs(values), rms)
    if weight_a.kind == "buffer":  # a mean that is zero but for rounding
        module = weight_a.name.rpartition(".")[0]
        input_size = 0.0
        for call in step.a.calls:
            if call.name == module:
                sizes = step.a.values[[*call.inputs], RMS]
                input_size = max(input_size, float(sizes.max(initial=0.0)))
        rounding = rounding + OUTPUT_GROWTH * max(step.tolerance.row, drift) * input_size
    return rounding
