"""Compares settings, whole tensors, and scalars that are not the loss.

They are compared in addition to losses and output statistics, which decide first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from mindsummary_lightning.porting.comparison.alignment import side_by_side
from mindsummary_lightning.porting.comparison.distances import largest_first, tensor_distances
from mindsummary_lightning.porting.comparison.loss_tags import LossTags, common_series
from mindsummary_lightning.porting.comparison.matching.names import equal_names
from mindsummary_lightning.porting.comparison.run_data import LOSS, RunData

WholeDistances = Mapping[tuple[str, str], Mapping[int, float]]
"""Distances by the names in both runs and by step."""


def setting_differences(a: RunData, b: RunData) -> dict[str, tuple[Any, Any]]:
    """Return the settings that both runs recorded with different values."""
    differences = {}
    for name, value_a in a.settings.items():
        if name in b.settings and not _is_same(value_a, b.settings[name]):
            differences[name] = (value_a, b.settings[name])
    return differences


def _is_same(value_a: Any, value_b: Any) -> bool:
    if isinstance(value_a, float) or isinstance(value_b, float):
        with contextlib.suppress(TypeError, ValueError):
            return bool(np.float32(value_a) == np.float32(value_b))
    return bool(value_a == value_b)


def largest_scalar_differences(a: RunData, b: RunData) -> dict[str, float]:
    """Return every common scalar's largest relative difference, without the loss."""
    differences = {}
    for tag in a.scalars.keys() & b.scalars.keys() - {LOSS}:
        values = common_series(a, b, LossTags(tag, tag)).values
        values = values[:, np.isfinite(values).all(axis=0)]
        if values.size:
            scale = float(np.abs(values).max()) or 1.0
            differences[tag] = float(np.abs(values[0] - values[1]).max()) / scale
    return largest_first(differences)


def whole_distances(a: RunData, b: RunData) -> WholeDistances:
    """Return the distances between the tensors that both runs recorded whole.

    Tensors of different sizes have an infinite distance.
    """
    distances = {}
    for name_a, name_b in equal_names(a.whole, b.whole):
        tensor_a, tensor_b = a.whole[name_a], b.whole[name_b]
        series = side_by_side([(tensor_a, tensor_b)])
        if not series.steps.size:
            continue
        size_a = tensor_a.count[np.searchsorted(tensor_a.steps, series.steps)]
        size_b = tensor_b.count[np.searchsorted(tensor_b.steps, series.steps)]
        is_incomparable = (series.nonfinite[0] != series.nonfinite[1]).any(axis=2)[0]
        is_incomparable = is_incomparable | (size_a != size_b)
        distance = np.where(is_incomparable, np.inf, tensor_distances(*series.values)[0])
        distances[name_a, name_b] = dict(zip(series.steps.tolist(), distance.tolist(), strict=True))
    return distances


def largest_whole_distances(distances: WholeDistances) -> dict[str, float]:
    """Return every whole tensor's largest distance, sorted from large to small.

    The keys are the names in the baseline.
    """
    return largest_first({names[0]: max(by_step.values()) for names, by_step in distances.items()})
