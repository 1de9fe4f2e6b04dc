"""Conversion of users' images to an image value: arrays in any layout, Pillow images, files, Matplotlib figures.

The rule is meant for eyes, not for parity; ``image_batches`` has that of MindSpore's recorder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import ImageOps, UnidentifiedImageError

from mindsummary_lightning.conversion.arrays import to_array
from mindsummary_lightning.conversion.image_grid import grid_image
from mindsummary_lightning.values import Image

_CHANNELS = (1, 3, 4)
_LARGEST = 1e300  # infinities become this large, so that differences stay finite
_TO_NCHW = {
    "HW": lambda array: array[None, None],
    "HWC": lambda array: array.transpose(2, 0, 1)[None],
    "CHW": lambda array: array[None],
    "NHWC": lambda array: array.transpose(0, 3, 1, 2),
    "NCHW": lambda array: array,
}


def check_dataformats(dataformats: str | None) -> None:
    """Raise ValueError for a layout that is neither ``None`` nor one of HW, HWC, CHW, NHWC and NCHW."""
    if dataformats is not None and str(dataformats).upper() not in _TO_NCHW:
        raise ValueError(f"dataformats must be one of {', '.join(_TO_NCHW)}, not {dataformats!r}")


def to_image(image: Any, dataformats: str | None = None) -> Image:
    """One image, or a grid of several with eight per row, as an image value.

    Levels of numbers: uint8 is kept, and so are other integers if all lie in 0..255; a bool is black or white;
    floats in [0, 1] are multiplied by 255 and rounded. Numbers beyond these ranges are rescaled over the array,
    its smallest black and its largest white (alpha is clipped to its range instead). NaN is black; infinities are the
    smallest and largest other pixel. Transparent pixels are blended with white.

    Args:
        image: an array, tensor or nested list; a Pillow image; the path of an image file (rotated as its metadata
            demands); or a matplotlib figure.
        dataformats: layout of an array: ``"HW"``, ``"HWC"``, ``"CHW"``, ``"NHWC"`` or ``"NCHW"``, with 1 (grey), 3
            (RGB) or 4 (RGBA) channels. ``None`` infers it if the shape is unambiguous.

    Returns:
        An RGB image in PNG.

    Raises:
        TypeError: ``image`` is not one of these.
        ValueError: the layout is ambiguous or does not fit, the image is empty, or the file is not an image.
        FileNotFoundError: the file does not exist.

    >>> to_image(np.zeros((3, 20, 30), np.uint8)).width
    30
    """
    if isinstance(image, (str, os.PathLike)):
        return _from_file(Path(image))
    if isinstance(image, PillowImage.Image):
        return _from_pillow(image)
    if hasattr(image, "savefig"):
        return figure_to_image(image)
    array = to_array(image)
    batch = _TO_NCHW[_layout(array, dataformats)](array)
    if batch.shape[1] not in _CHANNELS or not batch.size:
        raise ValueError(f"{_found(array, dataformats)}: an image needs 1, 3 or 4 channels and at least one pixel")
    return _encoded(_levels(batch))


def figure_to_image(figure: Any) -> Image:
    """A Matplotlib figure, drawn in its own size; it stays open and keeps its canvas. Others raise TypeError."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise TypeError(f"expected a matplotlib figure, found a {type(figure).__name__}; no matplotlib here") from error
    if not isinstance(figure, Figure):
        raise TypeError(f"expected a matplotlib.figure.Figure, found a {type(figure).__name__}")
    before = figure.canvas
    try:
        canvas: Any = FigureCanvasAgg(figure)  # attaches itself to the figure; its methods are not annotated
        canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba())
    finally:
        figure.set_canvas(before)
    return _encoded(pixels.transpose(2, 0, 1)[None])


def _from_file(path: Path) -> Image:
    try:
        with PillowImage.open(path) as image:
            return _from_pillow(ImageOps.exif_transpose(image))
    except UnidentifiedImageError as error:
        raise ValueError(f"{path} is not an image that Pillow can read") from error


def _from_pillow(image: PillowImage.Image) -> Image:
    if image.mode in ("F", "I") or image.mode.startswith("I;"):  # more than 8 bits: the rule for numbers applies
        return to_image(np.asarray(image), "HW")
    transparent = "A" in image.getbands() or "transparency" in image.info
    return to_image(np.asarray(image.convert("RGBA" if transparent else "RGB")), "HWC")


def _layout(array: NDArray[Any], dataformats: str | None) -> str:
    if dataformats is not None:
        layout = dataformats.upper()
        if len(layout) != array.ndim or layout not in _TO_NCHW:
            raise ValueError(f"{_found(array, dataformats)}: use one of {', '.join(_TO_NCHW)} that fits the shape")
        return layout
    if array.ndim == 2:
        return "HW"
    if array.ndim in (3, 4):
        first, last = array.shape[-3] in _CHANNELS, array.shape[-1] in _CHANNELS
        if first != last:
            return ("N" if array.ndim == 4 else "") + ("CHW" if first else "HWC")
    raise ValueError(
        f"{_found(array, None)}, whose layout is ambiguous: pass dataformats, one of {', '.join(_TO_NCHW)}"
    )


def _found(array: NDArray[Any], dataformats: str | None) -> str:
    return f"an image of shape {array.shape} and dtype {array.dtype}" + (
        f" with dataformats {dataformats!r}" if dataformats is not None else ""
    )


def _encoded(batch: NDArray[np.uint8]) -> Image:
    if batch.shape[1] == 4:
        batch = _on_white(batch)
    return grid_image(batch, batch.shape)


def _on_white(batch: NDArray[np.uint8]) -> NDArray[np.uint8]:
    colours, alpha = batch[:, :3].astype(np.uint32), batch[:, 3:].astype(np.uint32)
    return ((colours * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)


def _levels(batch: NDArray[Any]) -> NDArray[np.uint8]:
    """Levels 0..255 of numbers in the layout NCHW."""
    if batch.dtype == np.uint8:
        return batch
    if batch.dtype == np.bool_:
        black_or_white: NDArray[np.uint8] = np.where(batch, np.uint8(255), np.uint8(0))
        return black_or_white
    white = 255.0 if batch.dtype.kind in "iu" else 1.0
    numbers = np.clip(batch.astype(np.float64), -_LARGEST, _LARGEST)
    colours = numbers[:, :3]
    finite = colours[np.abs(colours) < _LARGEST]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, white)
    if (low >= 0 and high <= white) or low == high:
        low, high = 0.0, white
    colours -= low
    colours *= 255 / (high - low)
    numbers[:, 3:] *= 255 / white
    levels: NDArray[np.uint8] = (np.nan_to_num(numbers, nan=0.0).clip(0, 255) + 0.5).astype(np.uint8)
    return levels
