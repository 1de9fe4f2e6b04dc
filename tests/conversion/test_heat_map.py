"""The picture of parameters by steps."""

from __future__ import annotations

import io

import numpy as np
import PIL.Image
import pytest

from mindsummary_lightning.conversion.heat_map import colours_of, grouped, heat_map, shaded_range

RED_SHARE = 0.75  # of a cell that is not finite: every fourth pixel is a white stripe
RED, BLACK, GREY, YELLOW = (0xE3, 0x1A, 0x1C), (0, 0, 0), (0xD8, 0xD8, 0xD8), (0xFD, 0xE7, 0x25)


def _pixels(names: list[str], numbers: np.ndarray) -> np.ndarray:
    image = heat_map("title", names, [*range(1, numbers.shape[1] + 1)], numbers)
    pixels = np.asarray(PIL.Image.open(io.BytesIO(image.encoded)))
    assert pixels.shape == (image.height, image.width, 3)
    return pixels


def _count(pixels: np.ndarray, colour: tuple[int, int, int]) -> int:
    return int((pixels == colour).all(axis=-1).sum())


def test_a_spike_and_what_is_no_number_have_colours_of_their_own() -> None:
    numbers = np.full((8, 30), -3.0)
    plain = _pixels([f"layer{n}.weight" for n in range(8)], numbers)
    numbers[2, 7], numbers[3, 10:], numbers[4, 5], numbers[5, :3] = 1.5, np.inf, -np.inf, np.nan
    pixels = _pixels([f"layer{n}.weight" for n in range(8)], numbers)

    cell = 14 * 24
    for colour, cells in ((RED, 20 * RED_SHARE), (BLACK, 1), (GREY, 3)):
        # of the text
        assert abs(_count(pixels, colour) - _count(plain, colour) - cells * cell) <= 30
    assert cell <= _count(pixels, YELLOW) <= cell + 30  # of the legend


@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 1), (7, 512), (300, 3), (1000, 100), (2000, 20), (40_000, 4)]
)
def test_the_size_is_bounded(rows: int, columns: int) -> None:
    pixels = _pixels(
        [f"model.layer.{n // 2}.{n % 2}" for n in range(rows)], np.zeros((rows, columns))
    )
    assert pixels.shape[0] <= 1320
    assert pixels.shape[1] <= 1200


def test_cells_that_are_not_finite_are_striped_so_that_colour_is_not_all() -> None:
    red = (_pixels(["a"] * 40, np.full((40, 4), np.inf)) == RED).all(axis=-1)

    rows = np.flatnonzero(red.sum(axis=1) > 40)  # of the cells, below the title
    (row, below) = red[rows[10]], red[rows[11]]
    inside = slice(*np.flatnonzero(row)[[4, -4]])
    assert row[inside].mean() == pytest.approx(RED_SHARE, abs=0.05)
    assert (row[inside] != below[inside]).any()


def test_nothing_finite_is_drawn_too() -> None:
    assert _count(_pixels(["a"], np.full((1, 4), np.inf)), RED) > 100


def test_a_name_of_any_length_and_script_is_drawn() -> None:
    assert _pixels(["层." * 500, "b"], np.zeros((2, 2))).shape[1] < 1200


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([-3.0, 1.5, np.nan, np.inf, -np.inf], (-3.0, 1.5)),
        ([-20.0, 1.5, -3.0], (-10.5, 1.5)),
        ([-10.5, 1.5], (-10.5, 1.5)),
        ([2.0, 2.0], (1.9, 2.0)),
        ([2.0, 1.95], (1.9, 2.0)),
        ([np.nan, np.inf], (-1.0, 0.0)),
        ([], (-1.0, 0.0)),
    ],
    ids=str,
)
def test_the_colours_span_the_finite_numbers_but_at_most_twelve_decades(
    numbers: list[float], expected: tuple[float, float]
) -> None:
    assert shaded_range(np.array(numbers)) == expected


def test_numbers_have_colours_from_violet_to_yellow_and_others_their_own() -> None:
    numbers = np.array([[-3.0, -9.0, 1.5, 9.0], [-0.75, np.inf, -np.inf, np.nan]])

    assert colours_of(numbers, -3.0, 1.5).tolist() == [
        [[0x44, 0x01, 0x54], [0x44, 0x01, 0x54], [0xFD, 0xE7, 0x25], [0xFD, 0xE7, 0x25]],
        [[0x22, 0x90, 0x8B], [*RED], [*BLACK], [*GREY]],
    ]


def test_a_row_of_the_picture_is_a_row_of_the_numbers_under_its_steps() -> None:
    pixels = _pixels(["first.weight", "second.weight"], np.array([[1.5, 0, 0], [0, 0, 0.0]]))

    (rows, columns) = np.nonzero((pixels == YELLOW).all(axis=-1))
    inside = rows < 50  # above the legend
    assert (rows[inside].min(), rows[inside].max()) == (36, 49)
    assert columns[inside].max() - columns[inside].min() == 23
    assert pixels.shape == (36 + 2 * 14 + 56, columns[inside].min() + 460 + 8, 3)


