from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning import SummaryReader, SummaryRecord
from mindsummary_lightning.landscape.plot import plot_landscapes
from mindsummary_lightning.values import LandscapeMetadata, LossLandscape, Points

AXIS = np.linspace(-1, 1, 6, dtype=np.float32)
FLAT = LossLandscape(Points(AXIS, AXIS, np.ones((6, 6), np.float32)), metadata=LandscapeMetadata("Random", "step", 1))


@pytest.mark.slow
def test_a_flat_landscape_can_be_plotted(tmp_path: Path) -> None:
    plot_landscapes({"flat": FLAT}, tmp_path / "flat.png")

    data = (tmp_path / "flat.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (900, 750)


def test_nothing_to_plot_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no landscape to draw"):
        plot_landscapes({}, tmp_path / "none.png")


@pytest.mark.slow
def test_a_landscape_that_was_read_back_can_be_plotted(tmp_path: Path) -> None:
    with SummaryRecord(tmp_path / "run") as record:
        record.add_value("LANDSCAPE", "flat", FLAT)
        record.record(1)
    (landscape,) = SummaryReader(tmp_path / "run").landscapes()

    plot_landscapes({landscape.tag: landscape}, tmp_path / "read.png")
    plot_landscapes({"flat": FLAT}, tmp_path / "made.png")

    assert (tmp_path / "read.png").read_bytes() == (tmp_path / "made.png").read_bytes()
