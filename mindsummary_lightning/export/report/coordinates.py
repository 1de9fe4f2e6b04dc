"""Draw parallel coordinates as SVG: an axis per column, a line per run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from mindsummary_lightning.lineage.ranking import cell_text
from mindsummary_lightning.lineage.run_rows import RunRow
from mindsummary_lightning.lineage.table import Cell

_MAX_AXES = 10
_MAX_WORDS = 12  # different texts of an axis; of more, such as names, an axis says nothing
_WIDTH, _HEIGHT, _MARGIN, _HEAD, _FOOT = 1000, 260, 60, 24, 14  # pixels
_MAX_TEXT = 18  # characters
_LOG_SPAN = 50.0  # largest over smallest positive number, from which on an axis is logarithmic
# as report.js has them: they read on a light and on a dark page
_TEXT, _LINE = "#7d858f", "#7d858f66"
_BEST, _WORST = (213, 94, 0), (0, 114, 178)  # colours of lines, red, green and blue


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis of parallel coordinates, from 0 at the bottom to 1 at the top.

    Attributes:
        name: the column.
        places: position of a run's value on the axis, 0 to 1, by run; a run without a value is
            missing.
        ends: texts beside the axis, by position.
    """

    name: str
    places: dict[str, float]
    ends: dict[float, str]


def parallel_coordinates(
    rows: Sequence[RunRow], columns: Sequence[str], by: str, label: str
) -> str:
    """Draw the columns of runs as parallel coordinates; return SVG text.

    Without at least two columns in which runs differ, the text is empty.

    Args:
        rows: the runs, the best first; its line is drawn last, above the others.
        columns: columns of the table; the first columns that can be drawn as an axis are drawn.
        by: the column that runs are compared by; it is the last axis.
        label: name of the picture, for screen readers.
    """
    shown: list[_Axis] = []
    for name in columns:
        axis = _axis(rows, name) if name != by and ":" not in name else None
        if axis is not None:
            shown.append(axis)
    del shown[_MAX_AXES - 1 :]
    last = _axis(rows, by)
    if last is None or not shown:
        return ""
    shown.append(last)
    lines = [_line(row, shown, at / max(1, len(rows) - 1)) for at, row in enumerate(rows)]
    parts = [_axis_svg(axis, _x(at, len(shown))) for at, axis in enumerate(shown)]
    names = f'class="coordinates" role="img" aria-label="{escape(label)}"'
    head = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" {names}>'
    return "".join([head, *reversed(lines), *parts, "</svg>"])


def _axis(rows: Sequence[RunRow], name: str) -> _Axis | None:
    cells: dict[str, Cell] = {}
    finite: dict[str, float] = {}
    are_numbers = True
    for row in rows:
        cell = row.cells.get(name)
        if cell is None:
            continue
        cells[row.run] = cell
        if not isinstance(cell, (int, float)):
            are_numbers = False
        elif math.isfinite(float(cell)):
            finite[row.run] = float(cell)
    return _number_axis(name, finite) if are_numbers else _word_axis(name, cells)


def _number_axis(name: str, numbers: dict[str, float]) -> _Axis | None:
    if len(set(numbers.values())) < 2:
        return None
    low, high = min(numbers.values()), max(numbers.values())
    is_log = low > 0 and high / low >= _LOG_SPAN
    scale = math.log if is_log else float
    begin, end = scale(low), scale(high)
    places = {run: (scale(value) - begin) / (end - begin) for run, value in numbers.items()}
    low_text, high_text = _texts_of_ends(low, high)
    return _Axis(name, places, {0.0: low_text, 1.0: high_text})


def _texts_of_ends(low: float, high: float) -> tuple[str, str]:
    """Format two different numbers with enough digits that the texts differ."""
    low_text, high_text = cell_text(low), cell_text(high)
    if low_text == high_text:
        return f"{low:.17g}", f"{high:.17g}"
    return low_text, high_text


def _word_axis(name: str, cells: dict[str, Cell]) -> _Axis | None:
    words = sorted(set(map(cell_text, cells.values())))
    if not 2 <= len(words) <= _MAX_WORDS:
        return None
    place = {word: at / (len(words) - 1) for at, word in enumerate(words)}
    places = {run: place[cell_text(cell)] for run, cell in cells.items()}
    return _Axis(name, places, {at: word for word, at in place.items()})


def _x(at: int, count: int) -> float:
    return _MARGIN + at * (_WIDTH - 2 * _MARGIN) / (count - 1)


def _y(place: float) -> float:
    return _HEIGHT - _FOOT - place * (_HEIGHT - _FOOT - _HEAD - 10)


def _line(row: RunRow, axes: Sequence[_Axis], rank: float) -> str:
    points = []
    for at, axis in enumerate(axes):
        place = axis.places.get(row.run)
        if place is not None:
            points.append(f"{_x(at, len(axes)):.0f},{_y(place):.1f}")
    colour = "#"
    for best, worst in zip(_BEST, _WORST, strict=True):
        colour += f"{round(best + (worst - best) * rank):02x}"
    title = f"<title>{escape(row.run)}</title>"
    style = f'fill="none" stroke="{colour}" stroke-opacity="0.6"'
    return f'<polyline points="{" ".join(points)}" {style}>{title}</polyline>'


def _axis_svg(axis: _Axis, x: float) -> str:
    rule = f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{_y(0):.0f}" y2="{_y(1):.0f}" stroke="{_LINE}"/>'
    name = _text(axis.name, x, 12, 'text-anchor="middle" font-size="11"')
    parts = [rule, name]
    for place, text in axis.ends.items():
        parts.append(_text(text, x + 4, _y(place) + 4, 'font-size="10"'))
    return "".join(parts)


def _text(text: str, x: float, y: float, style: str) -> str:
    short = text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"
    return f'<text x="{x:.0f}" y="{y:.0f}" {style} fill="{_TEXT}">{escape(short)}</text>'
