"""Distances between the output statistics of tensors in two recorded steps."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.porting.comparison.distances import Floats
from mindsummary_lightning.porting.comparison.recorded_step import (
    ELEMENTS,
    HIGH,
    LOW,
    MEAN,
    NON_FINITE,
    RMS,
    SAMPLED,
    RecordedStep,
)
from mindsummary_lightning.porting.comparison.tolerance_table import SAMPLE_WEIGHT

_Rows: TypeAlias = int | list[int] | NDArray[np.int64]


def row_distances(
    a: RecordedStep, rows_a: _Rows, b: RecordedStep, rows_b: _Rows, *, by_order: bool = True
) -> Floats:
    """Return the distances between rows, relative to the larger root mean square.

    Averages count fully, single elements (extremes and samples) by :data:`SAMPLE_WEIGHT`.

    Args:
        a: a step.
        rows_a: indices of rows in it.
        b: the step of the other run.
        rows_b: indices of rows there, of a shape that broadcasts.
        by_order: whether the sampled elements count where shapes are equal.

    Returns:
        Distances; infinite if the tensors have other numbers of elements, or of finite ones.
    """
    values_a, values_b = a.values[rows_a], b.values[rows_b]
    is_same_order = np.asarray((a.layouts[rows_a] == b.layouts[rows_b]) & by_order)
    rms = np.fmax(values_a[..., RMS], values_b[..., RMS])[..., None]
    single_a = values_a[..., [LOW, HIGH, *SAMPLED]]
    single_b = values_b[..., [LOW, HIGH, *SAMPLED]]
    average_a, average_b = values_a[..., [RMS, MEAN]], values_b[..., [RMS, MEAN]]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        scale = np.fmax(rms, np.fmax(np.abs(single_a), np.abs(single_b)))
        single = np.fmax(np.abs(single_a - single_b) / scale, 0.0)
        single[..., 2:] *= is_same_order[..., None]
        averages = np.fmax(np.abs(average_a - average_b) / rms, 0.0)
    distance = np.maximum(averages.max(axis=-1), SAMPLE_WEIGHT * single.max(axis=-1))
    has_other_size = values_a[..., ELEMENTS] != values_b[..., ELEMENTS]
    has_other_finite = values_a[..., NON_FINITE] != values_b[..., NON_FINITE]
    distances: Floats = np.where(has_other_size | has_other_finite, np.inf, distance)
    return distances


def near_rows(
    a: RecordedStep, row: int, b: RecordedStep, rows_b: NDArray[np.int64], limit: float
) -> NDArray[np.bool_]:
    """Tell which rows of step ``b`` are near a row of step ``a``.

    Rows with a different size or root mean square are excluded before distances are computed.
    """
    rms, others = a.values[row, RMS], b.values[rows_b, RMS]
    near: NDArray[np.bool_] = b.values[rows_b, ELEMENTS] == a.values[row, ELEMENTS]
    near &= ~(np.abs(others - rms) > limit * np.fmax(others, rms))
    near[near] = row_distances(a, row, b, rows_b[near]) <= limit
    return near


def repeat_distances(step: RecordedStep, repeat: RecordedStep) -> Floats:
    """Return, for every row of a step, how far a repeat of the run differs from it.

    For an output it is the largest distance up to that output, for any other row the largest of its
    stage. It is 0 if the repeat has no such row, or a row of another size.
    """
    rows_of_repeat = {row.key: index for index, row in enumerate(repeat.rows)}
    distances = np.zeros(len(step.rows))
    for link in {row.link for row in step.rows}:
        own, theirs = [], []
        for index, row in enumerate(step.rows):
            if row.link == link and row.key in rows_of_repeat:
                own.append(index)
                theirs.append(rows_of_repeat[row.key])
        found = row_distances(step, own, repeat, theirs)
        found = np.where(np.isfinite(found), found, 0.0)
        if link == "forward":
            distances[own] = np.maximum.accumulate(found)
        else:
            distances[own] = found.max(initial=0.0)
    return distances
