"""``batch_to_image`` and the PNG encoder: MindSpore's pixels, computed again in the slow way."""

from __future__ import annotations

import io
import zlib
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from PIL import Image as PillowImage

from mindsummary_lightning.conversion.image_batches import batch_to_image
from mindsummary_lightning.conversion.image_grid import encode_png
from mindsummary_lightning.values import Image


def pixels_of(image: Image) -> NDArray[np.uint8]:
    picture = PillowImage.open(io.BytesIO(image.encoded))
    assert (picture.format, picture.mode, picture.size) == (
        "PNG",
        "RGB",
        (image.width, image.height),
    )
    assert image.colorspace == 3
    return np.asarray(picture)


def stated_pixels(batch: NDArray[Any]) -> NDArray[np.uint8]:
    """MindSpore's rule pixel by pixel: canvas in float64, levels in float32."""
    count, channels, height, width = batch.shape
    columns = min(count, 8)
    rows = (count + columns - 1) // columns
    canvas = np.zeros((rows * height, columns * width, 3))
    for n in range(count):
        for channel in range(3):
            for y in range(height):
                for x in range(width):
                    row, column = n // columns * height + y, n % columns * width + x
                    canvas[row, column, channel] = batch[n, channel if channels == 3 else 0, y, x]
    if batch.dtype == np.uint8:
        return canvas.astype(np.uint8)
    low, high = canvas.min(), canvas.max()
    if low >= 0 and high <= 1:
        shift, scale = np.float32(0), np.float32(255)
    elif low == high:
        shift, scale = np.float32(low), np.float32(1)
    else:
        shift, scale = np.float32(low), np.float32(255 / (high - low + 1))
    return ((canvas.astype(np.float32) - shift) * scale).astype(np.uint8)


@pytest.mark.parametrize(
    "dtype", [np.uint8, np.float32, np.float64, np.float16, np.int32, np.int64, np.bool_]
)
@pytest.mark.parametrize("count", [1, 3, 8, 9, 17])
@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_follow_the_rule(dtype: type, count: int, channels: int) -> None:
    noise = np.random.default_rng(count).standard_normal((count, channels, 4, 5)) * 90
    batch = noise.astype(np.int64).astype(np.uint8) if dtype is np.uint8 else noise.astype(dtype)

    np.testing.assert_array_equal(pixels_of(batch_to_image(batch)), stated_pixels(batch))


@pytest.mark.parametrize("shift", [-5.0, 0.0, 5.0])
@pytest.mark.parametrize("scale", [0.0, 0.3, 1.0, 255.0, 1e30])
@pytest.mark.parametrize("count", [2, 9, 16])
def test_any_range_of_floats_is_rescaled_by_the_rule(
    shift: float, scale: float, count: int
) -> None:
    batch = (np.random.default_rng(0).random((count, 3, 4, 5)) * scale + shift).astype(np.float32)

    np.testing.assert_array_equal(pixels_of(batch_to_image(batch)), stated_pixels(batch))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    hnp.arrays(
        np.float32,
        st.tuples(
            st.integers(1, 10), st.sampled_from([1, 3]), st.integers(1, 3), st.integers(1, 3)
        ),
        elements=st.floats(-(2.0**120), 2.0**120, width=32) | st.floats(0, 1, width=32),
    )
)
def test_any_finite_batch_follows_the_rule(batch: NDArray[Any]) -> None:
    np.testing.assert_array_equal(pixels_of(batch_to_image(batch)), stated_pixels(batch))


def test_nan_is_black_and_infinities_take_the_ends_of_the_range() -> None:
    batch = np.array([0.25, 0.5, np.nan, np.inf, -np.inf], np.float32).reshape(1, 1, 1, 5)

    assert pixels_of(batch_to_image(batch))[0, :, 0].tolist() == [63, 127, 0, 127, 63]


def test_numbers_too_large_to_subtract_do_not_spoil_the_others() -> None:
    batch = np.array([-100.0, 100.0, 1e300, np.nan]).reshape(1, 1, 1, 4)

    assert pixels_of(batch_to_image(batch))[0, :, 0].tolist() == [0, 253, 253, 0]


@pytest.mark.parametrize(
    ("row", "levels"),
    [
        ([-1.0, np.nan, 1.0], [0, 0, 170]),
        ([0.5, np.nan, 3.0], [0, 0, 182]),
        ([np.nan, 0.0, 1.0], [0, 0, 255]),
        ([0.25, np.nan, 1.0], [63, 0, 255]),
        ([-np.inf, -1.0, 2.0], [0, 0, 191]),
        ([0.0, 1e38, np.inf], [0, 254, 254]),
        ([-1e38, 0.0, -np.inf], [0, 254, 0]),
        ([0.0, 2.0, 1.1e38], [0, 170, 170]),
        ([0.0, 2.0, -1.1e38], [0, 170, 0]),
    ],
    ids=str,
)
def test_what_is_not_finite_does_not_change_the_other_pixels(
    row: list[float], levels: list[int]
) -> None:
    image = batch_to_image(np.array(row).reshape(1, 1, 1, 3))

    assert pixels_of(image)[0, :, 0].tolist() == levels


def test_the_gaps_of_a_last_row_count_as_zeros_beside_what_is_not_finite() -> None:
    batch = np.full((9, 1, 1, 1), 4.0)
    batch[:3, 0, 0, 0] = np.nan, np.inf, 8.0

    pixels = pixels_of(batch_to_image(batch))[:, :, 0]

    assert pixels.tolist() == [[113, 226, 226, *[113] * 5], [113, *[0] * 7]]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_batch_without_a_finite_pixel_is_black(value: float) -> None:
    assert not pixels_of(batch_to_image(np.full((2, 3, 2, 2), value))).any()


@pytest.mark.parametrize(
    "shape", [(3, 4, 4), (1, 2, 4, 4), (1, 4, 4, 3), (0, 3, 4, 4), (1, 3, 0, 4), ()]
)
def test_another_shape_is_refused_by_name(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="needs shape") as refusal:
        batch_to_image(np.zeros(shape))

    assert str(shape) in str(refusal.value)


def test_a_bfloat16_batch_that_is_not_a_block_of_memory_is_taken() -> None:
    batch = (
        torch.rand(2, 5, 4, 3, generator=torch.Generator().manual_seed(0))
        .bfloat16()
        .permute(0, 3, 1, 2)
    )

    np.testing.assert_array_equal(
        pixels_of(batch_to_image(batch)), stated_pixels(batch.float().numpy())
    )


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (5, 1), (300, 2), (37, 41)])
def test_a_png_decodes_to_its_pixels(shape: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
    picture = PillowImage.open(io.BytesIO(encode_png(pixels)))
    picture.verify()  # checks the CRC of each chunk

    np.testing.assert_array_equal(
        np.asarray(PillowImage.open(io.BytesIO(encode_png(pixels)))), pixels
    )


def test_a_flat_image_makes_a_small_png() -> None:
    pixels = np.zeros((500, 500, 3), np.uint8)
    pixels[100:200, 100:300] = (200, 30, 40)

    assert len(encode_png(pixels)) < 10_000
    assert zlib.crc32(b"IEND") == int.from_bytes(encode_png(pixels)[-4:], "big")
