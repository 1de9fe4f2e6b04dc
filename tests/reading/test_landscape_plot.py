from __future__ import annotations

import struct
from pathlib import Path

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


@pytest.mark.slow
def test_a_figure_has_the_size_and_titles_asked_for_and_is_returned(tmp_path: Path) -> None:
    figure = plot_landscapes({"flat": FLAT, "again": FLAT}, size=(4, 2), titles=["first", "second"])

    assert tuple(figure.get_size_inches()) == (4, 2)
    assert [axes.get_title() for axes in figure.axes if axes.get_title()] == ["first", "second"]
    assert figure._repr_png_()[:8] == b"\x89PNG\r\n\x1a\n"  # type: ignore[attr-defined]
    with pytest.raises(
        ValueError, match=r"2 landscapes need as many axes .*, got 2 axes and 1 titles"
    ):
        plot_landscapes({"flat": FLAT, "again": FLAT}, titles=["first"])
    with pytest.raises(ValueError, match="must hold at least one landscape"):
        plot_landscapes({})


@pytest.mark.slow
def test_a_landscape_is_drawn_into_axes_that_are_given() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure, axes = pyplot.subplots(2, 2)
    try:
        assert plot_landscapes({"flat": FLAT}, ax=axes[0, 0]) is figure
        assert axes[0, 0].get_title() == "around the end of training"
        assert plot_landscapes([FLAT] * 4, ax=axes, titles="abcd") is figure
        assert [each.get_title() for row in axes for each in row] == [*"abcd"]
        with pytest.raises(
            ValueError, match=r"1 landscapes need as many axes .*, got 0 axes and 1 titles"
        ):
            plot_landscapes([FLAT], ax=[])
    finally:
        pyplot.close(figure)


@pytest.mark.slow
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
    assert {text.get_text() for text in colors.get_yticklabels()} >= {"0.2", "0.5", "1"}


@pytest.mark.slow
def test_landscapes_that_were_computed_draw_themselves_in_a_notebook() -> None:
    assert (Landscapes({"flat": FLAT})._repr_png_() or b"")[:4] == b"\x89PNG"
    assert Landscapes()._repr_png_() is None
