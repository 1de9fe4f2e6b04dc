"""Draw a heat map with a row per parameter and a column per step.

Many parameters are merged to few rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.conversion.image_grid import encode_png
from mindsummary_lightning.values import Image

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw as Drawing

MAX_ROWS = 1000
_DECADES = 12  # of colours below the largest number; what is smaller has the last of them
_WIDTH, _HEIGHT = 720, 1200  # of the cells, in pixels, unless there are too few or too many
_FONT, _LINE, _MARGIN = 11, 14, 8
_LABEL = 44  # characters
_TICKS = 6
_VIRIDIS = (
    "440154",
    "482878",
    "3e4a89",
    "31688e",
    "26828e",
    "1f9e89",
    "35b779",
    "6ece58",
    "b5de2b",
    "fde725",
)
_SHADES = 256
_NOT_FINITE, _ZERO, _MISSING = (0xE3, 0x1A, 0x1C), (0, 0, 0), (0xD8, 0xD8, 0xD8)
_STRIPES = 4  # pixels from one white stripe of a cell that is not finite to the next
_PAPER, _INK = (255, 255, 255), (0x30, 0x30, 0x30)


def heat_map(
    title: str, names: Sequence[str], steps: Sequence[int], numbers: NDArray[Any]
) -> Image:
    """Draw an array of logarithms, shape ``(names, steps)``, as a heat map.

    It is red and striped for +inf, black for -inf and grey for NaN.

    If there are more than 1,000 names, a row stands for a layer and shows the layer's largest
    number.
    """
    from PIL import Image as Pillow
    from PIL import ImageDraw, ImageFont

    names, numbers = grouped(names, numbers, MAX_ROWS)
    low, high = shaded_range(numbers)
    rows, columns = numbers.shape
    height, width = max(1, min(_LINE, _HEIGHT // rows)), max(1, min(24, _WIDTH // columns))
    cells = colours_of(numbers, low, high).repeat(height, axis=0).repeat(width, axis=1)
    is_lost = np.isposinf(numbers).repeat(height, axis=0).repeat(width, axis=1)
    cells[is_lost & _stripes(cells.shape[0], cells.shape[1])] = _PAPER
    font = ImageFont.load_default(_FONT)
    every = 1 if height == _LINE else -(-2 * _LINE // height)  # drawing text takes most of the time
    labels = [(row, _label(names[row])) for row in range(0, rows, every)]
    left = _MARGIN + max(int(font.getlength(text)) for _, text in labels) + 6
    top = 2 * _LINE + _MARGIN
    size = (top + cells.shape[0] + 4 * _LINE, left + max(cells.shape[1], 460) + _MARGIN)
    canvas = np.full((*size, 3), _PAPER, np.uint8)
    canvas[top : top + cells.shape[0], left : left + cells.shape[1]] = cells
    picture = Pillow.fromarray(canvas)
    draw = ImageDraw.Draw(picture)
    draw.text((left, _MARGIN), title, _INK, font)
    anchor, offset = ("rm", height // 2) if every == 1 else ("ra", 0)
    for row, text in labels:
        draw.text((left - 4, top + row * height + offset), text, _INK, font, anchor=anchor)
    bottom = top + cells.shape[0]
    for at in np.unique(np.linspace(0, columns - 1, _TICKS).round().astype(int)).tolist():
        x = left + at * width + width // 2
        draw.line((x, bottom, x, bottom + 3), _INK)
        draw.text((x, bottom + 4), str(steps[at]), _INK, font, anchor="la" if at == 0 else "ma")
    _legend(draw, font, left, bottom + 2 * _LINE + 4, low, high)
    pixels = np.ascontiguousarray(picture)
    return Image(pixels.shape[0], pixels.shape[1], encode_png(pixels))


def _stripes(height: int, width: int) -> NDArray[np.bool_]:
    """Mark the pixels of slanted stripes, a sign that needs no colour."""
    down, right = np.ogrid[:height, :width]
    stripes: NDArray[np.bool_] = (down + right) % _STRIPES == 0
    return stripes


def grouped(
    names: Sequence[str], numbers: NDArray[Any], most: int
) -> tuple[list[str], NDArray[Any]]:
    """Merge the rows of a layer's parameters, so that at most ``most`` rows are left.

    The names become names of layers, or of neighbouring layers. A merged row has the largest number
    of its parameters, and NaN only if all numbers are NaN.
    """
    labels = list(names)
    if len(labels) <= most:
        return labels, numbers
    layers = [name.rpartition(".")[0] or name for name in names]
    starts = [0]
    for index, (before, layer) in enumerate(itertools.pairwise(layers), 1):
        if layer != before:
            starts.append(index)
    labels = [layers[start] for start in starts]
    if len(labels) > most:
        size = -(-len(labels) // most)
        groups = []
        for begin in range(0, len(labels), size):
            end = min(begin + size, len(labels)) - 1
            groups.append(f"{labels[begin]} to {labels[end]}")
        labels = groups
        starts = starts[::size]
    if len(starts) == len(names):
        return labels, numbers
    return labels, np.fmax.reduceat(numbers, starts, axis=0)


def shaded_range(numbers: NDArray[Any]) -> tuple[float, float]:
    """Return the numbers that a heat map's first and last colour represent."""
    finite = numbers[np.isfinite(numbers)]
    high = float(finite.max()) if finite.size else 0.0
    low = max(float(finite.min()), high - _DECADES) if finite.size else -1.0
    return min(low, high - 0.1), high


def colours_of(numbers: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    """Return the colours of numbers; the last dimension is red, green and blue."""
    anchors = np.array([tuple(bytes.fromhex(colour)) for colour in _VIRIDIS])
    places = np.linspace(0, len(anchors) - 1, _SHADES)
    shades = [np.interp(places, np.arange(len(anchors)), channel).round() for channel in anchors.T]
    special = [_NOT_FINITE, _ZERO, _MISSING]
    palette = np.concatenate([np.stack(shades, axis=-1), special]).astype(np.uint8)
    finite = np.nan_to_num(numbers, nan=low, posinf=high, neginf=low)
    shade = np.clip((finite - low) / (high - low), 0, 1) * (_SHADES - 1)
    index = shade.round().astype(np.intp)
    for at, mask in enumerate((np.isposinf(numbers), np.isneginf(numbers), np.isnan(numbers))):
        index[mask] = _SHADES + at
    colours: NDArray[np.uint8] = palette[index]
    return colours


def _legend(draw: Drawing, font: Any, left: int, top: int, low: float, high: float) -> None:
    shades = colours_of(np.linspace(low, high, 160)[None], low, high)[0]
    for at, colour in enumerate(shades.tolist()):
        draw.line((left + at, top, left + at, top + 9), tuple(colour))
    draw.text((left, top + 11), f"{low:.1f}", _INK, font)
    draw.text((left + 160, top + 11), f"{high:.1f}", _INK, font, anchor="ra")
    x = left + 180
    for text, colour in (("not finite", _NOT_FINITE), ("zero", _ZERO), ("no gradient", _MISSING)):
        draw.rectangle((x, top, x + 9, top + 9), colour)
        if colour == _NOT_FINITE:
            for down, right in np.argwhere(_stripes(10, 10)).tolist():
                draw.point((x + right, top + down), _PAPER)
        draw.text((x + 14, top + 5), text, _INK, font, anchor="lm")
        x += 30 + int(font.getlength(text))


def _label(name: str) -> str:
    clean = name.encode("ascii", "replace").decode()
    if len(clean) <= _LABEL:
        return clean
    return f"...{clean[3 - _LABEL :]}"