def test_a_cell_is_at_most_24_pixels_wide_and_at_least_one() -> None:
    narrow, wide, widest, full = (
        _pixels(["a"], np.zeros((1, columns))).shape[1] for columns in (1, 30, 512, 720)
    )

    assert (wide - narrow, widest - narrow, full - narrow) == (
        30 * 24 - 460,
        512 - 460,
        720 - 460,
    )


def test_the_legend_has_the_colours_of_what_is_no_number() -> None:
    pixels = _pixels(["a"], np.zeros((1, 1)))

    assert _count(pixels, RED) == 75
    assert _count(pixels, GREY) == 100
    assert _count(pixels, BLACK) == 100


def test_the_legend_has_the_shades_of_the_numbers_beside_those_colours() -> None:
    numbers = np.array([[-2.0, 0.0]])
    pixels = _pixels(["a"], numbers)

    shades = colours_of(np.linspace(-2.0, 0.0, 160)[None], -2.0, 0.0)[0]
    rows = np.flatnonzero((pixels == BLACK).all(axis=-1).sum(axis=1) >= 10)
    row = pixels[rows[0]]
    (left,) = [at for at in range(row.shape[0] - 160) if (row[at : at + 160] == shades).all()]
    is_shaded = (pixels[:, left : left + 160] == shades).all(axis=(1, 2))
    assert np.flatnonzero(is_shaded).tolist() == rows.tolist()
    assert len(rows) == 10


def _map(names: list[str], steps: list[int], title: str = "title") -> bytes:
    return heat_map(title, names, steps, np.zeros((len(names), len(steps)))).encoded


def test_a_long_name_is_shown_by_its_end_and_other_scripts_by_signs() -> None:
    assert _map(["a" * 9 + "b" * 41], [1]) == _map(["..." + "b" * 41], [1])
    assert _map(["a" * 3 + "b" * 41], [1]) != _map(["..." + "b" * 41], [1])
    assert _map(["层.weight"], [1]) == _map(["?.weight"], [1])


def test_the_title_and_six_of_the_steps_are_written() -> None:
    steps = [*range(1, 13)]
    plain = _map(["a"], steps)

    assert _map(["a"], steps, "Title") != plain
    changed = [_map(["a"], [*steps[:at], 8, *steps[at + 1 :]]) != plain for at in range(12)]
    assert [at for at in range(12) if changed[at]] == [0, 2, 4, 9, 11]  # the eighth is 8 already
    assert _map(["a"], [*steps[:7], 9, *steps[8:]]) != plain


@pytest.mark.parametrize("row", range(5))
def test_a_name_is_written_beside_its_row(row: int) -> None:
    names = [*"bbbbb", "weight"]
    plain = _pixels(names, np.zeros((6, 3)))
    changed = _pixels([*names[:row], "d", *names[row + 1 :]], np.zeros((6, 3)))

    rows = np.flatnonzero((plain != changed).any(axis=(1, 2)))
    assert 36 + 14 * row <= rows.min() <= rows.max() < 36 + 14 * (row + 1)


def test_names_are_written_at_every_row_or_as_often_as_there_is_room() -> None:
    for rows, every in ((3, 1), (200, 5)):
        names = ["a"] * rows
        plain = _map(names, [1])
        named = [
            row
            for row in range(7)
            if row < rows and _map([*names[:row], "b", *names[row + 1 :]], [1]) != plain
        ]
        assert named == [*range(0, min(rows, 7), every)]


def test_a_layer_of_a_parameter_without_a_module_is_the_parameter_itself() -> None:
    numbers = np.arange(5.0)[:, None]

    labels, found = grouped(["scale", "a.w", "a.b", "shift", "b.w"], numbers, 4)
    assert labels == ["scale", "a", "shift", "b"]
    assert found[:, 0].tolist() == [0, 2, 3, 4]
    labels, found = grouped(["scale", "a.w", "a.b", "shift", "b.w"], numbers, 3)
    assert labels == ["scale to a", "shift to b"]
    assert found[:, 0].tolist() == [2, 4]
    assert grouped(["a.w", "b.w", "c.w"], numbers[:3], 2)[0] == ["a to b", "c to c"]


def test_more_rows_than_fit_are_grouped_by_layer_and_then_by_neighbours() -> None:
    names = [f"layers.{layer}.{part}" for layer in range(6) for part in ("weight", "bias")]
    numbers = np.arange(12.0).reshape(12, 1)
    numbers[4] = np.nan

    assert grouped(names, numbers, 12)[0] == names
    labels, by_layer = grouped(names, numbers, 6)
    assert labels == [f"layers.{layer}" for layer in range(6)]
    assert by_layer[:, 0].tolist() == [1, 3, 5, 7, 9, 11]
    labels, by_two = grouped(names, numbers, 4)
    assert labels == ["layers.0 to layers.1", "layers.2 to layers.3", "layers.4 to layers.5"]
    assert by_two[:, 0].tolist() == [3, 7, 11]
