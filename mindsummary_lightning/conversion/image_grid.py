"""Grid of images on one canvas, eight per row, as MindSpore arranges a batch."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["has_gaps", "tile"]

_IMAGES_PER_ROW = 8


def has_gaps(count: int) -> bool:
    """Whether the last row of a grid of ``count`` images is not full."""
    return count > _IMAGES_PER_ROW and count % _IMAGES_PER_ROW != 0


def tile(images: Iterable[NDArray[np.uint8]], shape: tuple[int, int, int, int], filling: int = 0) -> NDArray[np.uint8]:
    """The canvas with all images on it.

    Args:
        images: uint8, each of shape ``(channels, height, width)``, 1 or 3 channels; one channel is grey.
        shape: ``(number of images, channels, height, width)``, none of them 0.
        filling: level, 0 to 255, of the empty cells.

    Returns:
        RGB pixels, uint8, shape ``(rows * height, columns * width, 3)``.
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
    return canvas
