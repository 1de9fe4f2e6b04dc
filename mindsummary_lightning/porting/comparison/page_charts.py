"""Curves and the map of distances of the page, as SVG without a script."""

from __future__ import annotations

import base64
import re
from html import escape

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.conversion.image_grid import encode_png
from mindsummary_lightning.porting.comparison.distances import Floats

_WIDTH, _CURVE, _MARGIN = 900, 220, 72
_MAX_POINTS, _MAX_COLUMNS, _MAX_ROWS = 900, 400, 400
_MAP_MARGIN = 250
_ROW = 14  # pixels
_LONGEST_NAME = 38
_DECADES = 7  # of distances in the map, the last of them 1
_GREY = 128
# From "the same" to "entirely different", readable in light and dark and by the colour-blind.
_COLOURS = np.array(
    [[49, 92, 140], [86, 150, 160], [170, 190, 130], [238, 190, 80], [230, 130, 50], [120, 60, 130]]
)
_COLOUR_TEXTS = ("1e-7", "2e-6", "4e-5", "6e-4", "1e-2", "1")
_NON_FINITE = np.array([190, 30, 45])  # red is for nothing else


def loss_curves(title: str, steps: NDArray[np.int64], losses: Floats, unit: str) -> str:
    """Draw the losses of both runs, shape ``(2, steps)``; ``title`` names the chart."""
    finite = losses[np.isfinite(losses)]
    low, high = 0.0, 1.0
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
    high = high if high > low else low + 1.0
    heights_a, heights_b = (losses - low) / (high - low)
    lines = _line(steps, heights_a, "a") + _line(steps, heights_b, "b")
    return _chart(title, steps, lines, f"{high:.4g}", f"{low:.4g}", unit)


def distance_curve(
    legend: str, steps: NDArray[np.int64], distances: Floats, tolerance: float, unit: str
) -> str:
    """Draw distances on a logarithmic scale, and the tolerance as a dashed line."""
    limit = _CURVE * (1 - float(_heights(np.array(tolerance))))
    lines = f'<line class="limit" x1="{_MARGIN}" x2="{_WIDTH}" y1="{limit:.1f}" y2="{limit:.1f}"/>'
    lines += _line(steps, _heights(distances), "d")
    chart = _chart(legend, steps, lines, "1", f"1e-{_DECADES}", unit)
    return f'<p class="small"><span class="key kd">{legend}</span></p>{chart}'


def _chart(
    title: str, steps: NDArray[np.int64], lines: str, top: str, bottom: str, unit: str
) -> str:
    return (
        f'<div class="scroll" tabindex="0"><svg viewBox="0 0 {_WIDTH} {_CURVE + 20}" role="img" '
        f'aria-label="{_attribute(title)}">'
        f'<rect class="axis" x="{_MARGIN}" y="0" width="{_WIDTH - _MARGIN}" height="{_CURVE}" '
        'fill="none"/>'
        f'<text x="{_MARGIN - 4}" y="10" text-anchor="end">{top}</text>'
        f'<text x="{_MARGIN - 4}" y="{_CURVE}" text-anchor="end">{bottom}</text>'
        f"{lines}{_step_axis(steps, _CURVE + 14, unit, _MARGIN)}</svg></div>"
    )


def _step_axis(steps: NDArray[np.int64], y: float, unit: str, left: float) -> str:
    first, last = int(steps[0]), int(steps[-1])
    texts = f'<text x="{left}" y="{y}">{unit} {first}</text>'
    return texts + f'<text x="{_WIDTH}" y="{y}" text-anchor="end">{last}</text>'


def _heights(distances: Floats) -> Floats:
    """Return distances as heights between 0 and 1, by their logarithm."""
    with np.errstate(divide="ignore"):
        return np.clip(np.log10(distances) / _DECADES + 1, 0, 1)


def _starts(size: int, most: int) -> NDArray[np.int64]:
    """Return the starts of at most ``most`` stretches that are drawn together."""
    count = min(size, most)
    return np.arange(count) * size // count


