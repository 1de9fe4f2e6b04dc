"""Charts of a comparison page, curves and a map of distances, as plain SVG."""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.conversion.image_grid import encode_png
from mindsummary_lightning.porting.comparison.distances import Floats

_WIDTH, _CURVE, _MARGIN = 900, 220, 72
_MAX_POINTS, _MAX_COLUMNS, _MAX_ROWS = 900, 400, 400
_MAP_MARGIN = 250
_ROW = 14  # pixels
_DASH = 12  # half of the width of a curve with one point
_MAX_NAMED = 100  # rows that all have their name beside them
_MAX_HOVERED = 200  # stretches of a curve that show their values
_MAX_CELLS = 2000  # of the map that show their values: about 200 kB of a page
_NEWLINE = "&#10;"  # in the text that is shown at the pointer
_DECADES = 7  # of distances in the map, the last of them 1
_GREY = 128
# From "the same" to "entirely different", readable in light and dark and by the colour-blind.
_COLOURS = np.array(
    [[49, 92, 140], [86, 150, 160], [170, 190, 130], [238, 190, 80], [230, 130, 50], [120, 60, 130]]
)
_COLOUR_TEXTS = ("1e-7", "2e-6", "4e-5", "6e-4", "1e-2", "1")
_NON_FINITE = np.array([190, 30, 45])  # red is for nothing else


@dataclass(frozen=True, slots=True)
class StepAxis:
    """The axis below a chart, which shows the steps.

    Attributes:
        steps: int64, shape ``(s,)``.
        unit: what is counted, in the language of the page.
    """

    steps: NDArray[np.int64]
    unit: str

    def html(self) -> str:
        """Draw the axis, labelled with the first and the last step."""
        first, last = int(self.steps[0]), int(self.steps[-1])
        return f'<div class="steps"><span>{self.unit} {first}</span><span>{last}</span></div>'

    def stretch_text(self, start: int, stop: int) -> str:
        """Name the steps at indices ``start`` to ``stop - 1``, such as ``step 7-9``."""
        first, last = int(self.steps[start]), int(self.steps[stop - 1])
        return f"{self.unit} {first}" + ("" if first == last else f"\u2013{last}")


def loss_curves(title: str, names: tuple[str, str], losses: Floats, axis: StepAxis) -> str:
    """Draw the losses of both runs, shape ``(2, steps)``; ``title`` names the chart.

    ``names`` are the escaped names of the runs.
    """
    finite = losses[np.isfinite(losses)]
    low, high = 0.0, 1.0
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
    high = high if high > low else low + 1.0
    heights_a, heights_b = (losses - low) / (high - low)
    lines = _line(axis.steps, heights_a, "a") + _line(axis.steps, heights_b, "b")
    marks = _lost_mark(axis.steps, heights_a, "a") + _lost_mark(axis.steps, heights_b, "b")
    lines += _hover(dict(zip(names, losses, strict=True)), axis, "{:.6g}")
    return _chart(title, axis, lines, (f"{high:.4g}", f"{low:.4g}"), marks)


def distance_curve(legend: str, distances: Floats, tolerance: float, axis: StepAxis) -> str:
    """Draw distances on a logarithmic scale, and the tolerance as a dashed line."""
    limit = _CURVE * (1 - float(_heights(np.array(tolerance))))
    lines = f'<line class="limit" x1="{_MARGIN}" x2="{_WIDTH}" y1="{limit:.1f}" y2="{limit:.1f}"/>'
    lines += _line(axis.steps, _heights(distances), "d")
    lines += _hover({"": distances}, axis, "{:.1e}")
    chart = _chart(legend, axis, lines, ("1", f"1e-{_DECADES}"))
    return f'<p class="small"><span class="key kd">{legend}</span></p>{chart}'


def _chart(title: str, axis: StepAxis, lines: str, ends: tuple[str, str], marks: str = "") -> str:
    """Draw a chart that is as wide as the page; its numbers keep their size."""
    return (
        f'<div class="chart"><div class="ends"><span>{ends[0]}</span><span>{ends[1]}</span></div>'
        f'<div class="drawn"><svg viewBox="{_MARGIN} 0 {_WIDTH - _MARGIN} {_CURVE}" '
        f'preserveAspectRatio="none" role="img" aria-label="{_attribute(title)}">'
        f'<rect class="axis" x="{_MARGIN}" y="0" width="{_WIDTH - _MARGIN}" height="{_CURVE}"/>'
        f"{lines}</svg>{marks}</div>{axis.html()}</div>"
    )


