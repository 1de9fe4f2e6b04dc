"""Scalars of several runs over each other, as one SVG picture a tag."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.reading.results import ScalarSeries

__all__ = ["curve_chart", "nice_ticks"]

_WIDTH, _HEIGHT = 440, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 10, 10, 26
_MAX_STRETCHES = 200  # of a curve; each keeps its first, smallest, largest and last value, so no peak is lost


def curve_chart(curves: Sequence[tuple[str, str, ScalarSeries]]) -> str:
    """An SVG chart.

    Args:
        curves: run name, CSS colour and series of each curve.
    """
    points = [(name, colour, *_thinned(series)) for name, colour, series in curves]
    finite = [values[np.isfinite(values)] for _, _, _, values in points]
    values = np.concatenate(finite) if finite else np.empty(0)
    if not values.size:
        return '<p class="none">no finite value</p>'
    steps = np.concatenate([found for _, _, found, _ in points])
    x = _Axis(float(steps.min()), float(steps.max()), _LEFT, _WIDTH - _RIGHT)
    y = _Axis(float(values.min()), float(values.max()), _HEIGHT - _BOTTOM, _TOP, margin=0.05)
    parts = [f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">']
    for tick in nice_ticks(y.low, y.high, 5):
        at = y.at(tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{at:.1f}" x2="{_WIDTH - _RIGHT}" y2="{at:.1f}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{tick:.6g}</text>')
    for tick in nice_ticks(x.low, x.high, 6):
        label = f'<text class="tick" x="{x.at(tick):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{tick:.6g}</text>'
        parts.append(label)
    for name, colour, found, drawn in points:
        parts.append(_curve(name, colour, x, y, found, drawn))
    return "".join([*parts, "</svg>"])


def nice_ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers from ``low`` to ``high``, about as many as asked for."""
    if not high > low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    width = power * min((1, 2, 5, 10), key=lambda factor: abs(factor * power - rough))
    first, last = math.ceil(low / width - 1e-9), math.floor(high / width + 1e-9)
    return [number * width for number in range(first, last + 1)]


class _Axis:
    """Numbers to places on the page, in a straight line."""

    def __init__(self, low: float, high: float, begin: float, end: float, margin: float = 0.0) -> None:
        if high <= low:
            low, high = low - 0.5, high + 0.5
        room = (high - low) * margin
        self.low, self.high = low - room, high + room
        self._begin, self._scale = begin, (end - begin) / (self.high - self.low)

    def at(self, number: float) -> float:
        return self._begin + (number - self.low) * self._scale


def _thinned(series: ScalarSeries) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    steps, values = series.steps.astype(np.float64), series.values.astype(np.float64)
    if steps.size <= 4 * _MAX_STRETCHES:
        return steps, values
    kept: set[int] = set()
    edges = np.linspace(0, steps.size, _MAX_STRETCHES + 1).astype(int).tolist()
    filled = np.nan_to_num(values, nan=values[np.isfinite(values)].mean() if np.isfinite(values).any() else 0.0)
    for begin, end in itertools.pairwise(edges):
        stretch = filled[begin:end]
        kept |= {begin, end - 1, begin + int(stretch.argmin()), begin + int(stretch.argmax())}
    chosen = sorted(kept)
    return steps[chosen], values[chosen]


def _curve(name: str, colour: str, x: _Axis, y: _Axis, steps: NDArray[np.float64], values: NDArray[np.float64]) -> str:
    pieces: list[list[str]] = [[]]
    for step, value in zip(steps.tolist(), values.tolist(), strict=True):
        if math.isfinite(value):
            pieces[-1].append(f"{x.at(step):.1f},{y.at(value):.1f}")
        elif pieces[-1]:
            pieces.append([])  # a gap where the value was not finite
    drawn = []
    for piece in filter(None, pieces):
        if len(piece) == 1:
            place = piece[0].split(",")
            drawn.append(f'<circle cx="{place[0]}" cy="{place[1]}" r="2.5" fill="{colour}"/>')
        else:
            drawn.append(f'<polyline points="{" ".join(piece)}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
    last = values[-1] if values.size else math.nan
    return f"<g>{''.join(drawn)}<title>{html.escape(name)}: last {last:.6g}</title></g>"