def _line(steps: NDArray[np.int64], heights: Floats, name: str) -> str:
    """Draw a curve of heights between 0 and 1, with the largest of a stretch."""
    starts, first, last = _starts(steps.size, _MAX_POINTS), int(steps[0]), int(steps[-1])
    tops = np.fmax.reduceat(np.where(np.isfinite(heights), heights, np.nan), starts)
    points = []
    for step, height in zip(steps[starts].tolist(), tops.tolist(), strict=True):
        if not np.isnan(height):
            x = _MARGIN + (_WIDTH - _MARGIN) * (step - first) / max(1, last - first)
            points.append((x, _CURVE * (1 - height)))
    if len(points) == 1:  # a line of one point is not seen
        (x, y) = points[0]
        points = [(x - 4, y), (x + 4, y)]
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="{name}" points="{drawn}"/>'


def _attribute(title: str) -> str:
    """The text of a title that may hold tags."""
    return escape(re.sub("<[^>]*>", "", title), quote=True)


def distance_map(
    title: str,
    names: list[str],
    steps: NDArray[np.int64],
    distances: Floats,
    first_step: int | None,
    unit: str,
) -> str:
    """Draw a row per tensor and a column per step, coloured by the largest distance."""
    rows = _starts(len(distances), _MAX_ROWS)
    largest = np.fmax.reduceat(distances, rows)
    largest = np.fmax.reduceat(largest, _starts(steps.size, _MAX_COLUMNS), axis=1)
    height = _ROW * len(rows)
    mark = ""
    if first_step is not None:
        share = int(np.searchsorted(steps, first_step)) / steps.size
        x = _MAP_MARGIN + (_WIDTH - _MAP_MARGIN) * share
        mark = f'<line class="d" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>'
    return (
        f'<p class="small">{_colour_key()}</p>'
        f'<div class="scroll" tabindex="0"><svg viewBox="0 0 {_WIDTH} {height + 20}" role="img" '
        f'aria-label="{_attribute(title)}">'
        f'<image x="{_MAP_MARGIN}" y="0" width="{_WIDTH - _MAP_MARGIN}" height="{height}" '
        'preserveAspectRatio="none" style="image-rendering:pixelated" '
        f'href="data:image/png;base64,{_picture(largest)}"/>'
        f"{_row_labels(names, rows)}{mark}"
        f"{_step_axis(steps, height + 14, unit, _MAP_MARGIN)}</svg></div>"
    )


def _picture(distances: Floats) -> str:
    places = np.nan_to_num(_heights(distances) * (len(_COLOURS) - 1)).round().astype(int)
    colours = _COLOURS[places]
    colours[np.isinf(distances)] = _NON_FINITE
    colours[np.isnan(distances)] = _GREY
    return base64.b64encode(encode_png(colours.astype(np.uint8))).decode()


def _row_labels(names: list[str], rows: NDArray[np.int64]) -> str:
    more = np.diff([*rows, len(names)]) - 1
    labels = ""
    for index in range(0, len(rows), 1 if len(rows) <= 100 else 4):
        name = names[rows[index]] + (f" +{more[index]}" if more[index] else "")
        if len(name) > _LONGEST_NAME:
            name = f"…{name[1 - _LONGEST_NAME :]}"
        y = _ROW * index + 11
        labels += f'<text x="{_MAP_MARGIN - 6}" y="{y}" text-anchor="end">{escape(name)}</text>'
    return labels


def _colour_key() -> str:
    chips = []
    colours, texts = [*_COLOURS.tolist(), _NON_FINITE.tolist()], [*_COLOUR_TEXTS, "inf"]
    for colour, text in zip(colours, texts, strict=True):
        style = f"background:rgb{tuple(colour)}"
        chips.append(f'<span class="chip" style="{style}"></span>{text}')
    return " ".join(chips)
