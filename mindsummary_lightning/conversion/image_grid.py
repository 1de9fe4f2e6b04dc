"""Grid of images as one PNG, eight per row, as MindSpore arranges a batch."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.conversion.png import encode_png
from mindsummary_lightning.values import Image

_IMAGES_PER_ROW = 8


def has_gaps(count: int) -> bool:
    """Whether the last row of a grid of ``count`` images is not full."""
    return count > _IMAGES_PER_ROW and count % _IMAGES_PER_ROW != 0


def grid_image(images: Iterable[NDArray[np.uint8]], shape: tuple[int, int, int, int], filling: int = 0) -> Image:
    """One RGB image of shape ``(rows * height, columns * width)`` with all images on it.

    Args:
        images: uint8, each of shape ``(channels, height, width)``, 1 or 3 channels; one channel is grey.
        shape: ``(number of images, channels, height, width)``, none of them 0.
        filling: level, 0 to 255, of the empty cells.
    """
    count, _, height, width = shape
    columns = min(count, _IMAGES_PER_ROW)
    rows = -(-count // columns)
    canvas = np.full((rows * height, columns * width, 3), filling, np.uint8)
    for index, image in enumerate(images):
        row, column = divmod(index, columns)
        cell = canvas[row * height : (row + 1) * height, column * width : (column + 1) * width]
        for channel in range(3):  # plane by plane: three times as fast as one transposed copy
            cell[..., channel] = image[channel if len(image) == 3 else 0]
    return Image(height=canvas.shape[0], width=canvas.shape[1], encoded=encode_png(canvas), colorspace=3)
