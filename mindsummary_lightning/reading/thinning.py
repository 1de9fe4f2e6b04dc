"""Selects samples of a tag for a page of the viewer that cannot draw all.

For curves it selects points, for other kinds steps.

A front end smooths the points that it gets as if they were all. So a curve keeps samples that have
the mean and the spread of what they stand for, and few that stand far out: a spike is seen, and a
smoothed curve is right.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

MAX_POINTS = 5000  # of a curve
_CANDIDATES = 8  # points of a stretch, of which one is chosen: quantiles of it, each by its share
# of the error so far; larger ones follow the mean closer, and widen the band of a noisy curve
_CORRECTION = 0.3
_MIXED = 50  # stretches
_BLOCK = 100  # points, from whose median one can be far
_LEAST_NOISE = 1e-3  # of the mean noise: where nothing moves, a small distance is not a large one
# farthest points, or a tenth of a short curve: the first tenth should fall off as the others do
_TAIL = 2000
_STEEPEST = 10  # exponent of that
_SURPLUS = 5  # times as many points as expected are as far or farther: they stand apart
_MAX_SPIKES = 50
_WINDOWS = 12  # of a curve: within one, other points take back what spikes weigh too much
_PAYERS = 5  # windows, the spike's own and the nearest
_MAX_MOVE = 0.95  # of the way to the least or the greatest points around them
_FAR = 0.5  # of that way: from here on the least or the greatest is one of the candidates
# of a window's mean magnitude: so much of what its spikes weigh may others take back
_MAX_LENT = 0.3
_MAX_SHIFT = 0.02  # of a window's mean magnitude: as far may spikes move its mean beyond that


def every_nth(count: int, max_samples: int) -> NDArray[np.intp]:
    """Return at most ``max_samples`` evenly spaced indices of ``count`` samples.

    The first and the last sample are among them.
    """
    if count <= max_samples:
        return np.arange(count)
    return np.round(np.linspace(0, count - 1, max_samples)).astype(np.intp)


def thinned(values: NDArray[np.float32], max_points: int = MAX_POINTS) -> NDArray[np.intp]:
    """Choose at most ``max_points`` points of a curve that preserve its shape.

    Smoothing them gives the smoothed curve.

    Args:
        values: shape ``(n,)``; NaN and infinities are allowed.
        max_points: most points to choose, at least 10.

    Returns:
        Ascending indices, ``min(n, max_points)`` of them: the first, the last, single finite values
        far from their neighbours, evenly spaced values that are not finite, and of each of equally
        long stretches of the others one.
    """
    is_finite = np.isfinite(values)
    if is_finite.all():
        return _representative(values, max_points)
    finite, others = np.flatnonzero(is_finite), np.flatnonzero(~is_finite)
    wanted = max(max_points // 10, 2)  # the first and the last, if they are not finite
    share = max(min(wanted, others.size), max_points - finite.size)
    chosen = finite[_representative(values[finite], max_points - share)]
    return np.sort(np.concatenate([chosen, others[every_nth(others.size, share)]]))


def _representative(values: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Select ``count`` points of a curve whose values are all finite."""
    if values.size <= count:
        return np.arange(values.size)
    kept, moves = _kept(values, count)
    others = np.delete(values, kept)
    begins = _stretches(others.size, count - len(kept))
    chosen = _unbiased(others, begins, moves[_before(begins, kept) * _WINDOWS // values.size])
    return np.sort(np.concatenate([kept, _before(chosen, kept)]))


def _before(places: NDArray[np.intp], deleted: NDArray[np.intp]) -> NDArray[np.intp]:
    """Convert indices into a shortened array to indices into the original array."""
    return places + np.searchsorted(
        np.sort(deleted) - np.arange(deleted.size), places, side="right"
    )


def _apart(values: NDArray[np.float32]) -> list[int]:
    """Find outliers of a curve, the farthest from its neighbours first.

    They are farther from the points around them than the tail of all distances leads to expect.
    """
    tail = min(_TAIL, values.size // 10)
    few = tail // 10
    if not few:
        return []
    blocks = np.append(values, values[values.size - -values.size % _BLOCK :]).reshape(-1, _BLOCK)
    medians = np.partition(blocks, _BLOCK // 2, axis=1)[:, _BLOCK // 2, None].astype(np.float64)
    # at a step of the curve a neighbour may be the nearer one
    around = np.pad(medians, ((1, 1), (0, 0)), "edge")
    distances = np.full(blocks.shape, np.inf)
    for at in range(3):
        # np.abs would take memory
        np.minimum(distances, abs(blocks - around[at : at + len(blocks)]), out=distances)
    # The noise of a falling curve may fall with it: a distance is one in units of the noise of its
    # window.
    windows = [one for one in np.array_split(distances.mean(axis=1), _WINDOWS) if one.size]
    noise = np.repeat([np.median(one) for one in windows], [one.size for one in windows])
    distances /= np.maximum(noise, _LEAST_NOISE * noise.mean() or 1)[:, None]
    distances = distances.ravel()[: values.size]
    farthest = np.argpartition(distances, -tail)[-tail:]
    farthest = farthest[np.argsort(-distances[farthest], kind="stable")]
    far = distances[farthest]
    begin, end = float(far[few - 1]), float(far[-1])
    exponent = _STEEPEST * (begin == end)
    if 0 < end < begin:
        exponent = min(_STEEPEST, np.log(10) / np.log(begin / end))
    far = far[:few][far[:few] > begin]
    surplus = np.arange(1, far.size + 1) >= _SURPLUS * few * (begin / far) ** exponent
    return list(farthest[: np.flatnonzero(surplus).max(initial=-1) + 1])


def _kept(values: NDArray[np.float32], count: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the points to show in any case, and how far other points compensate.

    The others of a window move to take back the weight of its kept points.

    The move is a share of the way to the least points around them or, if it is negative, to the
    greatest.
    """
    ends = list(dict.fromkeys([0, values.size - 1, int(values.argmax()), int(values.argmin())]))
    single = np.array(list(dict.fromkeys([*_apart(values), *ends])))
    others = np.delete(values, single)
    begins = _stretches(others.size, count)
    means, least, greatest = _levels(others, begins)
    begins = _before(begins, single)
    windows = begins * _WINDOWS // values.size
    to_least = np.bincount(windows, means - least, _WINDOWS)
    to_greatest = np.bincount(windows, greatest - means, _WINDOWS)
    magnitude = np.bincount(windows, np.abs(means), _WINDOWS)
    lowest, highest = -_MAX_MOVE * to_greatest, _MAX_MOVE * to_least
    own = np.maximum(np.searchsorted(begins, single, side="right") - 1, 0)
    weights = (values[single] - means[own]) * (1 - count / values.size)
    most = min(_MAX_SPIKES, count // 10)
    kept: list[int] = []
    unpaid = []
    owed, lent = np.zeros(_WINDOWS), np.zeros(_WINDOWS)
    window_of = (single * _WINDOWS // values.size).tolist()
    for place, window, weight in zip(single.tolist(), window_of, weights, strict=True):
        nearest = sorted(range(_WINDOWS), key=lambda other: abs(other - window))
        payers = nearest[:_PAYERS] if len(kept) < most else []
        for payer in payers:
            after, beyond = owed[payer] + weight, _MAX_SHIFT * magnitude[payer]
            debt = lent[window] + (weight if payer != window else 0.0)
            is_borne = payer == window or abs(debt) <= _MAX_LENT * magnitude[window]
            if is_borne and lowest[payer] - beyond <= after <= highest[payer] + beyond:
                kept.append(place)
                owed[payer], lent[window] = after, debt
                break
        else:
            if place in ends:
                unpaid.append((place, window, weight))
    for place, window, weight in unpaid:
        kept.append(place)
        owed[window] += weight
    owed = np.clip(owed, lowest, highest)
    ways = np.where(owed < 0, to_greatest, to_least)
    return np.array(kept), np.divide(owed, ways, out=np.zeros(_WINDOWS), where=ways > 0)


def _stretches(size: int, count: int) -> NDArray[np.intp]:
    """Divide a curve into at most ``count`` sections of equal length.

    Those longer by a point are mixed: at regular places they may always meet the same part of a
    period of the curve.
    """
    edges = np.linspace(0, size, min(size, count) + 1).astype(np.intp)
    lengths = edges[1:] - edges[:-1]
    chance = np.random.default_rng(0).random(lengths.size)
    lengths = lengths[np.argsort(np.arange(lengths.size) // _MIXED + chance)]
    return np.asarray(np.cumsum(lengths) - lengths)


def _levels(
    values: NDArray[np.float32], begins: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean, least and greatest value of every section of a curve."""
    means = np.add.reduceat(values, begins, dtype=np.float64) / np.diff(begins, append=values.size)
    least = np.minimum.reduceat(values, begins).astype(np.float64)
    greatest = np.maximum.reduceat(values, begins).astype(np.float64)
    return means, least, greatest


def _unbiased(
    values: NDArray[np.float32], begins: NDArray[np.intp], moves: NDArray[np.float64]
) -> NDArray[np.intp]:
    """Select one point from every section so that the curve keeps its mean.

    ``moves`` moves the mean as far as wanted. Eight neighbouring stretches take different
    quantiles, corrected by part of the error of the stretches before.
    """
    chance = np.random.default_rng(1)
    count = begins.size
    lengths = np.diff(begins, append=values.size)
    offsets = chance.random((count, _CANDIDATES)) * lengths[:, None]
    candidates = begins[:, None] + offsets.astype(np.intp)
    groups = -(-count // _CANDIDATES)
    ranks = np.argsort(chance.random((groups, _CANDIDATES)), axis=1).ravel()[:count]
    means, least, greatest = _levels(values, begins)
    candidates = np.take_along_axis(candidates, np.argsort(values[candidates], axis=1), axis=1)
    share = np.abs(moves)
    ends = np.where(moves < 0, greatest, least)
    targets = means + share * (ends - means)
    drawn = values[candidates[np.arange(count), ranks]].astype(np.float64)
    drawn += share * (ends - drawn)
    is_far = share > _FAR
    if is_far.any():
        places = np.flatnonzero(values == np.repeat(ends, lengths))
        extremes = places[np.searchsorted(places, begins)]
        end_column = np.where(moves < 0, -1, 0)
        candidates[is_far, end_column[is_far]] = extremes[is_far]
    chosen = np.empty(count, np.intp)
    error = 0.0
    rows = zip(values[candidates].tolist(), drawn.tolist(), targets.tolist(), strict=True)
    for index, (row, draw, target) in enumerate(rows):
        wanted = draw + _CORRECTION * error
        nearest = bisect_left(row, wanted, 0, _CANDIDATES - 1)
        if nearest and wanted - row[nearest - 1] < row[nearest] - wanted:
            nearest -= 1
        chosen[index] = nearest
        error += target - row[nearest]
    return candidates[np.arange(count), chosen]
