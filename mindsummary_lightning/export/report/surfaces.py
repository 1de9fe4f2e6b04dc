"""Loss landscapes as pictures: bands of equal loss, and the path of training over them."""

from __future__ import annotations

import base64
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.reading.results import RecordedLandscape

__all__ = ["picture_uri", "surface_chart"]

_SIDE = 320
_BANDS = 18
# From a dark blue valley to a pale ridge; even steps of lightness, so that it reads in grey too.
_COLOURS = np.array([(28, 33, 89), (33, 102, 140), (53, 162, 144), (143, 207, 114), (250, 240, 170)], np.float64)


def surface_chart(landscape: RecordedLandscape) -> str:
    """An SVG picture of a landscape with its path and the point of convergence."""
    uri = picture_uri(_pixels(landscape.z))
    parts = [
        f'<svg class="surface" viewBox="0 0 {_SIDE} {_SIDE}" role="img">',
        f'<image href="{uri}" width="{_SIDE}" height="{_SIDE}" preserveAspectRatio="none"/>',
    ]
    if landscape.path is not None:
        points = [
            (_place(landscape.x, x), _SIDE - _place(landscape.y, y))
            for x, y in zip(landscape.path.x.tolist(), landscape.path.y.tolist(), strict=True)
        ]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="white" stroke-width="2"/>')
        for (x, y), number, loss in zip(points, landscape.intervals, landscape.path.z.tolist(), strict=True):
            title = f"<title>{landscape.metadata.unit} {number}: loss {loss:.6g}</title>"
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="#d55e00" stroke="white">{title}</circle>')
    if landscape.convergence_point is not None:
        x, y, loss = landscape.convergence_point
        place = f'x="{_place(landscape.x, x):.1f}" y="{_SIDE - _place(landscape.y, y) + 6:.1f}"'
        parts.append(f'<text class="star" {place} text-anchor="middle">★<title>loss {loss:.6g}</title></text>')
    return "".join([*parts, "</svg>"])


def picture_uri(pixels: NDArray[np.uint8]) -> str:
    """Pixels of shape ``(H, W, 3)`` as a PNG in a ``data:`` address."""
    import PIL.Image

    file = BytesIO()
    PIL.Image.fromarray(pixels).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _pixels(z: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The surface at the picture's size, row 0 the largest y, every value drawn in towards one of the bands."""
    import PIL.Image

    finite = z[np.isfinite(z)]
    whole = np.nan_to_num(z, nan=float(finite.max()) if finite.size else 0.0).astype(np.float32)
    # By rank and not by value: a loss surface is a flat valley between walls a thousand times as high.
    smooth = np.asarray(PIL.Image.fromarray(whole).resize((_SIDE, _SIDE), PIL.Image.Resampling.BICUBIC))
    levels = np.quantile(smooth, np.linspace(0, 1, _BANDS + 1)[1:-1])
    share = np.searchsorted(levels, smooth) / (_BANDS - 1)
    stops = np.linspace(0, 1, len(_COLOURS))
    channels = [np.interp(share, stops, _COLOURS[:, channel]) for channel in range(3)]
    upright = np.stack(channels, axis=-1)[::-1]
    return np.ascontiguousarray(upright, np.uint8)


def _place(axis: NDArray[np.float32], number: float) -> float:
    low, high = float(axis.min()), float(axis.max())
    return (number - low) / (high - low) * _SIDE if high > low else _SIDE / 2
