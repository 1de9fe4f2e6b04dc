"""Convert a batch of images to a single image, as MindSpore's recorder does.

Only MindSpore's layout is accepted here; ``user_images`` accepts other layouts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.conversion.arrays import to_array
from mindsummary_lightning.conversion.image_grid import grid_image, has_gaps
from mindsummary_lightning.values import Image

_LARGEST = 1e38  # twice as much still fits a float32, so differences cannot overflow


def batch_to_image(value: Any) -> Image:
    """Draw a batch of images as a single RGB image, eight images per row.

    The shape of the batch is ``(images, channels, height, width)`` with 1 (grey) or 3 channels.
    Uint8 pixels are kept. Other pixels become ``v * 255`` if all lie in [0, 1]; else ``(v - min) *
    255 / (max - min + 1)`` over the batch, so a constant becomes 0. They are computed in float32
    and truncated to uint8, as in MindSpore 2.7.0. A last row that is not full is padded with zeros,
    which count in min and max. MindSpore's results for NaN and infinity are useless. Here, NaN is
    black, and infinities (any number beyond 1e38) become the smallest or largest finite pixel.

    Raises:
        ValueError: the batch has another shape, or a length of 0.
    """
    batch = to_array(value)
    if batch.ndim != 4 or batch.shape[1] not in (1, 3) or not batch.size:
        raise ValueError(
            "an image needs shape (images, channels, height, width) with 1 or 3 channels and no "
            f"length of 0, found {batch.shape} of dtype {batch.dtype}"
        )
    if batch.dtype == np.uint8:
        return grid_image(batch, batch.shape)
    return _rescaled_grid(batch)


def _rescaled_grid(batch: NDArray[Any]) -> Image:
    low, high = float(batch.min()), float(batch.max())
    if not (low >= -_LARGEST and high <= _LARGEST):  # NaN too
        batch, low, high = _presentable(batch)
    if has_gaps(len(batch)):
        low, high = min(low, 0.0), max(high, 0.0)
    if low >= 0 and high <= 1:
        shift, scale = np.float32(0), np.float32(255)
    else:
        shift, scale = np.float32(low), np.float32(255 / (high - low + 1) if low != high else 1)
    filling = int((np.float32(0) - shift) * scale) if has_gaps(len(batch)) else 0
    return grid_image(_rescaled(batch, shift, scale), batch.shape, filling)


def _rescaled(
    batch: NDArray[Any], shift: np.float32, scale: np.float32
) -> Iterator[NDArray[np.uint8]]:
    """Yield the images with rescaled pixels, in a buffer that the next image reuses."""
    levels = np.empty(batch.shape[1:], np.float32)
    pixels = np.empty(batch.shape[1:], np.uint8)
    for image in batch:
        np.copyto(levels, image, casting="unsafe")
        if shift:
            np.subtract(levels, shift, out=levels)
        np.multiply(levels, scale, out=levels)
        np.copyto(pixels, levels, casting="unsafe")
        yield pixels


def _presentable(batch: NDArray[Any]) -> tuple[NDArray[np.float64], float, float]:
    """Clip NaN and huge pixels of a batch; also return the range of its pixels."""
    batch = batch.astype(np.float64)
    with np.errstate(invalid="ignore"):
        usable = batch[np.abs(batch) <= _LARGEST]
    low, high = (float(usable.min()), float(usable.max())) if usable.size else (0.0, 0.0)
    in_range = np.clip(batch, low, high)
    in_range[np.isnan(batch)] = 0.0 if low >= 0 and high <= 1 else low
    return in_range, min(low, float(in_range.min())), high
