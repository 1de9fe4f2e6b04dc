"""Histograms of a tag over the steps of a run, as ridges behind each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.values import Histogram

__all__ = ["MAX_RIDGES", "ridge_chart"]

MAX_RIDGES = 12
_WIDTH, _LEFT, _RIGHT = 440, 56, 10
_RIDGE, _RISE, _BOTTOM = 46, 14, 26
_BINS = 60


def ridge_chart(samples: Sequence[tuple[int, Histogram]], colour: str) -> str:
    """An SVG chart with the oldest sample at the back.

    Args:
        samples: step and histogram, by step, at most :data:`MAX_RIDGES`.
        colour: CSS colour of the ridges.
    """
    filled = [(step, histogram) for step, histogram in samples if histogram.counts.sum()]
    if not filled:
        return '<p class="none">no finite element</p>'
    low = min(float(histogram.lefts.min()) for _, histogram in filled)
    high = max(float((histogram.lefts + histogram.widths).max()) for _, histogram in filled)
    if not (np.isfinite(low) and np.isfinite(high) and high > low):
        return '<p class="none">no finite range</p>'
    edges = np.linspace(low, high, _BINS + 1)
    densities = [_density(histogram, edges) for _, histogram in filled]
    top = max(float(density.max()) for density in densities)
    height = _RIDGE + _RISE * (len(filled) - 1) + _BOTTOM
    places = np.linspace(_LEFT, _WIDTH - _RIGHT, _BINS)
    parts = [f'<svg class="chart" viewBox="0 0 {_WIDTH} {height}" role="img">']
    for number, ((step, histogram), density) in enumerate(zip(filled, densities, strict=True)):
        base = _RIDGE + _RISE * number
        line = " ".join(f"{x:.1f},{base - y:.1f}" for x, y in zip(places, density / top * (_RIDGE - 6), strict=True))
        parts.append(
            f'<polygon points="{_LEFT},{base} {line} {_WIDTH - _RIGHT},{base}" fill="{colour}" '
            f'fill-opacity="{0.25 + 0.55 * (number + 1) / len(filled):.2f}" stroke="white" stroke-width="0.8">'
            f"<title>step {step}: {histogram.count} elements</title></polygon>"
            f'<text class="tick" x="{_LEFT - 6}" y="{base + 3}" text-anchor="end">{step}</text>'
        )
    for value, anchor in ((low, "start"), ((low + high) / 2, "middle"), (high, "end")):
        x = _LEFT + (value - low) / (high - low) * (_WIDTH - _RIGHT - _LEFT)
        parts.append(f'<text class="tick" x="{x:.1f}" y="{height - 8}" text-anchor="{anchor}">{value:.4g}</text>')
    return "".join([*parts, "</svg>"])


def _density(histogram: Histogram, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    order = np.argsort(histogram.lefts, kind="stable")
    lefts, widths = histogram.lefts[order], histogram.widths[order]
    corners = np.append(lefts, lefts[-1] + widths[-1])
    running = np.append(0, np.cumsum(histogram.counts[order]))
    share = np.diff(np.interp(edges, corners, running)) / running[-1]
    return np.asarray(share / np.diff(edges), np.float64)
