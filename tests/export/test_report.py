from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Picture

from mindsummary_lightning.export.report import write_report
from mindsummary_lightning.export.report.curves import curve_chart, nice_ticks
from mindsummary_lightning.export.report.surfaces import surface_chart
from mindsummary_lightning.reading.results import RecordedLandscape, ScalarSeries
from mindsummary_lightning.values import LandscapeMetadata, TrainInfo
from tests.cli.command import mindsummary
from tests.cli.demo_run import write_demo_run
from tests.reading.runs import values_at, write_lineage, write_mindspore_run, write_summary


def _page(tmp_path: Path, *runs: Path) -> str:
    write_report([str(run) for run in runs], str(tmp_path / "report.html"))
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def _series(values: list[float]) -> ScalarSeries:
    return ScalarSeries(np.arange(len(values)), np.zeros(len(values)), np.array(values, np.float32))


class _Nesting(HTMLParser):
    """Fails on a tag that is closed where it is not open."""

    _ALONE = ("meta", "img", "html")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self._ALONE:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag != "html":
            assert self.open.pop() == tag


def test_the_page_holds_every_kind_of_both_runs(tmp_path: Path) -> None:
    write_demo_run(tmp_path / "runs" / "a", 0.01)
    write_demo_run(tmp_path / "runs" / "b", 0.03)

    page = _page(tmp_path, tmp_path / "runs" / "a", tmp_path / "runs" / "b")

    assert re.findall("<h2>(.*?)</h2>", page) == ["Scalars", "Histograms", "Images", "Loss landscapes", "Lineage"]
    assert page.count("<polyline") == 2 * 2 + 2  # two scalars of two runs, two landscape paths
    assert page.count("data:image/png;base64,") == 2 * 2 + 2  # two images of two runs, two surfaces
    assert "<tr class=differs><th>learning_rate</th><td>0.01</td><td>0.03</td></tr>" in page


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    write_demo_run(tmp_path / "a")

    page = _page(tmp_path, tmp_path / "a")

    assert not re.search(r"https?://|<script|<link|@import|url\(", page)
    nesting = _Nesting()
    nesting.feed(page)
    assert nesting.open == []


def test_a_run_of_mindspore_gets_its_page(tmp_path: Path) -> None:
    write_mindspore_run(tmp_path / "a")

    assert "<h3>loss</h3>" in _page(tmp_path, tmp_path / "a")


def test_names_and_tags_cannot_become_markup(tmp_path: Path) -> None:
    run = tmp_path / "<b>run"
    write_summary(
        run, [values_at(1, {"<script>alert(1)</script>": 1.0}), values_at(2, {"<script>alert(1)</script>": 1.0})]
    )
    write_lineage(run, [TrainInfo(network="<img src=x>")])

    page = _page(tmp_path, run)

    assert "<script" not in page
    assert "<img" not in page
    assert "<b>&lt;b&gt;run</b>" in page


def test_an_empty_run_gets_a_page(tmp_path: Path) -> None:
    write_summary(tmp_path / "a", [])

    assert "no scalars" in _page(tmp_path, tmp_path / "a")


def test_a_curve_breaks_where_the_value_is_not_finite() -> None:
    nan = float("nan")

    chart = curve_chart([("run", "#000", _series([1.0, 2.0, nan, 3.0, nan, 4.0, 5.0]))])

    assert (chart.count("<polyline"), chart.count("<circle")) == (2, 1)


def test_a_curve_without_a_finite_value_says_so() -> None:
    assert "no finite value" in curve_chart([("run", "#000", _series([float("nan")]))])


def test_a_long_curve_is_thinned_and_keeps_its_peak() -> None:
    values = np.zeros(100_000)
    values[54_321] = 7.0

    chart = curve_chart([("run", "#000", _series(values.tolist()))])

    assert len(chart) < 30_000
    heights = {point.split(",")[1] for point in re.findall(r'points="([^"]*)"', chart)[0].split()}
    assert len(heights) == 2


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]), (3.0, 3.0, [3.0]), (-50.0, 49.0, [-40.0, -20.0, 0.0, 20.0, 40.0])],
)
def test_ticks_are_round_numbers(low: float, high: float, ticks: list[float]) -> None:
    assert nice_ticks(low, high, 5) == pytest.approx(ticks)


def test_a_surface_is_drawn_with_its_valley_dark_and_y_upwards() -> None:
    axis = np.linspace(-1, 1, 9, dtype=np.float32)
    z = (axis[None, :] ** 2 + (axis[:, None] - 1) ** 2).astype(np.float32)  # the valley lies at y = 1
    landscape = RecordedLandscape("t", 0, 0.0, axis, axis, z, (), None, (0.0, 1.0, 0.0), LandscapeMetadata())

    chart = surface_chart(landscape)

    encoded = re.search(r"base64,([^\"]*)", chart)
    assert encoded is not None
    pixels = np.asarray(Picture.open(BytesIO(base64.b64decode(encoded.group(1)))))
    assert pixels[2, 160].sum() < pixels[-3, 3].sum()
    assert 'x="160.0" y="6.0"' in chart


def test_the_command_takes_directories_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_demo_run(tmp_path / "runs" / "a")
    write_demo_run(tmp_path / "runs" / "b")

    answer = mindsummary(capsys, "report", tmp_path / "runs", tmp_path / "runs" / "b", "-o", tmp_path / "r.html")

    assert answer.code == 0
    assert answer.out.startswith(f"{tmp_path / 'r.html'}: 2 runs, ")
