"""Pairs tensors whose values are equal in the first step that both runs recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.porting.comparison.matching.tensor_names import (
    TensorName,
    is_bias,
    kind_of,
)
from mindsummary_lightning.porting.comparison.tolerance_table import CONSTANT_WIDTH, MATCH_MARGIN

_Floats = NDArray[np.float64]
_LARGE = 64  # elements from which on minimum, maximum and mean tell random tensors apart


class _Nearest(NamedTuple):
    """The nearest row in a second array, for every row of a first array.

    ``place`` is its index and ``distance`` its distance. ``next_distance`` is the distance of the
    second nearest row.
    """

    place: NDArray[np.int64]
    distance: _Floats
    next_distance: _Floats


def is_random(tensor: TensorName) -> bool:
    """Tell whether a tensor began with many random numbers, not as a constant."""
    if tensor.elements < _LARGE or is_bias(tensor.name) or not tensor.first:
        return False
    low, high, mean = tensor.first
    return bool(high - low > CONSTANT_WIDTH * abs(mean))


def has_numbers(tensor: TensorName) -> bool:
    """Tell whether the values of a tensor are known and finite."""
    return bool(tensor.first) and bool(np.isfinite(tensor.first).all())


def equal_values(
    a: Sequence[TensorName],
    b: Sequence[TensorName],
    is_compared: Callable[[TensorName], bool],
    trusted_share: float,
) -> list[tuple[str, str]]:
    """Pair tensors of equal size whose values are much closer than any rival's.

    Args:
        a: unmatched tensors of the baseline.
        b: unmatched tensors of the candidate.
        is_compared: which tensors are compared.
        trusted_share: fraction of these that must pair; otherwise the runs did not begin alike, and
            no pair is returned.
    """
    groups: dict[tuple[int, str], tuple[list[TensorName], list[TensorName]]] = {}
    for side, tensors in enumerate((a, b)):
        for tensor in filter(is_compared, tensors):
            key = tensor.elements, kind_of(tensor.name)
            groups.setdefault(key, ([], []))[side].append(tensor)
    pairs: list[tuple[str, str]] = []
    possible = 0
    for group_a, group_b in groups.values():
        if group_a and group_b:
            possible += min(len(group_a), len(group_b))
            pairs += _clearly_nearest(group_a, group_b)
    return pairs if len(pairs) >= trusted_share * possible else []


def _clearly_nearest(a: Sequence[TensorName], b: Sequence[TensorName]) -> list[tuple[str, str]]:
    """Pair tensors whose distance is small compared with the nearest rival's.

    It must be small compared with the tensor's own width, too.
    """
    # Means of n random elements are nearer to each other than extremes, by the root of n.
    weights = np.array([1.0, 1.0, a[0].elements ** 0.5 / 4])
    values_a, values_b = _values(a) * weights, _values(b) * weights
    of_a = _nearest(values_a, values_b)
    rivals = np.minimum(of_a.next_distance, _nearest(values_b, values_a).next_distance[of_a.place])
    rivals = np.minimum(rivals, np.ptp(values_a[:, :2], axis=1) / MATCH_MARGIN)
    is_clear = MATCH_MARGIN * of_a.distance < rivals
    return [(a[row].name, b[of_a.place[row]].name) for row in np.flatnonzero(is_clear).tolist()]


def _values(tensors: Sequence[TensorName]) -> _Floats:
    return np.array([tensor.first for tensor in tensors])


def _nearest(rows: _Floats, among: _Floats) -> _Nearest:
    """Find, for every row of ``rows``, the nearest row of ``among``.

    A distance is infinite if there is no row.
    """
    order = np.argsort(among[:, 2])
    means = np.concatenate([[-np.inf], among[order, 2], [np.inf]])
    place, distances = np.zeros(len(rows), np.int64), np.full((2, len(rows)), np.inf)
    for row, begin in enumerate(np.searchsorted(means[1:-1], rows[:, 2]).tolist()):
        left, right, width = begin, begin, _LARGE
        mean = rows[row, 2]
        # No row outside of the window is nearer than its mean.
        while min(mean - means[left], means[right + 1] - mean) < distances[1, row]:
            left, right = max(0, begin - width), min(len(among), begin + width)
            width *= 2
            window = np.sort(order[left:right])
            distance = np.abs(among[window] - rows[row]).max(axis=1)
            place[row] = window[distance.argmin()]
            smallest = np.partition(distance, 1)[:2] if distance.size > 1 else distance
            distances[: distance.size, row] = smallest
    return _Nearest(place, distances[0], distances[1])