def _stops(starts: NDArray[np.int64], size: int) -> list[int]:
    """Return the end of every stretch, from the stretches' starts."""
    return [*starts[1:].tolist(), size]


def _hover(curves: Mapping[str, Floats], axis: StepAxis, form: str) -> str:
    """Draw areas that show the values of their steps while the pointer is over them.

    Of a stretch of steps they show the largest value.
    """
    size = axis.steps.size
    starts = _starts(size, _MAX_HOVERED)
    areas = ""
    edges = _edges(axis.steps[starts], int(axis.steps[0]), int(axis.steps[-1]))
    for number, stop in enumerate(_stops(starts, size)):
        start = int(starts[number])
        texts = [axis.stretch_text(start, stop)]
        for name, values in curves.items():
            texts.append(f"{name}: " * bool(name) + _largest_text(values[start:stop], form))
        left, right = edges[number], edges[number + 1]
        areas += (
            f'<rect x="{left:.1f}" y="0" width="{right - left:.1f}" height="{_CURVE}">'
            f"<title>{_NEWLINE.join(texts)}</title></rect>"
        )
    return f'<g class="hover">{areas}</g>'


def _edges(firsts: NDArray[np.int64], low: int, high: int) -> list[float]:
    """Return the x coordinates halfway between steps, and at both chart borders."""
    places = [_place(step, low, high) for step in firsts.tolist()]
    middles = [(left + right) / 2 for left, right in itertools.pairwise(places)]
    return [_MARGIN, *middles, _WIDTH]


def _largest_text(values: Floats, form: str) -> str:
    """Write a value, or an upper bound of several values; a dash for missing values."""
    known = values[~np.isnan(values)]
    if not known.size:
        return "\u2013" if values.size > 1 else "NaN"
    return "\u2264 " * (values.size > 1) + form.format(float(known.max()))


def _lost_mark(steps: NDArray[np.int64], heights: Floats, name: str) -> str:
    """Draw a cross where a curve stops being finite, over the chart."""
    lost = np.flatnonzero(~np.isfinite(heights))
    if not lost.size:
        return ""
    at = int(lost[0])
    before = heights[max(0, at - 1)]
    height = float(before) if np.isfinite(before) else 0.5
    x = _place(int(steps[at]), int(steps[0]), int(steps[-1]))
    return _cross((x - _MARGIN) / (_WIDTH - _MARGIN), 1 - height, name)


def _cross(right: float, down: float, name: str) -> str:
    """Draw a cross at a place, given as fractions of a chart's width and height."""
    place = f"left:{100 * right:.2f}%;top:{100 * down:.2f}%"
    return f'<span class="lost {name}" style="{place}" aria-hidden="true">\u00d7</span>'


def _heights(distances: Floats) -> Floats:
    """Return distances as heights between 0 and 1, by their logarithm."""
    with np.errstate(divide="ignore"):
        return np.clip(np.log10(distances) / _DECADES + 1, 0, 1)


def _starts(size: int, most: int) -> NDArray[np.int64]:
    """Cut ``size`` steps into at most ``most`` stretches, and return their starts."""
    count = min(size, most)
    return np.arange(count) * size // count


def _line(steps: NDArray[np.int64], heights: Floats, name: str) -> str:
    """Draw a curve of heights between 0 and 1, a point per stretch of steps."""
    starts, first, last = _starts(steps.size, _MAX_POINTS), int(steps[0]), int(steps[-1])
    tops = np.fmax.reduceat(np.where(np.isfinite(heights), heights, np.nan), starts)
    points = []
    for step, height in zip(steps[starts].tolist(), tops.tolist(), strict=True):
        if not np.isnan(height):
            points.append((_place(step, first, last), _CURVE * (1 - height)))
    if len(points) == 1:  # a line of one point is not seen
        (x, y) = points[0]
        points = [(x - _DASH, y), (x + _DASH, y)]
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="{name}" points="{drawn}"/>'


def _place(step: int, first: int, last: int) -> float:
    """Return the x coordinate of a step; a single step is in the middle."""
    share = (step - first) / (last - first) if last > first else 0.5
    return _MARGIN + (_WIDTH - _MARGIN) * share


def _attribute(title: str) -> str:
    """Return a title as attribute text, without its HTML tags."""
    return escape(re.sub("<[^>]*>", "", title), quote=True)


