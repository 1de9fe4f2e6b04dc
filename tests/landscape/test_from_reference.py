from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning.landscape.from_reference import callback_from_reference, landscapes_from_reference
from mindsummary_lightning.landscape.plot import plot_landscapes
from mindsummary_lightning.values import LandscapeMetadata, LossLandscape, Points
from tests.landscape import nets

AXIS = np.linspace(-1, 1, 6, dtype=np.float32)
FLAT = LossLandscape(Points(AXIS, AXIS, np.ones((6, 6), np.float32)), metadata=LandscapeMetadata("Random", "step", 1))


def png_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


def test_a_function_in_the_current_directory_makes_and_draws_the_landscapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    nets.train(nets.Mlp(), str(run))
    (tmp_path / "named_by_text.py").write_text(
        "from tests.landscape import nets\n"
        "def make():\n    net = nets.Mlp()\n    return None, net, nets.loader(net), nets.LOSS\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    made = landscapes_from_reference(run, "named_by_text:make", {"landscape_size": 4}, [0], plot=tmp_path / "out.png")
    assert [landscape.surface.z.shape for landscape in made.values()] == [(4, 4), (4, 4)]
    assert png_size(tmp_path / "out.png") == (1650, 750)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("json", "expected package.module:function"),
        (":f", "expected package.module:function"),
        ("nowhere:f", "No module named"),
        ("json:nothing", "no attribute"),
        ("json:__name__", "is a str, not a function"),
    ],
)
def test_a_reference_that_names_no_function(reference: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        callback_from_reference(reference)


def test_a_reference_names_a_function() -> None:
    assert callback_from_reference("json:loads") is json.loads


def test_a_flat_landscape_can_be_drawn(tmp_path: Path) -> None:
    plot_landscapes({"flat": FLAT}, tmp_path / "flat.png")
    assert png_size(tmp_path / "flat.png") == (900, 750)


def test_nothing_to_draw_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no landscape to draw"):
        plot_landscapes({}, tmp_path / "none.png")


def test_a_picture_without_matplotlib_says_what_to_install_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"mindsummary-lightning\[plot\]"):
        landscapes_from_reference(tmp_path, "nowhere:f", plot="out.png")
