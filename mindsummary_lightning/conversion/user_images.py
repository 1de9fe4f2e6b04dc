"""Convert a user's images and figures to a recorded image.

They are arrays in any layout, Pillow images, files, or Matplotlib figures.

The colours are meant for people and may differ from MindSpore's recorder, whose rule is in
``image_batches``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import ImageDraw, ImageOps, UnidentifiedImageError

from mindsummary_lightning.conversion.arrays import to_array
from mindsummary_lightning.conversion.image_grid import grid_image
from mindsummary_lightning.values import Image

_CHANNELS = (1, 3, 4)
_BOX_COLOUR, _BOX_WIDTH = "red", 2
_LARGEST = 1e300  # infinities become this large, so that differences stay finite
_LAYOUTS = ("HW", "CHW", "NCHW")  # their letters in any order


def check_dataformats(dataformats: str | None) -> None:
    """Raise ValueError for an unknown layout of the axes of an image.

    A layout is ``None``, or the letters of HW, CHW or NCHW in any order.
    """
    letters = "".join(sorted(str(dataformats).upper(), key="NCHW".find))
    if dataformats is not None and letters not in _LAYOUTS:
        layouts = ", ".join(_LAYOUTS)
        raise ValueError(
            f"dataformats must be the letters of {layouts} in any order, not {dataformats!r}"
        )


def _to_nchw(array: NDArray[Any], layout: str) -> NDArray[Any]:
    array = array.transpose([layout.index(letter) for letter in "NCHW" if letter in layout])
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def to_image(image: Any, dataformats: str | None = None) -> Image:
    """Convert an image, or a batch of images as a grid, to a recorded image.

    The grid has eight images per row.

    Numbers become levels as follows: uint8 is kept, and so are other integers if all lie in 0..255;
    a bool is black or white; floats in [0, 1] are multiplied by 255 and rounded. Numbers beyond
    these ranges are rescaled over the array, so that its smallest number is black and its largest
    white (alpha is clipped to its range instead). NaN is black; infinities become the smallest and
    largest finite pixel. Transparent pixels are blended with white.

    Args:
        image: an array, tensor or nested list; a Pillow image; the path of an image file (rotated
            as its metadata demands); or a matplotlib figure.
        dataformats: layout of an array: the letters of ``"HW"``, ``"CHW"`` or ``"NCHW"`` in the
            order of its axes, with 1 (grey), 3 (RGB) or 4 (RGBA) channels. ``None`` infers it if
            the shape is unambiguous.

    Returns:
        An RGB image in PNG.

    Raises:
        TypeError: ``image`` is not one of these.
        ValueError: the layout is ambiguous or does not fit, the image is empty, or the file is not
            an image.
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
    return _encoded(_pixels(image, dataformats))


def boxes_to_image(
    image: Any, boxes: Any, dataformats: str, rescale: float = 1, labels: Any = None
) -> Image:
    """Draw red boxes on an image, as TensorBoard does.

    ``boxes`` has the shape ``(n, 4)``: left, top, right and bottom in pixels. ``labels`` are drawn
    if there is one text for every box. The size is multiplied by ``rescale``.

    Raises:
        TypeError: as in :func:`to_image`.
        ValueError: as in :func:`to_image`, or ``boxes`` have another shape.
    """
    batch = _on_white(_pixels(image, dataformats))
    corners = to_array(boxes).astype(np.float64)
    is_list_of_boxes = corners.ndim == 2 and corners.shape[1] == 4
    if len(batch) != 1 or not is_list_of_boxes:
        raise ValueError(
            "boxes must have the shape (n, 4) and belong to a single image, "
            f"got {corners.shape} and {len(batch)} images"
        )
    texts = [labels] if isinstance(labels, str) else list(labels or [])
    rgb = batch[0] if batch.shape[1] == 3 else np.repeat(batch[0], 3, axis=0)
    picture = PillowImage.fromarray(np.ascontiguousarray(rgb.transpose(1, 2, 0)))
    draw = ImageDraw.Draw(picture)
    for index, (left, top, right, bottom) in enumerate(corners.tolist()):
        outline = [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)]
        draw.line(outline, width=_BOX_WIDTH, fill=_BOX_COLOUR)
        if len(texts) == len(corners):
            draw.rectangle(
                draw.textbbox((left, bottom), str(texts[index]), anchor="ld"), fill=_BOX_COLOUR
            )
            draw.text((left, bottom), str(texts[index]), fill="black", anchor="ld")
    if rescale != 1:
        size = (max(1, int(picture.width * rescale)), max(1, int(picture.height * rescale)))
        picture = picture.resize(size, PillowImage.Resampling.LANCZOS)
    return _from_pillow(picture)