def distance_map(
    title: str, names: list[str], distances: Floats, first_step: int | None, axis: StepAxis
) -> str:
    """Draw a map of distances: a row per tensor, a column per step."""
    steps = axis.steps
    rows = _starts(len(distances), _MAX_ROWS)
    by_row = np.fmax.reduceat(distances, rows)
    largest = np.fmax.reduceat(by_row, _starts(steps.size, _MAX_COLUMNS), axis=1)
    height = _ROW * len(rows)
    mark = ""
    if first_step is not None:
        share = int(np.searchsorted(steps, first_step)) / steps.size
        x = _MAP_MARGIN + (_WIDTH - _MAP_MARGIN) * share
        mark = f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>'
    labels = _row_labels(names, rows)
    return (
        f'<p class="small">{_colour_key()}</p>'
        f'<div class="chart map"><div class="names">{_drawn_labels(labels)}</div>'
        f'<div class="drawn"><svg viewBox="{_MAP_MARGIN} 0 {_WIDTH - _MAP_MARGIN} {height}" '
        f'preserveAspectRatio="none" style="height:{height}px" role="img" '
        f'aria-label="{_attribute(title)}">'
        f'<image x="{_MAP_MARGIN}" y="0" width="{_WIDTH - _MAP_MARGIN}" height="{height}" '
        'preserveAspectRatio="none" style="image-rendering:pixelated" '
        f'href="data:image/png;base64,{_picture(largest)}"/>'
        f"{mark}{_hovered_cells(labels, by_row, axis)}</svg>"
        f"{_lost_marks(largest)}</div>{axis.html()}</div>"
    )


def _lost_marks(distances: Floats) -> str:
    """Draw a cross in every row where its values stop being finite.

    A reader who sees no colours finds the place by the cross.
    """
    crosses = ""
    rows, columns = distances.shape
    for row, lost in enumerate(np.isinf(distances)):
        if lost.any():
            crosses += _cross(int(lost.argmax()) / columns, (row + 0.5) / rows, "in")
    return crosses


def _hovered_cells(labels: list[str], distances: Floats, axis: StepAxis) -> str:
    """Draw areas that name tensor, step and distance while the pointer is over them."""
    size = axis.steps.size
    starts = _starts(size, max(1, _MAX_CELLS // len(labels)))
    width = (_WIDTH - _MAP_MARGIN) / size
    cells = ""
    for start, stop in zip(starts.tolist(), _stops(starts, size), strict=True):
        left, steps = _MAP_MARGIN + width * start, axis.stretch_text(start, stop)
        for row, label in enumerate(labels):
            text = _largest_text(distances[row, start:stop], "{:.1e}")
            cells += (
                f'<rect x="{left:.1f}" y="{_ROW * row}" width="{width * (stop - start):.1f}" '
                f'height="{_ROW}"><title>{escape(label)}{_NEWLINE}{steps}: {text}</title></rect>'
            )
    return f'<g class="hover">{cells}</g>'


def _picture(distances: Floats) -> str:
    places = np.nan_to_num(_heights(distances) * (len(_COLOURS) - 1)).round().astype(int)
    colours = _COLOURS[places]
    colours[np.isinf(distances)] = _NON_FINITE
    colours[np.isnan(distances)] = _GREY
    return base64.b64encode(encode_png(colours.astype(np.uint8))).decode()


def _row_labels(names: list[str], rows: NDArray[np.int64]) -> list[str]:
    """Name the drawn rows by their tensors.

    A row of several tensors has the first name, and the number of the remaining names.
    """
    more = np.diff([*rows, len(names)]) - 1
    labels = []
    for row, others in zip(rows, more, strict=True):
        labels.append(names[row] + (f" +{others}" if others else ""))
    return labels


def _drawn_labels(labels: list[str]) -> str:
    """Draw the names next to the rows, or every fourth name if there are many rows."""
    every = 1 if len(labels) <= _MAX_NAMED else 4
    drawn = ""
    for label in labels[::every]:
        text = escape(label)
        drawn += f'<div style="height:{_ROW * every}px" title="{text}"><bdi>{text}</bdi></div>'
    return drawn


def _colour_key() -> str:
    chips = []
    colours, texts = [*_COLOURS.tolist(), _NON_FINITE.tolist()], [*_COLOUR_TEXTS, "\u00d7 inf"]
    for colour, text in zip(colours, texts, strict=True):
        style = f"background:rgb{tuple(colour)}"
        chips.append(
            f'<span class="nowrap"><span class="chip" style="{style}"></span>{text}</span>'
        )
    return " ".join(chips)
