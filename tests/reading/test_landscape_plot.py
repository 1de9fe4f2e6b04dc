from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindsummary_lightning import SummaryReader, SummaryRecord
from mindsummary_lightning.reading.landscape_plot import Landscapes, plot_landscapes
from mindsummary_lightning.values import LandscapeMetadata, LossLandscape, Points

AXIS = np.linspace(-1, 1, 6, dtype=np.float32)
FLAT = LossLandscape(
    Points(AXIS, AXIS, np.ones((6, 6), np.float32)), metadata=LandscapeMetadata("Random", "step", 1)
)


@pytest.mark.slow
def test_a_flat_landscape_can_be_plotted_also_when_it_was_read_back(tmp_path: Path) -> None:
    with SummaryRecord(tmp_path / "run") as record:
        record.add_value("LANDSCAPE", "flat", FLAT)
        record.record(1)

    (landscape,) = SummaryReader(tmp_path / "run").landscapes()
    plot_landscapes([landscape], tmp_path / "read.png")
    plot_landscapes({"flat": FLAT}, tmp_path / "made.png")

    data = (tmp_path / "read.png").read_bytes()
    assert data == (tmp_path / "made.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (900, 750)
    assert landscape._repr_png_() == Landscapes({"flat": FLAT})._repr_png_()


def _pixels(picture: bytes) -> tuple[int, int]:
    """Width and height of a PNG picture."""
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", picture[16:24])
    return width, height


def test_a_figure_has_the_size_and_titles_asked_for_and_is_returned_and_written(
    tmp_path: Path,
) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "figure.png"

    figure = plot_landscapes({"flat": FLAT}, path, size=(4, 2), titles=["first"])

    assert tuple(figure.get_size_inches()) == (4, 2)
    assert figure.axes[0].get_title() == "first"
    assert _pixels(path.read_bytes()) == (600, 300)
    assert _pixels(figure._repr_png_()) == (300, 150)  # type: ignore[attr-defined]


def test_a_landscape_is_drawn_into_axes_that_are_given() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    axes = figure.subplots(2, 2)

    assert plot_landscapes({"flat": FLAT}, ax=axes[1, 0]) is figure
    assert axes[1, 0].get_title() == "around the end of training"
    assert plot_landscapes([FLAT] * 4, ax=axes, titles="abcd") is figure
    assert [each.get_title() for row in axes for each in row] == [*"abcd"]
    with pytest.raises(
        ValueError, match=r"1 landscapes need as many axes .*, got 0 axes and 1 titles"
    ):
        plot_landscapes([FLAT], ax=[])


def test_the_middle_of_an_even_grid_is_not_called_the_end_and_a_logarithm_has_round_ticks() -> None:
    bowl = (0.05 + AXIS[:, None] ** 2 + AXIS[None, :] ** 2).astype(np.float32)
    point = (float(AXIS[3]), float(AXIS[3]), 0.13)
    landscape = LossLandscape(
        Points(AXIS, AXIS, bowl), convergence_point=point, metadata=FLAT.metadata
    )

    axes, colors = plot_landscapes({"bowl": landscape}).axes

    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "grid centre, loss 0.13",
        "end",
    ]
    assert [(line.get_xydata().tolist(), line.get_marker()) for line in axes.get_lines()] == [
        ([list(point[:2])], "*"),
        ([[0.0, 0.0]], "+"),
    ]
    assert {text.get_text() for text in colors.get_yticklabels()} >= {"0.2", "0.5", "1"}


def test_landscapes_that_were_computed_draw_themselves_in_a_notebook() -> None:
    pytest.importorskip("matplotlib")
    assert _pixels(Landscapes({"flat": FLAT})._repr_png_() or b"") == (450, 375)


def test_what_cannot_be_drawn_is_refused_and_no_landscapes_are_no_picture() -> None:
    with pytest.raises(
        ValueError, match=r"2 landscapes need as many axes .*, got 2 axes and 1 titles"
    ):
        plot_landscapes([FLAT, FLAT], ax=[object(), object()], titles=["first"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="must hold at least one landscape"):
        plot_landscapes({})
    for wrong in (5, ["flat"], [FLAT, 5]):
        with pytest.raises(TypeError, match="landscapes must be those of") as refused:
            plot_landscapes(wrong)  # type: ignore[arg-type]
        assert repr(wrong) in str(refused.value)
    assert Landscapes()._repr_png_() is None


@pytest.fixture(scope="module")
def figure() -> Any:
    """A landscape wider than high, one with a loss of several decades, and a flat one."""
    pytest.importorskip("matplotlib")
    x, y = np.linspace(-2, 4, 5), np.linspace(-1, 1, 4)
    surface = Points(x, y, 0.75 + x[None, :] ** 2 + y[:, None])
    path = Points(np.array([0.5, 0.0, 3.0]), np.array([0.75, -0.5, 0.25]), np.array([4.0, 2, 1]))
    metadata = LandscapeMetadata("PCA", "epoch", 3)
    landscape = LossLandscape(surface, (2, 5, 9), path, (3.0, 0.25, 0.125), metadata)
    steep = LossLandscape(Points(x, y, np.exp(x[None, :] + y[:, None])), metadata=FLAT.metadata)
    return plot_landscapes([landscape, steep, FLAT])


def test_the_path_of_training_is_drawn_over_the_surface_and_its_ends_are_named(
    figure: Any,
) -> None:
    axes = figure.axes[0]
    way, star = axes.get_lines()

    assert way.get_xydata().tolist() == [[0.5, 0.75], [0.0, -0.5], [3.0, 0.25]]
    assert (star.get_xydata().tolist(), star.get_marker()) == ([[3.0, 0.25]], "*")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["end, loss 0.125"]
    assert [(text.get_text(), text.xy) for text in axes.texts] == [
        ("epoch 2", (0.5, 0.75)),
        ("epoch 9", (3.0, 0.25)),
    ]
    # left or right of the point, so that the text lies inside
    assert [(text.get_ha(), text.xyann, text.anncoords) for text in axes.texts] == [
        ("left", (6, 6), "offset points"),
        ("right", (-6, 6), "offset points"),
    ]


def test_axes_and_colors_say_what_they_show(figure: Any) -> None:
    first, second, third, *colors = figure.axes

    assert figure.get_size_inches().tolist() == [16, 5]
    assert [axes.get_title() for axes in (first, second, third)] == [
        "epochs 2 to 9",
        "around the end of training",
        "around the end of training",
    ]
    assert (first.get_xlabel(), first.get_ylabel()) == ("direction 1 (PCA)", "direction 2 (PCA)")
    assert (second.get_xlabel(), second.get_ylabel()) == (
        "direction 1 (Random)",
        "direction 2 (Random)",
    )
    assert (first.get_xlim(), first.get_ylim()) == ((-2, 4), (-1, 1))
    assert [bar.get_ylabel() for bar in colors] == ["loss"] * 3
    assert second.get_legend() is None


def test_levels_are_even_or_logarithmic_if_the_loss_spans_decades(figure: Any) -> None:
    even, decades, flat = (axes.collections[0].levels for axes in figure.axes[:3])

    np.testing.assert_allclose(even, np.linspace(0, 17.75, 24))
    np.testing.assert_allclose(decades, np.geomspace(np.exp(-3), np.exp(5), 24))
    np.testing.assert_allclose(flat, np.linspace(1, 2, 24))
