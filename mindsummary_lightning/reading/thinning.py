"""Which samples of a tag a page shows, if there are more than it can draw: of curves points, of other kinds steps.

A front end smooths the points that it gets as if they were all. So a curve keeps samples that have the mean and the
spread of what they stand for, and few that stand far out: a spike is seen, and a smoothed curve is right.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

MAX_POINTS = 5000  # of a curve
_CANDIDATES = 8  # points of a stretch, of which one is chosen
_CORRECTION = 0.3  # of the error so far; larger ones follow the mean closer, and widen the band of a noisy curve
_MIXED = 50  # stretches
_BLOCK = 100  # points or a few more, above whose mean one can stand out
_OUTSTANDING = 4  # times the greatest distance in all but a tenth of the blocks
_MAX_SHIFT, _MAX_SHIFT_OF_TWO = 0.02, 0.03  # of the mean magnitude: as far may points that stand out move the mean


def every_nth(count: int, max_samples: int) -> NDArray[np.intp]:
    """At most ``max_samples`` evenly spaced indices of ``count`` samples, the first and the last among them."""
    if count <= max_samples:
        return np.arange(count)
    return np.round(np.linspace(0, count - 1, max_samples)).astype(np.intp)


def thinned(values: NDArray[np.float32], max_points: int = MAX_POINTS) -> NDArray[np.intp]:
    """Choose the points of a curve that show its shape, and whose smoothing is that of the whole curve.

    Args:
        values: shape ``(n,)``; NaN and infinities are allowed.
        max_points: most points to choose, at least 5.

    Returns:
        Ascending indices, ``min(n, max_points)`` of them: the first, the last, single finite values far from their
        neighbours, evenly spaced values that are not finite, and of each of equally long stretches of the others one.
    """
    if values.size <= max_points:
        return np.arange(values.size)
    is_finite = np.isfinite(values)
    if is_finite.all():
        return _representative(values, max_points)
    finite, others = np.flatnonzero(is_finite), np.flatnonzero(~is_finite)
    few = max(2, max_points // 10)
    share = min(max(max_points * others.size // values.size, few), max_points - few)
    share = max(min(share, others.size), max_points - finite.size)
    chosen = finite[_representative(values[finite], max_points - share)]
    return np.sort(np.concatenate([chosen, others[every_nth(others.size, share)]]))


def _representative(values: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """``count`` points of a curve without gaps."""
    if values.size <= count:
        return np.arange(values.size)
    fixed = np.unique([0, values.size - 1, *_outstanding(values, count)])
    chosen = _unbiased(np.delete(values, fixed), count - fixed.size)
    chosen += np.searchsorted(fixed - np.arange(fixed.size), chosen, side="right")  # indices before the deletion
    return np.sort(np.concatenate([fixed, chosen]))


def _outstanding(values: NDArray[np.float32], count: int) -> list[int]:
    """Points far from those around them, the farthest first: few enough not to move the mean of ``count`` points."""
    edges = np.linspace(0, values.size, max(1, values.size // _BLOCK) + 1).astype(np.intp)
    begins, lengths = edges[:-1], edges[1:] - edges[:-1]
    means = np.add.reduceat(values, begins, dtype=np.float64) / lengths
    distances = np.abs(values - np.repeat(means, lengths))
    farthest = np.maximum.reduceat(distances, begins)
    blocks = np.flatnonzero(farthest > _OUTSTANDING * np.quantile(farthest, 0.9))
    if blocks.size > count // _BLOCK:  # so many are drawn in proportion
        return []
    blocks = blocks[np.argsort(-farthest[blocks], kind="stable")]
    shifts = np.cumsum(farthest[blocks]) / (count * np.abs(values).mean(dtype=np.float64))
    fitting, of_two = np.searchsorted(shifts, (_MAX_SHIFT, _MAX_SHIFT_OF_TWO)).tolist()
    fitting = max(fitting, min(of_two, 2), 1)  # the farthest always
    chosen = edges[blocks[:fitting, None] + (0, 1)].tolist()
    return [begin + int(distances[begin:end].argmax()) for begin, end in chosen]


def _unbiased(values: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """One point of each of ``count`` stretches: a random one, corrected by part of the error of those before it."""
    if not count:
        return np.empty(0, np.intp)
    chance = np.random.default_rng(0)
    edges = np.linspace(0, values.size, count + 1).astype(np.intp)
    # Those longer by a point, mixed: at regular places they may always meet the same part of a period of the curve.
    lengths = (edges[1:] - edges[:-1])[np.argsort(np.arange(count) // _MIXED + chance.random(count))]
    begins = np.cumsum(lengths) - lengths
    random = chance.random((count, _CANDIDATES))
    candidates = begins[:, None] + (random * lengths[:, None]).astype(np.intp)
    drawn = values[candidates[:, 0]].tolist()
    order = np.argsort(values[candidates], axis=1)
    candidates = np.take_along_axis(candidates, order, axis=1)
    rows = values[candidates].tolist()
    means = (np.add.reduceat(values, begins, dtype=np.float64) / lengths).tolist()
    chosen = np.empty(count, np.intp)
    error = 0.0
    for index, (row, mean, value) in enumerate(zip(rows, means, drawn, strict=True)):
        wanted = value + _CORRECTION * error
        nearest = min(bisect_left(row, wanted), _CANDIDATES - 1)
        if nearest and wanted - row[nearest - 1] < row[nearest] - wanted:
            nearest -= 1
        chosen[index] = nearest
        error += mean - row[nearest]
    return candidates[np.arange(count), chosen]
