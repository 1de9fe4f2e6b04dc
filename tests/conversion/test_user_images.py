"""``to_image`` and ``figure_to_image``: supported image inputs."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image as PillowImage

pytest.importorskip("matplotlib")

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from mindsummary_lightning.conversion.user_images import boxes_to_image, figure_to_image, to_image
from mindsummary_lightning.values import Image

RGB = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
GREY = RGB[..., 0]


def pixels_of(image: Image) -> NDArray[np.uint8]:
    picture = PillowImage.open(io.BytesIO(image.encoded))
    assert (picture.format, picture.mode, picture.size) == (
        "PNG",
        "RGB",
        (image.width, image.height),
    )
    return np.asarray(picture)


def tripled(grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.stack([grey] * 3, axis=-1)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (GREY, tripled(GREY)),
        (RGB, RGB),
        (RGB.transpose(2, 0, 1), RGB),
        (GREY[None], tripled(GREY)),
        (GREY[..., None], tripled(GREY)),
        (np.stack([RGB, RGB[::-1]]), np.concatenate([RGB, RGB[::-1]], axis=1)),
        (RGB.transpose(2, 0, 1)[None], RGB),
        (torch.from_numpy(RGB.copy()).permute(2, 0, 1), RGB),
        (RGB.tolist(), RGB),
    ],
    ids=["HW", "HWC", "CHW", "1HW", "HW1", "NHWC", "NCHW", "tensor", "list"],
)
def test_a_layout_without_doubt_is_found(array: Any, expected: NDArray[np.uint8]) -> None:
    array = np.array(array, np.uint8) if isinstance(array, list) else array

    np.testing.assert_array_equal(pixels_of(to_image(array)), expected)


@pytest.mark.parametrize(
    "shape", [(3, 20, 3), (5, 6, 7), (4, 3, 20, 3), (2, 5, 6, 7), (9,), (1, 1, 1, 1, 3), ()]
)
def test_a_layout_in_doubt_is_refused_with_shape_and_dtype(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError, match="pass dataformats, the letters of one of HW, CHW, NCHW"
    ) as refusal:
        to_image(np.zeros(shape, np.float32))

    assert str(refusal.value).startswith(
        f"an image of shape {shape} and dtype float32, whose layout is ambiguous: "
    )


@pytest.mark.parametrize(("dataformats", "size"), [("CHW", (3, 20)), ("hwc", (20, 3))])
def test_dataformats_settles_the_doubt(dataformats: str, size: tuple[int, int]) -> None:
    picture = to_image(np.zeros((3, 20, 3), np.uint8), dataformats)

    assert (picture.width, picture.height) == ((3, 20) if dataformats == "CHW" else (20, 3))


@pytest.mark.parametrize(
    ("dataformats", "text"),
    [
        ("HW", "needs a letter for each dimension"),
        ("NCHW", "needs a letter for each dimension"),
        ("CWH", "needs 1, 3 or 4 channels"),
        ("rgb", "must be the letters of HW, CHW, NCHW in any order, not 'RGB'"),
        ("NHW", "must be the letters of"),
        ("HHW", "must be the letters of"),
        ("", "must be the letters of"),
    ],
)
def test_dataformats_that_do_not_fit_are_refused(dataformats: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        to_image(RGB, dataformats)


@pytest.mark.parametrize("layout", ["HW", "CHW", "NCHW"])
def test_dataformats_are_the_letters_in_any_order(layout: str) -> None:
    sizes = {"N": 2, "C": 3, "H": 4, "W": 5}
    array = np.random.default_rng(0).integers(
        0, 256, [sizes[letter] for letter in layout], np.uint8
    )
    expected = pixels_of(to_image(array, layout))

    for order in itertools.permutations(layout):
        turned = array.transpose([layout.index(letter) for letter in order])
        np.testing.assert_array_equal(pixels_of(to_image(turned, "".join(order))), expected)


@pytest.mark.parametrize(
    ("shape", "dataformats"), [((5, 20, 30), "CHW"), ((20, 30, 2), "HWC"), ((0, 20, 30, 3), None)]
)
def test_an_image_needs_known_channels_and_pixels(
    shape: tuple[int, ...], dataformats: str | None
) -> None:
    with pytest.raises(ValueError) as refusal:
        to_image(np.zeros(shape), dataformats)

    layout = f" with dataformats {dataformats!r}" if dataformats else ""
    assert str(refusal.value) == (
        f"an image of shape {shape} and dtype float64{layout}: "
        "an image needs 1, 3 or 4 channels and at least one pixel"
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_that_were_levels_once_come_back_exactly(dtype: type) -> None:
    assert np.array_equal(pixels_of(to_image((RGB / 255).astype(dtype))), RGB)


@pytest.mark.parametrize(
    ("row", "levels"),
    [
        (np.array([[False, True]]), [0, 255]),
        (np.array([[0, 1, 128, 255]], np.int64), [0, 1, 128, 255]),
        (np.array([[0, 1000, 4095]], np.uint16), [0, 62, 255]),
        (np.array([[-1, 0, 1]], np.int8), [0, 128, 255]),
        (np.array([[-2.0, 0.0, 3.0]]), [0, 102, 255]),
        (np.array([[0.0, 64.0, 255.0]]), [0, 64, 255]),
        (np.array([[0.2, 0.8]]), [51, 204]),
        (np.array([[0.5, 1.0]]), [128, 255]),
        (np.array([[100, 255]], np.int64), [100, 255]),
        (np.array([[7.0, 7.0]]), [255, 255]),
        (np.array([[-7.0, -7.0]]), [0, 0]),
        (np.array([[0.0, np.nan, 0.5, np.inf, -np.inf]]), [0, 0, 128, 255, 0]),
        (np.array([[-1.0, np.nan, 1.0, np.inf, -np.inf]]), [0, 0, 255, 255, 0]),
        (np.array([[np.nan, np.inf, -np.inf]]), [0, 255, 0]),
        (np.array([[-1.7e308, 1.7e308, 0.25]]), [0, 255, 64]),
    ],
    ids=str,
)
def test_numbers_become_levels(row: NDArray[Any], levels: list[int]) -> None:
    assert pixels_of(to_image(row, "HW"))[0, :, 0].tolist() == levels


def test_nine_images_fill_two_rows_and_the_rest_is_black() -> None:
    pixels = pixels_of(to_image(np.full((9, 6, 5, 3), 255, np.uint8)))

    assert pixels.shape == (12, 40, 3)
    assert pixels[:6].all()
    assert pixels[6:, :5].all()
    assert not pixels[6:, 5:].any()


def test_transparent_pixels_are_laid_on_white() -> None:
    rgba = np.array([[[10, 20, 30, 255], [10, 20, 30, 0], [0, 1, 2, 128]]], np.uint8)
    expected = [[10, 20, 30], [255, 255, 255], [127, 128, 128]]

    assert pixels_of(to_image(rgba, "HWC"))[0].tolist() == expected
    assert pixels_of(to_image(rgba / 255, "HWC"))[0].tolist() == expected
    assert pixels_of(to_image(PillowImage.fromarray(rgba)))[0].tolist() == expected


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "CMYK", "YCbCr", "LA", "PA"])
def test_a_pillow_image_of_any_mode_shows_as_pillow_does(mode: str) -> None:
    image = PillowImage.fromarray(RGB).convert("L" if mode in ("LA", "PA") else "RGB").convert(mode)

    np.testing.assert_array_equal(pixels_of(to_image(image)), np.asarray(image.convert("RGB")))


def test_a_pillow_image_of_16_bits_is_stretched() -> None:
    image = PillowImage.fromarray(np.array([[0, 30000, 60000]], np.uint16))

    assert pixels_of(to_image(image))[0, :, 0].tolist() == [0, 128, 255]


@pytest.mark.parametrize("mode", ["I", "F"])
def test_a_pillow_image_of_numbers_follows_the_rule_for_numbers(mode: str) -> None:
    image = PillowImage.fromarray(np.array([[-2, 0, 3]], np.int32)).convert(mode)

    assert pixels_of(to_image(image))[0, :, 0].tolist() == [0, 102, 255]


def test_a_transparent_colour_of_a_palette_is_white() -> None:
    image = PillowImage.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((1, 0), 1)
    assert pixels_of(to_image(image))[0].tolist() == [[10, 20, 30], [40, 50, 60]]

    image.info["transparency"] = 0
    assert pixels_of(to_image(image))[0].tolist() == [[255, 255, 255], [40, 50, 60]]


@pytest.mark.parametrize("as_path", [str, Path])
def test_a_file_is_read(tmp_path: Path, as_path: Any) -> None:
    PillowImage.fromarray(RGB).save(tmp_path / "a.bmp")

    np.testing.assert_array_equal(pixels_of(to_image(as_path(tmp_path / "a.bmp"))), RGB)


def test_a_photograph_taken_sideways_is_shown_upright(tmp_path: Path) -> None:
    exif = PillowImage.Exif()
    exif[0x0112] = 6  # orientation: turn clockwise by a quarter
    PillowImage.fromarray(RGB).save(tmp_path / "a.png", exif=exif)

    np.testing.assert_array_equal(pixels_of(to_image(tmp_path / "a.png")), np.rot90(RGB, -1))


def test_a_file_that_is_not_an_image_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("not a picture")

    with pytest.raises(ValueError, match=r"a\.txt is not an image"):
        to_image(tmp_path / "a.txt")
    with pytest.raises(FileNotFoundError):
        to_image(tmp_path / "b.png")


@pytest.mark.parametrize(
    "value", [None, object(), np.zeros((2, 2), complex)], ids=lambda value: type(value).__name__
)
def test_what_is_no_image_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="expected a number"):
        to_image(value)


def a_figure() -> Figure:
    figure = Figure(figsize=(3, 2), dpi=50)
    figure.add_axes((0, 0, 1, 1)).set_axis_off()
    figure.patch.set_facecolor((1.0, 0.0, 0.0))
    return figure


def test_a_figure_is_drawn_in_its_own_size_and_colours() -> None:
    pixels = pixels_of(figure_to_image(a_figure()))

    assert pixels.shape == (100, 150, 3)
    assert (pixels == (255, 0, 0)).all()


def test_a_figure_keeps_its_canvas_and_pyplot_its_backend() -> None:
    figure, backend = a_figure(), mpl.rcParams["backend"]
    canvas = FigureCanvasSVG(figure)
    to_image(figure)

    assert figure.canvas is canvas
    assert mpl.rcParams["backend"] == backend


def test_what_is_no_figure_is_refused() -> None:
    with pytest.raises(TypeError, match="found a dict"):
        figure_to_image({})


def test_figures_in_a_list_are_side_by_side_and_have_one_size() -> None:
    blue = a_figure()
    blue.patch.set_facecolor((0.0, 0.0, 1.0))
    small = Figure(figsize=(2, 2), dpi=50)

    pixels = pixels_of(figure_to_image([a_figure(), blue]))
    assert pixels.shape == (100, 300, 3)
    assert (pixels[:, :150] == (255, 0, 0)).all()
    assert (pixels[:, 150:] == (0, 0, 255)).all()
    with pytest.raises(
        ValueError, match=r"must have the same size, got \[\(100, 150, 4\), \(100, 100, 4\)\]"
    ):
        figure_to_image((a_figure(), small))
    with pytest.raises(ValueError, match=r"must have the same size, got \[\]"):
        figure_to_image([])


@pytest.mark.parametrize(
    ("rgba", "levels"),
    [
        ([[0, 100, 400, 500], [100, 400, 0, 0]], [[0, 64, 255], [255, 255, 255]]),
        ([[0.0, 0.5, 1.0, 1.0], [0.5, 0.5, 0.5, 0.5]], [[0, 128, 255], [191, 191, 191]]),
        ([[0.0, 0.5, 1.0, 7.0], [0.5, 0.5, 0.5, -1.0]], [[0, 128, 255], [255, 255, 255]]),
    ],
    ids=str,
)
def test_the_range_of_the_colours_is_not_that_of_alpha(rgba: Any, levels: Any) -> None:
    assert pixels_of(to_image(np.array([rgba]), "HWC"))[0].tolist() == levels


_RED = (255, 0, 0)


def test_a_box_is_drawn_in_red_at_its_corners_on_a_grey_image_too() -> None:
    for image, layout in ((np.zeros((20, 30)), "HW"), (np.zeros((20, 30, 3)), "HWC")):
        pixels = pixels_of(boxes_to_image(image, [[5, 3, 25, 12]], layout))
        red = (pixels == _RED).all(axis=-1)

        assert not pixels[~red].any()
        rows, columns = np.flatnonzero(red.any(axis=1)), np.flatnonzero(red.any(axis=0))
        assert [rows.min(), rows.max()] == pytest.approx([3, 12], abs=1)
        assert [columns.min(), columns.max()] == pytest.approx([5, 25], abs=1)
        assert not red[5:10, 8:22].any()


@pytest.mark.parametrize(
    ("labels", "is_drawn"), [(None, False), (["a"], False), (["a", "b"], True), ("ab", False)]
)
def test_labels_are_drawn_if_there_is_one_for_each_box(labels: Any, is_drawn: bool) -> None:
    image, boxes = np.full((40, 60), 0.5), np.array([[5, 20, 25, 30], [30, 20, 50, 35]])

    plain, labelled = (
        pixels_of(boxes_to_image(image, boxes, "HW", labels=each)) for each in (None, labels)
    )

    assert (plain != labelled).any() == is_drawn
    reds = [int((pixels == _RED).all(axis=-1).sum()) for pixels in (plain, labelled)]
    assert (reds[1] > reds[0]) == is_drawn  # the ground of the labels


def test_a_single_label_may_be_a_text() -> None:
    image, box = np.zeros((40, 60)), [[5, 20, 25, 30]]

    one, other = (boxes_to_image(image, box, "HW", labels=labels) for labels in ("ab", ["ab"]))
    assert one == other != boxes_to_image(image, box, "HW")


def test_a_label_is_black_on_red_at_the_lower_left_corner_inside_its_box() -> None:
    image, box = np.full((50, 70), 0.5), [[5, 10, 60, 45]]

    plain, labelled = (
        pixels_of(boxes_to_image(image, box, "HW", labels=labels)) for labels in (None, "ab")
    )
    is_drawn = (plain != labelled).any(axis=-1)
    rows, columns = np.flatnonzero(is_drawn.any(axis=1)), np.flatnonzero(is_drawn.any(axis=0))
    assert (rows.min() > 25, rows.max() <= 45) == (True, True)
    assert (columns.min() >= 5, columns.max() < 30) == (True, True)
    drawn = labelled[is_drawn]
    assert (drawn == _RED).all(axis=-1).mean() > 0.3
    assert (drawn.max(axis=-1) < 40).any()


@pytest.mark.parametrize(
    ("rescale", "size"), [(1, (30, 20)), (0.5, (15, 10)), (2, (60, 40)), (0.01, (1, 1))]
)
def test_an_image_with_boxes_is_rescaled(rescale: float, size: tuple[int, int]) -> None:
    image = boxes_to_image(np.zeros((20, 30)), np.zeros((0, 4)), "HW", rescale)

    assert (image.width, image.height) == size


@pytest.mark.parametrize(
    ("shape", "layout", "boxes", "found"),
    [
        ((20, 30), "HW", [1, 2, 3, 4], r"got \(4,\) and 1 images"),
        ((20, 30), "HW", [[1, 2, 3]], r"got \(1, 3\) and 1 images"),
        ((2, 20, 30, 3), "NHWC", [[1, 2, 3, 4]], r"got \(1, 4\) and 2 images"),
    ],
)
def test_boxes_of_another_shape_or_of_many_images_are_refused(
    shape: tuple[int, ...], layout: str, boxes: Any, found: str
) -> None:
    with pytest.raises(ValueError, match=r"boxes must have the shape \(n, 4\) and .*" + found):
        boxes_to_image(np.zeros(shape), boxes, layout)
