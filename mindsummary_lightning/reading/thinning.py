"""Which samples of a tag a page shows, if there are more than it can draw: of curves points, of other kinds steps.

A front end smooths the points that it gets as if they were all. So a curve keeps samples that have the mean and the
spread of what they stand for, and few that stand far out: a spike is seen, and a smoothed curve is right.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

MAX_POINTS = 5000  # of a curve
_CANDIDATES = 8  # points of a stretch, of which one is chosen: quantiles of it, each by its share
_CORRECTION = 0.3  # of the error so far; larger ones follow the mean closer, and widen the band of a noisy curve
_MIXED = 50  # stretches
_BLOCK = 100  # points or a few more, above whose mean one can stand out
_OUTSTANDING = 4  # times the greatest distance in all but a tenth of the blocks: what is below is the bulk
_APART = 2  # times the greatest distance in the bulk; a heavy tail goes on without such a gap
_MAX_SPIKES = 50
_WINDOWS = 10  # of a curve: within one, other points take back what spikes weigh too much
_MAX_SHIFT = 0.02  # of a window's mean magnitude: as far may spikes move its mean beyond that


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
    known = [0, values.size - 1, int(values.argmax()), int(values.argmin()), *_spikes(values, count)]
    fixed = np.sort(list(dict.fromkeys(known))[:count])
    places = fixed - np.arange(fixed.size)  # among the others
    chosen = _unbiased(np.delete(values, fixed), count - fixed.size, places, values[fixed])
    chosen += np.searchsorted(places, chosen, side="right")
    return np.sort(np.concatenate([fixed, chosen]))


def _spikes(values: NDArray[np.float32], count: int) -> list[int]:
    """Points far from those around them, the farthest first: of ``count`` points others can take back their weight."""
    edges = np.linspace(0, values.size, max(1, values.size // _BLOCK) + 1).astype(np.intp)
    begins, lengths = edges[:-1], edges[1:] - edges[:-1]
    means = np.add.reduceat(values, begins, dtype=np.float64) / lengths
    distances = np.abs(values - np.repeat(means, lengths))
    farthest = np.maximum.reduceat(distances, begins)
    bulk = farthest[farthest <= _OUTSTANDING * np.quantile(farthest, 0.9)].max()
    blocks = np.flatnonzero(farthest > _APART * bulk)
    blocks = blocks[np.argsort(-farthest[blocks], kind="stable")][:_MAX_SPIKES]
    # A point of a window can lie below or above its mean by the mean distance.
    given = (np.add.reduceat(distances, begins, dtype=np.float64) - farthest) / lengths + _MAX_SHIFT * np.abs(means)
    windows = np.arange(begins.size) * _WINDOWS // begins.size
    left = np.bincount(windows, given, _WINDOWS) * count / begins.size
    chosen = []
    for block in blocks.tolist():
        if farthest[block] <= left[windows[block]]:
            left[windows[block]] -= farthest[block]
            chosen.append(int(edges[block] + distances[edges[block] : edges[block + 1]].argmax()))
    return chosen


def _unbiased(
    values: NDArray[np.float32], count: int, places: NDArray[np.intp], fixed: NDArray[np.float32]
) -> NDArray[np.intp]:
    """One point of each of ``count`` stretches, so that they and the fixed points at some places have the curve's mean.

    Of eight stretches each takes another quantile, corrected by part of the error of those before it. What a fixed
    point weighs too much is part of the error around its place.
    """
    if not count:
        return np.empty(0, np.intp)
    chance = np.random.default_rng(0)
    edges = np.linspace(0, values.size, count + 1).astype(np.intp)
    # Those longer by a point, mixed: at regular places they may always meet the same part of a period of the curve.
    lengths = (edges[1:] - edges[:-1])[np.argsort(np.arange(count) // _MIXED + chance.random(count))]
    begins = np.cumsum(lengths) - lengths
    candidates = begins[:, None] + (chance.random((count, _CANDIDATES)) * lengths[:, None]).astype(np.intp)
    of_candidates = values[candidates]
    order = np.argsort(of_candidates, axis=1)
    candidates = np.take_along_axis(candidates, order, axis=1)
    of_candidates = np.take_along_axis(of_candidates, order, axis=1)
    ranks = np.argsort(chance.random((-(-count // _CANDIDATES), _CANDIDATES)), axis=1).ravel()[:count].tolist()
    means = np.add.reduceat(values, begins, dtype=np.float64) / lengths
    spread = np.abs(of_candidates - means[:, None]).mean(axis=1)
    excess = _excess(begins, means, spread, places, fixed, count / values.size).tolist()
    chosen = np.empty(count, np.intp)
    error = 0.0
    rows = of_candidates.tolist()
    for index, (row, mean, rank, weight) in enumerate(zip(rows, means.tolist(), ranks, excess, strict=True)):
        error -= weight
        wanted = row[rank] + _CORRECTION * error
        nearest = min(bisect_left(row, wanted), _CANDIDATES - 1)
        if nearest and wanted - row[nearest - 1] < row[nearest] - wanted:
            nearest -= 1
        chosen[index] = nearest
        error += mean - row[nearest]
    return candidates[np.arange(count), chosen]


def _excess(
    begins: NDArray[np.intp],
    means: NDArray[np.float64],
    spread: NDArray[np.float64],
    places: NDArray[np.intp],
    fixed: NDArray[np.float32],
    share: float,
) -> NDArray[np.float64]:
    """By stretch, what fixed points weigh too much; it is taken back from half as far before a point as it takes."""
    excess = np.zeros(begins.size)
    stretches = np.searchsorted(begins, places, side="right") - 1
    local = np.convolve(spread, np.ones(_MIXED) / _MIXED, "same")
    for stretch, value in zip(stretches.tolist(), fixed.tolist(), strict=True):
        most = float(local[stretch]) * begins.size / _WINDOWS
        weight = min(max((value - float(means[stretch])) * (1 - share), -most), most)
        reach = begins.size / _WINDOWS * abs(weight) / most if most else 0.0
        excess[max(0, min(int(stretch - reach / 2), int(begins.size - 1 - reach)))] += weight
    return excess
