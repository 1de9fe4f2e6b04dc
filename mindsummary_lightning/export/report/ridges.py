"""Draw the histograms of a tag behind each other as SVG, as in a ridgeline plot.

SVG is small: a report may have hundreds of such plots. Colours of text and lines are the page's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.values import Histogram

MAX_RIDGES = 12
_BINS = 60
_WIDTH, _LEFT, _RIGHT = 400, 52, 392  # of the picture, and where the ridges begin and end
_TOP, _ROW, _FOOT = 44, 18, 34  # above the first base, between two, below the last
_TICKS = 5


def ridge_svg(
    samples: Sequence[tuple[int, Histogram]], colour: str, say: Callable[..., str]
) -> str | None:
    """Draw histograms of several steps behind each other; return SVG text.

    The oldest is at the back. The result is ``None`` if no histogram has a finite element.
    """
    filled = [(step, histogram) for step, histogram in samples if histogram.counts.sum()]
    if not filled:
        return None
    low = min(float(histogram.lefts.min()) for _, histogram in filled)
    with np.errstate(over="ignore", invalid="ignore"):
        high = max(float((histogram.lefts + histogram.widths).max()) for _, histogram in filled)
    if not (math.isfinite(high - low) and high > low):
        return None
    edges = np.linspace(low, high, _BINS + 1)
    densities = [_density(histogram, edges) for _, histogram in filled]
    # the tallest ridge covers three steps
    scale = (_TOP + 10) / max(float(density.max()) for density in densities)
    centres = [f"{_LEFT + (index + 0.5) * (_RIGHT - _LEFT) / _BINS:.1f}" for index in range(_BINS)]
    parts = []
    for row, ((step, histogram), density) in enumerate(zip(filled, densities, strict=True)):
        base = _TOP + 10 + row * _ROW
        heights = (base - density * scale).tolist()
        points = " ".join(f"{x},{y:.1f}" for x, y in zip(centres, heights, strict=True))
        outline = f"{_LEFT},{base} {points} {_RIGHT},{base}"
        title = escape(say("step {}: {} elements", step, histogram.count))
        parts.append(
            f'<text x="{_LEFT - 6}" y="{base}" text-anchor="end">{step}</text>'
            f'<polygon points="{outline}" fill="{colour}" stroke="{colour}">'
            f"<title>{title}</title></polygon>"
        )
    base = _TOP + 10 + (len(filled) - 1) * _ROW
    for value in _ticks(low, high):
        x = _LEFT + (value - low) / (high - low) * (_RIGHT - _LEFT)
        parts.append(
            f'<path d="M{x:.1f} {base}v5"/>'
            f'<text x="{x:.1f}" y="{base + 18}" text-anchor="middle">{value:g}</text>'
        )
    height = base + _FOOT
    label = escape(say("histograms of {} steps, from {:.3g} to {:.3g}", len(filled), low, high))
    names = f'class="ridges" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}"'
    return f"<svg {names}>{''.join(parts)}</svg>"


def _ticks(low: float, high: float) -> list[float]:
    """Return about five round numbers from ``low`` to ``high``."""
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    factor = next(factor for factor in (1, 2, 5, 10) if factor * power >= rough)
    step = factor * power
    first = math.ceil(low / step)
    return [float(f"{number * step:.6g}") for number in range(first, math.floor(high / step) + 1)]


def _density(histogram: Histogram, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    order = np.argsort(histogram.lefts, kind="stable")
    lefts, widths = histogram.lefts[order], histogram.widths[order]
    corners = np.append(lefts, lefts[-1] + widths[-1])
    running = np.append(0, np.cumsum(histogram.counts[order]))
    share = np.diff(np.interp(edges, corners, running)) / running[-1]
    return np.asarray(share / np.diff(edges), np.float64)