def _pixels(image: Any, dataformats: str | None) -> NDArray[np.uint8]:
    array = to_array(image)
    batch = _to_nchw(array, _layout(array, dataformats))
    if batch.shape[1] not in _CHANNELS or not batch.size:
        raise ValueError(
            f"{_found(array, dataformats)}: an image needs 1, 3 or 4 channels and "
            "at least one pixel"
        )
    return _levels(batch)


def figure_to_image(figure: Any) -> Image:
    """Convert a Matplotlib figure, or a list of figures, to a recorded image.

    The figures must have the same size, which is kept. A figure stays open and keeps its canvas.

    Raises:
        TypeError: an object is not a figure.
        ValueError: the figures have different sizes, or the list is empty.
    """
    figures = list(figure) if isinstance(figure, (list, tuple)) else [figure]
    pixels = [_drawn(one) for one in figures]
    if len({one.shape for one in pixels}) != 1:
        raise ValueError(
            f"the figures of an image must have the same size, got {[one.shape for one in pixels]}"
        )
    return _encoded(np.stack(pixels).transpose(0, 3, 1, 2))


def _drawn(figure: Any) -> NDArray[np.uint8]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise TypeError(
            f"expected a matplotlib figure, found a {type(figure).__name__}; matplotlib is not "
            "installed"
        ) from error
    if not isinstance(figure, Figure):
        raise TypeError(f"expected a matplotlib.figure.Figure, found a {type(figure).__name__}")
    before = figure.canvas
    try:
        # attaches itself to the figure; its methods are not annotated
        canvas: Any = FigureCanvasAgg(figure)
        canvas.draw()
        return np.array(canvas.buffer_rgba())
    finally:
        figure.set_canvas(before)


def _from_file(path: Path) -> Image:
    try:
        with PillowImage.open(path) as image:
            return _from_pillow(ImageOps.exif_transpose(image))
    except UnidentifiedImageError as error:
        raise ValueError(f"{path} is not an image that Pillow can read") from error


def _from_pillow(image: PillowImage.Image) -> Image:
    # more than 8 bits: the rule for numbers applies
    if image.mode in ("F", "I") or image.mode.startswith("I;"):
        return to_image(np.asarray(image), "HW")
    transparent = "A" in image.getbands() or "transparency" in image.info
    return to_image(np.asarray(image.convert("RGBA" if transparent else "RGB")), "HWC")


def _layout(array: NDArray[Any], dataformats: str | None) -> str:
    if dataformats is not None:
        layout = dataformats.upper()
        check_dataformats(layout)
        if len(layout) != array.ndim:
            raise ValueError(
                f"{_found(array, dataformats)}: dataformats needs a letter for each dimension"
            )
        return layout
    if array.ndim == 2:
        return "HW"
    if array.ndim in (3, 4):
        first, last = array.shape[-3] in _CHANNELS, array.shape[-1] in _CHANNELS
        if first != last:
            return ("N" if array.ndim == 4 else "") + ("CHW" if first else "HWC")
    raise ValueError(
        f"{_found(array, None)}, whose layout is ambiguous: pass dataformats, the letters of one "
        f"of {', '.join(_LAYOUTS)} in the order of its axes"
    )


def _found(array: NDArray[Any], dataformats: str | None) -> str:
    return f"an image of shape {array.shape} and dtype {array.dtype}" + (
        f" with dataformats {dataformats!r}" if dataformats is not None else ""
    )


def _encoded(batch: NDArray[np.uint8]) -> Image:
    batch = _on_white(batch)
    return grid_image(batch, batch.shape)


def _on_white(batch: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if batch.shape[1] != 4:
        return batch
    colours, alpha = batch[:, :3].astype(np.uint32), batch[:, 3:].astype(np.uint32)
    return ((colours * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)


def _levels(batch: NDArray[Any]) -> NDArray[np.uint8]:
    """Convert the numbers of an image batch (NCHW) to levels from 0 to 255."""
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
    levels: NDArray[np.uint8] = (np.nan_to_num(numbers, nan=0.0).clip(0, 255) + 0.5).astype(
        np.uint8
    )
    return levels
