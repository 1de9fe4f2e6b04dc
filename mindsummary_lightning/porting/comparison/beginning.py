"""What two runs began with: the same weights, other ones, or what cannot be told.

First weights are not recorded, only those after the first step. Means of separately drawn tensors
differ by about their spread over the root of the number of elements; those of tensors that began
alike by their updates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.porting.comparison.alignment import Alignment
from mindsummary_lightning.porting.comparison.distances import Floats
from mindsummary_lightning.porting.comparison.name_blocks import TensorName
from mindsummary_lightning.porting.comparison.names import is_drawn

_WIDTH = 4.0  # of a tensor by its standard deviation: 3.5 of uniform numbers, 4 to 8 of normal ones
# a difference of standard normal numbers is below x with a probability of 0.56 x, for small x
_BY_CHANCE = 0.56
_LEAST_CHANCE = 1e-3  # that one tensor may contribute
_CLEAR, _TYPICAL = 5.0, 2.0  # standard deviations of what chance gives
_BEYOND_UPDATES, _FAR_BEYOND = 3.0, 10.0  # times the largest update of both runs in the next steps
_NEXT_STEPS = 6


class Beginning(NamedTuple):
    """How two runs began.

    Attributes:
        are_alike: ``True`` if separately drawn weights agree so well by chance less than once in a
            million times; ``False`` if they are as far apart as such are, and by more than updates
            explain; otherwise ``None``.
        apart: of runs that began alike the tensors that did not, by their index.
    """

    are_alike: bool | None
    apart: NDArray[np.intp]


def beginning_of(alignment: Alignment) -> Beginning:
    """Judge by the first steps that both runs recorded."""
    none = np.zeros(0, np.intp)
    if not alignment.steps.size:
        return Beginning(None, none)
    first = alignment.tensors[:, :, 0]
    weights = alignment.is_weight & np.isfinite(first).all(axis=(0, 2))
    drawn = weights & [
        is_drawn(TensorName(pair.a, int(elements), tuple(numbers)))
        for pair, elements, numbers in zip(
            alignment.names.pairs, alignment.elements, first[0], strict=True
        )
    ]
    apart = np.abs(first[0] - first[1]).max(axis=1)
    if not drawn.any():
        return Beginning(None, none)
    updates = np.nan_to_num(
        np.abs(np.diff(alignment.tensors[:, :, :_NEXT_STEPS], axis=2)).max(axis=3)
    )
    updates, has_next = updates.max(axis=2, initial=0.0).sum(axis=0), updates.shape[2] > 0
    width = np.ptp(first[0][drawn, :2], axis=1)
    means = (
        np.abs(first[0] - first[1])[drawn, 2] * np.sqrt(alignment.elements[drawn]) * _WIDTH / width
    )
    surprise = -np.log(np.clip(_BY_CHANCE * means, _LEAST_CHANCE, 1.0)).sum()
    count = int(drawn.sum())
    if surprise > count + _CLEAR * count**0.5:
        typical = float(np.median(updates[weights]))
        is_far = weights & (apart > _FAR_BEYOND * np.maximum(updates, typical)) & has_next
        return Beginning(True, np.flatnonzero(is_far) if typical else none)
    is_beyond = has_next and np.median(apart[drawn] - _BEYOND_UPDATES * updates[drawn]) > 0
    return Beginning(
        False if is_beyond and surprise < count + _TYPICAL * count**0.5 else None, none
    )


def update_shares(alignment: Alignment, column: int | None) -> Floats:
    """How far the updates of weights in a step are apart, by their size; of the first step, by that of the next."""
    steps, tensors = alignment.steps, alignment.tensors
    if column is None or steps.size < 2 or (column and steps[column] - steps[column - 1] != 1):
        return np.zeros(0)
    updates = tensors[:, :, max(column, 1)] - tensors[:, :, max(column, 1) - 1]
    one, other = updates if column else tensors[:, :, 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        shares: Floats = np.abs(one - other).max(axis=1) / np.abs(updates).max(axis=(0, 2))
    return shares[alignment.is_weight & ~np.isnan(shares)]
