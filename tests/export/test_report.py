"""The HTML report: its sections, its escaping, and that it needs no other file."""

from __future__ import annotations

import ast
import base64
import json
import math
import os
import re
import sys
from dataclasses import replace
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("bokeh")

from bokeh.models import HoverTool

from mindsummary_lightning.conversion.user_images import to_image
from mindsummary_lightning.export.report import write_report
from mindsummary_lightning.export.report.contents import (
    COLOURS,
    ReportRun,
    colour_of,
    curve_cards,
    curve_columns,
    expected_bytes,
    graph_outline,
    lineage_rows,
    open_runs,
    planned_cards,
    single_values,
    usual_value,
)
from mindsummary_lightning.export.report.figures import landscape_figure, parameter_figure
from mindsummary_lightning.export.report.ridges import ridge_svg
from mindsummary_lightning.reading.decode import OpenFiles
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.parameter_tables import read_parameter_table
from mindsummary_lightning.reading.run_status import STATUSES
from mindsummary_lightning.reading.series import ScalarSeries
from mindsummary_lightning.values import (
    Graph,
    GraphNode,
    Histogram,
    LandscapeMetadata,
    LossLandscape,
    Points,
    TrainInfo,
)
from mindsummary_lightning.values.text import Phrase
from tests.cli.command import mindsummary
from tests.cli.demo_run import write_demo_run
from tests.docs.pages import ROOT
from tests.reading.runs import (
    histogram,
    values_at,
    write_lineage,
    write_mindspore_run,
    write_parameter_run,
    write_summary,
)


def _page(tmp_path: Path, *runs: Path) -> str:
    write_report([str(run) for run in runs], str(tmp_path / "report.html"))
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def _without_scripts(page: str) -> str:
    return re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)


def _series(values: list[float]) -> ScalarSeries:
    return ScalarSeries(np.arange(len(values)), np.zeros(len(values)), np.array(values, np.float32))


class _Nesting(HTMLParser):
    """Fails on a tag that is closed where it is not open."""

    _EMPTY = ("meta", "img", "input")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self._EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.slow
def test_the_page_holds_every_kind_of_both_runs(tmp_path: Path) -> None:
    write_demo_run(tmp_path / "runs" / "a", 0.01)
    write_demo_run(tmp_path / "runs" / "b", 0.03)

    whole = _page(tmp_path, tmp_path / "runs" / "a", tmp_path / "runs" / "b")
    page = _without_scripts(whole)

    # a document a landscape: in one the time grows as the figures' square
    assert whole.count("const docs_json") == 2
    assert re.search(r"runs, report written \d{4}-\d\d-\d\d", page)
    headings = re.findall("<h2[^>]*>(.*?)</h2>", page)
    assert headings == [
        "Lineage",
        "Scalars",
        "Histograms",
        "Images",
        "Loss landscapes",
        "Computational graphs",
    ]
    assert page.count("data-curves") == 2  # two scalars
    assert page.count("<img ") == 2 * 2
    # the landscape of each run; the page's script draws the curves
    assert page.count("data-root-id") == 2
    assert page.count('<svg class="ridges"') == 2
    differing, equal = page.split("equal in all runs")
    assert '<tr class="differs"><th>learning_rate</th><td>0.01</td><td>0.03</td></tr>' in differing
    assert "<th>network</th>" in equal
    assert "<th>network</th>" not in differing


def test_a_checkpoint_is_named_without_the_directory_of_its_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        path = json.dumps({"ckpt": f"/data/{name}/checkpoints/last.ckpt"})
        write_lineage(tmp_path / name, [TrainInfo(network="LeNet", model_path=path)])

    page = _page(tmp_path, tmp_path / "a", tmp_path / "b")

    assert "<th>model_path</th><td>last.ckpt</td><td>last.ckpt</td>" in page
    assert 'class="differs"' not in page


def test_only_what_most_runs_do_not_have_is_marked(tmp_path: Path) -> None:
    for name, rate in (("a", 0.1), ("b", 0.1), ("c", 0.2)):
        write_lineage(tmp_path / name, [TrainInfo(network="LeNet", learning_rate=rate)])

    page = _page(tmp_path, *(tmp_path / name for name in "abc"))

    row = '<th>learning_rate</th><td>0.1</td><td>0.1</td><td class="odd">0.2</td>'
    assert row in page


def test_numbers_of_runs_have_their_names_and_sections_a_list_of_contents(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_summary(tmp_path / name, [values_at(step, {"loss": 1.0 * step}) for step in (1, 2)])
        write_lineage(tmp_path / name, [TrainInfo(network="LeNet")])

    page = _without_scripts(_page(tmp_path, tmp_path / "a", tmp_path / "b"))

    assert [name in page for name in ("a 2</span>", "b 2</span>")] == [True, True]
    assert 'data-all="0">none<' in page
    assert 'data-tag="loss"' in page


def test_forty_runs_have_forty_colours() -> None:
    assert len({colour_of(number) for number in range(40)}) == 40


@pytest.mark.slow
def test_the_page_needs_no_other_file(tmp_path: Path) -> None:
    write_demo_run(tmp_path / "a")

    page = _without_scripts(_page(tmp_path, tmp_path / "a"))

    assert not re.search(r"https?://|<link|@import|url\(|<script", page)
    nesting = _Nesting()
    nesting.feed(page)
    assert nesting.open == []


def test_a_run_of_mindspore_gets_its_page(tmp_path: Path) -> None:
    write_mindspore_run(tmp_path / "a")

    assert "<h3>loss</h3>" in _page(tmp_path, tmp_path / "a")


def test_names_and_tags_cannot_become_markup(tmp_path: Path) -> None:
    run = tmp_path / "<b>run"
    hostile = "</script><script>alert(1)</script>"
    write_summary(run, [values_at(1, {hostile: 1.0}), values_at(2, {hostile: 1.0})])
    write_lineage(run, [TrainInfo(network="<img src=x>")])

    page = _page(tmp_path, run)

    assert "alert(1)</script>" not in page
    assert "<img" not in _without_scripts(page)
    assert "<b>&lt;b&gt;run</b>" in page


def test_a_scalar_with_one_sample_is_a_number_and_the_epoch_is_the_last_chart(
    tmp_path: Path,
) -> None:
    write_summary(
        tmp_path / "a", [values_at(7, {"test/accuracy": 0.25}), values_at(8, {"loss": 1.0})]
    )
    write_summary(tmp_path / "b", [values_at(step, {"epoch": 1.0, "loss": 1.0}) for step in (8, 9)])

    page = _without_scripts(_page(tmp_path, tmp_path / "a", tmp_path / "b"))

    assert "<tr><th>test/accuracy</th><td>0.25</td><td></td></tr>" in page
    assert re.findall("<h3>(.*?)</h3>", page) == ["loss", "epoch"]
    assert page.count("data-curves") == 2


def test_of_many_images_the_first_the_middle_and_the_last_are_shown(tmp_path: Path) -> None:
    picture = to_image(np.zeros((1, 2, 2), np.float32), "CHW")
    write_summary(tmp_path / "a", [values_at(step, {"x": picture}) for step in range(1, 10)])

    assert re.findall(r">step (\d+)<", _page(tmp_path, tmp_path / "a")) == ["1", "5", "9"]


def test_an_empty_run_gets_a_page_without_scripts_whatever_its_name(tmp_path: Path) -> None:
    run = tmp_path / os.fsdecode(b"not \xff UTF-8")
    write_summary(run, [])

    page = _page(tmp_path, run)

    assert r"not \udcff UTF-8" in page
    assert "no scalars" in page
    assert "<script" not in page


def test_a_value_between_values_that_are_not_finite_is_a_point() -> None:
    nan, inf = float("nan"), float("inf")

    columns = curve_columns(_series([1.0, 2.0, nan, 3.0, -inf, 4.0, inf]))

    np.testing.assert_array_equal(columns["step"], range(7))
    np.testing.assert_array_equal(columns["value"], [1.0, 2.0, nan, 3.0, nan, 4.0, nan])
    np.testing.assert_array_equal(columns["alone"], [nan, nan, nan, 3.0, nan, 4.0, nan])


@pytest.mark.parametrize(("last", "kind"), [(2**31 - 1, np.int32), (2**31, np.float64)])
def test_steps_of_a_curve_are_exact_however_large(last: int, kind: type) -> None:
    series = ScalarSeries(np.array([5, last]), np.zeros(2), np.array([1.0, 2.0], np.float32))

    steps = curve_columns(series)["step"]

    assert (steps.tolist(), steps.dtype) == ([5, last], kind)


def test_the_size_of_a_page_grows_by_what_each_run_and_tag_adds(tmp_path: Path) -> None:
    curves = [values_at(step, {"a": 1.0, "b": 2.0}) for step in range(1000)]
    write_summary(tmp_path / "few", curves[:1])
    write_summary(tmp_path / "many", curves)
    write_summary(tmp_path / "shapes", [values_at(1, {"g": histogram(1), "h": histogram(2)})])

    few, many, both, shapes = [
        expected_bytes(open_runs([str(tmp_path / name) for name in names])[0])
        for names in (["few"], ["many"], ["many", "few"], ["many", "few", "shapes"])
    ]

    a_point = (many - few) / (2 * 999)
    assert 10 < a_point < 15  # a step and a value in base64
    assert both - many == 2 * a_point
    assert shapes - both == 2 * 11_000


def test_a_scalar_without_a_finite_value_has_no_curve(tmp_path: Path) -> None:
    write_summary(tmp_path / "a", [values_at(step, {"loss": float("nan")}) for step in (1, 2)])

    page = _page(tmp_path, tmp_path / "a")

    assert "no finite value" in page
    assert "<script" not in page


def test_a_long_curve_is_thinned_and_keeps_its_ends_and_its_peak() -> None:
    values = np.zeros(100_000)
    values[54_321] = 7.0

    columns = curve_columns(_series(values.tolist()))

    assert columns["step"].size == 5000
    assert columns["value"].max() == 7.0
    assert columns["step"][columns["value"].argmax()] == 54_321
    assert (columns["step"][0], columns["step"][-1]) == (0, 99_999)


def test_ridges_are_labelled_with_their_steps() -> None:
    def histogram(left: float) -> Histogram:
        return Histogram(
            np.array([left]), np.array([1.0]), np.array([4]), 4, min=left, max=left + 1.0, sum=left
        )

    picture = ridge_svg([(10, histogram(0.0)), (20, histogram(1.0))], "#000", Phrase)

    assert picture is not None
    ElementTree.fromstring(picture)
    assert re.findall(r">([^<>]+)</text>", picture) == ["10", "20", "0", "0.5", "1", "1.5", "2"]
    assert re.findall("<title>(.*?)</title>", picture) == [
        "step 10: 4 elements",
        "step 20: 4 elements",
    ]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("low", "width"), [(0.0, np.inf), (1.0, 0.0), (-np.inf, np.inf), (1e308, 1e308)]
)
def test_a_histogram_without_a_range_has_no_ridge(low: float, width: float) -> None:
    odd = Histogram(np.array([low]), np.array([width]), np.array([4]), 4, min=low, max=low, sum=0.0)

    assert ridge_svg([(1, odd)], "#000", Phrase) is None


def test_a_ridge_stands_on_its_step_and_is_as_high_as_its_density() -> None:
    def histogram(*counts: int) -> Histogram:
        lefts = 10.0 * np.arange(len(counts))
        # in an order of their own, with an empty bucket
        order = np.arange(len(counts))[::-1]
        return Histogram(
            lefts[order], np.full(len(counts), 10.0), np.array(counts)[order], sum(counts)
        )

    nothing = Histogram(np.zeros(0), np.zeros(0), np.zeros(0, np.int64), 2, nan_count=2)
    samples = [(3, histogram(1, 0, 3)), (5, nothing), (8, histogram(0, 4, 2, 2)), (9, histogram(5))]
    picture = ridge_svg(samples, "#123456", Phrase)

    assert picture is not None
    root = ElementTree.fromstring(picture)
    assert (root.get("viewBox"), root.get("aria-label")) == (
        *("0 0 400 124", "histograms of 3 steps, from 0 to 40"),
    )
    ridges = root.findall("polygon")
    assert {(ridge.get("fill"), ridge.get("stroke")) for ridge in ridges} == {("#123456",) * 2}
    titles = [ridge[0].text for ridge in ridges]
    assert titles == ["step 3: 4 elements", "step 8: 8 elements", "step 9: 5 elements"]
    bases = (54, 72, 90)
    heights = []
    for ridge, base in zip(ridges, bases, strict=True):
        points = [point.split(",") for point in ridge.get("points", "").split()]
        (left, first), *outline, (right, last) = points
        assert [(left, first), (right, last)] == [("52", f"{base}"), ("392", f"{base}")]
        assert (len(outline), outline[0][0], outline[-1][0]) == (60, "54.8", "389.2")
        heights.append([round(base - float(y), 1) for _, y in outline])
    # a quarter of the range has fifteen points; all of the last are in the first bucket
    assert heights == [
        [13.5] * 15 + [0.0] * 15 + [40.5] * 15 + [0.0] * 15,
        [0.0] * 15 + [27.0] * 15 + [13.5] * 30,
        [54.0] * 15 + [0.0] * 45,
    ]
    texts = [(text.get("x"), text.get("y"), text.text) for text in root.findall("text")]
    assert texts == [
        *(("46", "54", "3"), ("46", "72", "8"), ("46", "90", "9")),
        *(("52.0", "108", "0"), ("137.0", "108", "10"), ("222.0", "108", "20")),
        *(("307.0", "108", "30"), ("392.0", "108", "40")),
    ]
    assert [path.get("d") for path in root.findall("path")] == [
        f"M{x} 90v5" for x in ("52.0", "137.0", "222.0", "307.0", "392.0")
    ]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 5.0, ["0", "1", "2", "3", "4", "5"]),
        (0.0, 5.5, ["0", "2", "4"]),
        (-3.2, 7.9, ["0", "5"]),
        (0.011, 0.039, ["0.02", "0.03"]),
        (-40.0, -5.0, ["-40", "-30", "-20", "-10"]),
    ],
)
def test_ticks_are_about_five_round_numbers(low: float, high: float, ticks: list[str]) -> None:
    odd = Histogram(np.array([low]), np.array([high - low]), np.array([1]), 1)
    picture = ridge_svg([(100, odd)], "#000", Phrase)

    assert re.findall(r">([^<>]+)</text>", picture or "") == ["100", *ticks]


def test_ridges_of_equally_many_steps_have_equal_areas() -> None:
    narrow = Histogram(
        np.array([0.0]), np.array([1.0]), np.array([7]), 7, min=0.0, max=1.0, sum=3.0
    )
    wide = Histogram(
        np.array([0.0, 2.0]), np.array([2.0, 2.0]), np.array([1, 3]), 4, min=0.0, max=4.0, sum=9.0
    )

    picture = ridge_svg([(1, narrow), (2, wide)], "#000", Phrase)

    assert picture is not None
    areas = []
    for points in re.findall('points="(.*?)"', picture):
        xs, ys = np.array([point.split(",") for point in points.split()], float).T
        areas.append((ys[0] - ys[1:-1]).sum() * np.diff(xs[1:-1]).mean())
    assert areas[0] == pytest.approx(areas[1], rel=0.02)


def test_a_flat_landscape_has_no_contours() -> None:
    axis = np.linspace(-1, 1, 3, dtype=np.float32)
    flat = np.zeros((3, 3), np.float32)

    assert landscape_figure(LossLandscape(Points(axis, axis, flat)), Phrase) is None


def test_the_outline_counts_operations_by_scope_and_type() -> None:
    nodes = [
        ("1", "Conv2d", "Net/a"),
        ("2", "ReLU", "Net/a"),
        ("3", "ReLU", "Net/a"),
        ("4", "Add", "Net"),
    ]
    graph = Graph(
        tuple(
            GraphNode(name, kind, scope, f"{scope}/{kind}-op{name}") for name, kind, scope in nodes
        )
    )

    net = graph_outline(graph).scopes["Net"]

    assert (net.total, net.summary) == (4, "Add")
    assert net.scopes["a"].summary == "Conv2d, 2 ReLU"


def test_operations_deep_in_a_graph_count_in_their_eighth_scope() -> None:
    deep = "/".join("abcdefghij")
    nodes = [
        GraphNode("1", "Conv2d", deep),
        GraphNode("2", "ReLU", "a/b//c/"),
        GraphNode("3", "Add"),
    ]
    scope = graph_outline(Graph(tuple(nodes)))

    assert (scope.name, scope.summary, scope.total) == ("", "Add", 3)
    path = []
    while scope.scopes:
        (scope,) = scope.scopes.values()
        path.append((scope.name, scope.summary, scope.total))
    assert path == [
        *(("a", "", 2), ("b", "", 2), ("c", "ReLU", 2), ("d", "", 1), ("e", "", 1), ("f", "", 1)),
        *(("g", "", 1), ("h", "Conv2d", 1)),
    ]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> list[ReportRun]:
    """A run with something of everything, and one of a few scalars that began earlier."""
    base = tmp_path_factory.mktemp("runs")
    write_demo_run(base / "demo", steps=30)
    values = ({"z": 0.5, "one": 3.0}, {"z": 1.5, "accuracy": math.inf}, {"b": 4.0})
    records = [
        values_at(step, dict(scalars)) for step, scalars in zip((1, 2, 9), values, strict=True)
    ]
    write_summary(
        base / "few",
        [*records, values_at(3, {"b": 2.0}, 1600000000.0), values_at(4, {"w": histogram(2)})],
    )
    write_lineage(base / "few", [TrainInfo(network="LeNet", learning_rate=0.25)])
    return open_runs([str(base / "demo"), str(base / "few")])[0]


def test_runs_are_opened_with_their_names_extents_and_colours(opened: list[ReportRun]) -> None:
    assert [(run.number, run.name, run.colour) for run in opened] == [
        *((0, "demo", COLOURS[0]), (1, "few", COLOURS[1]))
    ]
    assert [run.extent for run in opened] == [
        f"last step 30, started {datetime.fromtimestamp(1700000001):%Y-%m-%d %H:%M}",
        f"last step 9, started {datetime.fromtimestamp(1600000000):%Y-%m-%d %H:%M}",
    ]


def test_every_value_of_the_runs_has_its_box(opened: list[ReportRun]) -> None:
    with OpenFiles() as files:
        plan = [(title, make()) for title, make in planned_cards(opened, files, Phrase)]

    boxes = [
        (title, str(card.title), card.run and card.run.name, str(card.note)) for title, card in plan
    ]
    assert boxes == [
        ("Scalars", "accuracy", None, ""),
        ("Scalars", "b", None, ""),
        ("Scalars", "loss/auto", None, ""),
        ("Scalars", "z", None, ""),
        ("Histograms", "conv1.weight/auto", "demo", ""),
        ("Histograms", "w", "few", ""),
        ("Images", "input_data/auto", "demo", ""),
        (
            "Loss landscapes",
            "landscape_[1, 2, 3]",
            "demo",
            "loss 0.117537 to 3.1402, 16 x 12 points",
        ),
        ("Computational graphs", "graph", "demo", "2 operations, 0 parameters"),
    ]
    cards = {str(card.title): card for _, card in plan}
    last = {
        tag: [(run.name, value) for run, value in card.last_values] for tag, card in cards.items()
    }
    demo = opened[0].scalars
    assert last == {
        **{tag: [] for tag in cards},
        "accuracy": [("demo", f"{demo['accuracy'].values[-1]:.6g}"), ("few", "inf")],
        "b": [("few", "4")],
        "loss/auto": [("demo", f"{demo['loss/auto'].values[-1]:.6g}")],
        "z": [("few", "1.5")],
    }
    assert [step for step, _ in cards["input_data/auto"].images] == [30]
    ((_, uri),) = cards["input_data/auto"].images
    assert base64.b64decode(uri.removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")
    assert [cards[tag].svg.count("<polygon") for tag in ("conv1.weight/auto", "w")] == [3, 1]
    assert COLOURS[0] in cards["conv1.weight/auto"].svg
    assert [len(card.figures) for card in cards.values()] == [0, 0, 0, 0, 0, 0, 0, 1, 0]
    outline = cards["graph"].outline
    assert outline is not None
    assert outline.summary == "Conv2D, ReLU"


def test_curves_have_the_numbers_colours_and_points_of_their_runs(opened: list[ReportRun]) -> None:
    curves = {str(make().title): make().curves for make in curve_cards(opened)}

    assert list(curves) == ["accuracy", "b", "loss/auto", "z"]
    assert [(curve["run"], curve["colour"]) for curve in curves["accuracy"]] == [
        *((0, COLOURS[0]), (1, COLOURS[1]))
    ]
    columns = {
        name: (kind, np.frombuffer(base64.b64decode(text), kind).tolist())
        for name, (kind, text) in curves["b"][0]["columns"].items()
    }
    assert columns == {"step": ("<i4", [3, 9]), "value": ("<f4", [2.0, 4.0])}


def test_scalars_of_one_sample_and_settings_are_rows(opened: list[ReportRun]) -> None:
    assert single_values(opened) == {"one": ["", "3"]}
    rows = lineage_rows(opened)
    assert rows[0] == ("optimizer", ["Adam", ""], True)
    assert ("learning_rate", ["0.01", "0.25"], True) in rows
    assert [name for name, _, differs in rows if not differs] == ["network"]
    assert rows[-1] == ("network", ["LeNet", "LeNet"], False)


def test_the_usual_value_is_the_most_frequent() -> None:
    assert [usual_value(values) for values in ("abc", "a", "abb", "aabbb")] == ["", "", "b", "b"]


def test_a_contour_shows_the_path_and_where_the_training_ended() -> None:
    x, y = np.array([-1.0, 0.0, 2.0], np.float32), np.array([0.0, 3.0], np.float32)
    z = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, np.nan]], np.float32)
    path = Points(
        *(np.array(numbers, np.float32) for numbers in ([2.0, 1.0], [3.0, 0.5], [4.0, 1.5]))
    )
    landscape = LossLandscape(
        Points(x, y, z), (7, 9), path, (1.0, 0.5, 1.5), LandscapeMetadata("PCA", "epoch", 2)
    )
    plot = landscape_figure(landscape, Phrase)

    assert plot is not None
    assert [plot.xaxis.axis_label, plot.yaxis.axis_label] == ["first direction", "second direction"]
    _, line, points, star = plot.renderers
    for renderer in (line, points):
        columns = {
            name: np.asarray(column).tolist() for name, column in renderer.data_source.data.items()
        }
        assert columns == {"x": [2, 1], "y": [3, 0.5], "loss": [4, 1.5], "number": [7, 9]}
    end = {name: list(column) for name, column in star.data_source.data.items()}
    assert end == {"x": [1.0], "y": [0.5], "loss": [1.5]}
    hovers = [(tool.renderers, tool.tooltips) for tool in plot.tools if isinstance(tool, HoverTool)]
    assert hovers == [
        ([points], [("epoch", "@number{0}"), ("loss", "@loss")]),
        ([star], [("end of training, loss", "@loss")]),
    ]
    for odd in (z[:1], z[:, :1]):
        axes = np.arange(odd.shape[1]), np.arange(odd.shape[0])
        assert landscape_figure(LossLandscape(Points(*axes, odd)), Phrase) is None
    assert landscape_figure(replace(landscape, intervals=(7,)), Phrase) is None


def test_a_heat_map_has_a_cell_for_each_parameter_and_step(tmp_path: Path) -> None:
    names = ("first.weight", "x" * 40, "y" * 41)
    write_parameter_run(tmp_path, names)
    content = FollowedRun(str(tmp_path), on_damage="raise")
    content.refresh()
    table = read_parameter_table(content)
    assert table is not None

    plot = parameter_figure(table, Phrase)
    data = {name: list(column) for name, column in plot.renderers[0].data_source.data.items()}

    assert data["x"] == [0, 1, 2, 3, 4] * 3
    assert data["y"] == [0] * 5 + [1] * 5 + [2] * 5
    assert data["name"] == [name for name in names for _ in range(5)]
    assert data["step"] == [1, 10, 20, 30, 40] * 3
    assert data["number"][:10] == ["-1.00"] * 5 + ["-2.00", "-2.00", "-inf", "-2.00", "-2.00"]
    assert data["sign"] == [""] * 7 + ["0"] + [""] * 5 + ["\u00d7"] * 2
    assert plot.yaxis.ticker.ticks == [0, 1, 2]
    assert plot.yaxis.major_label_overrides == {0: names[0], 1: names[1], 2: "…" + "y" * 39}
    assert plot.xaxis.ticker.ticks == [0, 1, 2, 3, 4]
    assert plot.xaxis.major_label_overrides == {0: "1", 1: "10", 2: "20", 3: "30", 4: "40"}
    assert (plot.y_range.start, plot.y_range.end) == (2.5, -0.5)
    assert plot.xaxis.axis_label == "step"
    (hover,) = plot.select(HoverTool)
    assert hover.tooltips == [("parameter", "@name"), ("step", "@step{0}"), ("log10", "@number")]


@pytest.mark.slow
def test_the_command_takes_directories_of_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_demo_run(tmp_path / "runs" / "a")
    write_demo_run(tmp_path / "runs" / "b")

    answer = mindsummary(
        capsys, "report", tmp_path / "runs", tmp_path / "runs" / "b", "-o", tmp_path / "r.html"
    )

    assert answer.code == 0
    assert answer.out.startswith(f"{tmp_path / 'r.html'}: 2 runs, ")
    assert answer.err == ""


def test_the_page_is_report_html_unless_another_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_summary(tmp_path / "a", [values_at(1, {"x": 1.0})])
    monkeypatch.chdir(tmp_path)

    assert mindsummary(capsys, "report", "a").out.startswith("report.html: 1 run, ")
    assert (tmp_path / "report.html").is_file()


def test_a_large_page_is_announced_before_it_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_demo_run(tmp_path / "a")
    monkeypatch.setattr("mindsummary_lightning.cli.report.LARGE_BYTES", 1_000_000)

    answer = mindsummary(capsys, "report", tmp_path / "a", "-o", tmp_path / "r.html")

    announced = float(re.findall(r"about ([0-9.]+) MB", answer.err)[0])
    assert announced == pytest.approx((tmp_path / "r.html").stat().st_size / 1e6, rel=0.5)


@pytest.mark.parametrize("wall_time", [np.nan, np.inf, 1e12, -1e18])
def test_a_time_that_no_calendar_has_is_left_out(tmp_path: Path, wall_time: float) -> None:
    write_summary(tmp_path / "run", [values_at(3, {"loss": 1.0}, wall_time)])

    assert '<span class="small">last step 3</span>' in _page(tmp_path, tmp_path / "run")


def test_a_landscape_without_a_point_is_shown_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = np.empty(0, np.float32)
    empty = LossLandscape(Points(nothing, nothing, nothing.reshape(0, 0)))
    write_summary(tmp_path / "run", [values_at(1, {"landscape_[1]": empty})])

    assert "loss not finite, 0 x 0 points" in _page(tmp_path, tmp_path / "run")
    assert mindsummary(capsys, "show", tmp_path).out.split()[-5:] == ["0", "x", "0", "-", "final"]


def test_a_damaged_run_costs_itself_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(tmp_path / "runs" / "whole", [values_at(1, {"loss": 0.25})])
    damaged = write_summary(
        tmp_path / "runs" / "torn", [values_at(1, {"loss": 0.5}), values_at(2, {"loss": 0.5})]
    )
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")

    answer = mindsummary(capsys, "report", tmp_path / "runs", "-o", tmp_path / "r.html")
    alone = mindsummary(capsys, "report", tmp_path / "runs" / "torn", "-o", tmp_path / "none.html")

    first, note = answer.out.splitlines()
    assert (answer.code, first.split(", ")[0]) == (1, f"{tmp_path / 'r.html'}: 1 run")
    assert note.startswith("skipped because it cannot be read: torn: record at byte ")
    words = ("report", tmp_path / "runs", "-o", tmp_path / "r.html", "--json")
    as_json = mindsummary(capsys, *words)
    assert json.loads(as_json.out) == {
        "file": str(tmp_path / "r.html"),
        "runs": 1,
        "bytes": (tmp_path / "r.html").stat().st_size,
    }
    assert (as_json.code, as_json.err, answer.err) == (1, f"mindsummary: {note}\n", "")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<h1>1 run</h1>" in page
    assert "<b>torn</b> cannot be read and is left out: record at byte " in page
    assert alone.code == 1
    assert not (tmp_path / "none.html").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="names of files are UTF-8 there")
def test_a_run_whose_name_is_in_no_encoding_is_taken_by_every_verb_that_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / os.fsdecode(b"run-\xff")
    write_summary(run, [values_at(1, {"loss": 1.0})])

    assert "run-\\udcff" in _page(tmp_path, run)
    for words in (
        ("export", run, "--to", "parquet"),
        ("export", run, "--to", "csv"),
        ("export", run, "--to", "npy"),
    ):
        assert mindsummary(capsys, *words, "--out", tmp_path / words[-1]).code == 0
    assert mindsummary(capsys, "compare", run, run, "--html", tmp_path / "page.html").code == 0


def test_a_report_tells_its_progress_card_by_card(tmp_path: Path) -> None:
    records = [values_at(step, {f"x{tag}": float(step) for tag in range(7)}) for step in (1, 2)]
    write_summary(tmp_path / "a", records)
    done: list[int] = []

    write_report([str(tmp_path / "a")], str(tmp_path / "r.html"), done.append)

    assert (len(done), sum(done)) == (7 + 1, 100)


@pytest.mark.slow
def test_a_thinned_curve_says_so(tmp_path: Path) -> None:
    write_summary(tmp_path / "a", [values_at(step, {"x": float(step % 7)}) for step in range(6000)])

    assert "5,000 points of 6,000 are drawn" in _page(tmp_path, tmp_path / "a")


def test_without_bokeh_the_command_names_the_packages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_demo_run(tmp_path / "a")
    monkeypatch.setitem(sys.modules, "bokeh.embed", None)

    answer = mindsummary(capsys, "report", tmp_path / "a", "-o", tmp_path / "r.html")

    assert (answer.code, answer.out) == (1, "")
    assert (
        "the report needs bokeh, contourpy and jinja2: pip install bokeh contourpy jinja2"
        in answer.err
    )


def test_parameters_are_drawn_with_their_names_and_what_went_wrong_first(tmp_path: Path) -> None:
    write_parameter_run(tmp_path / "run", ("</script><b>first", "first.bias", "last.weight"))

    page = _page(tmp_path, tmp_path / "run")

    note = "first not finite: the gradient of last.weight at step 30, where the loss is 0.0333333"
    assert ">Parameters</h2>" in page
    assert page.count("const docs_json") == _without_scripts(page).count("data-root-id") == 1
    assert note in page
    assert "first.bias" in page
    assert "<b>first" not in page
    nesting = _Nesting()
    nesting.feed(_without_scripts(page))
    assert nesting.open == []


@pytest.mark.filterwarnings("error")
def test_a_thousand_parameters_are_few_rows(tmp_path: Path) -> None:
    write_parameter_run(
        tmp_path, tuple(f"layers.{number // 2}.{number % 2}" for number in range(1000))
    )
    content = FollowedRun(str(tmp_path), on_damage="raise")
    content.refresh()
    table = read_parameter_table(content)
    assert table is not None

    data = parameter_figure(table, Phrase).renderers[0].data_source.data

    assert len(data["colour"]) <= 120 * 5
    assert data["name"][-1].endswith("layers.499")
    assert data["colour"][-1] == "#e31a1c"
    signs = zip(data["colour"], data["sign"], strict=True)
    assert {sign for colour, sign in signs if colour == "#e31a1c"} == {"\u00d7"}
    assert data["sign"][0] == ""


@pytest.mark.slow
def test_the_page_is_chinese_where_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        write_demo_run(tmp_path / "runs" / name)
    write_parameter_run(tmp_path / "runs" / "c", ("first.bias", "last.weight"))
    out = tmp_path / "report.html"

    mindsummary(capsys, "report", tmp_path / "runs", "--language", "zh", "-o", out)

    page = _without_scripts(out.read_text(encoding="utf-8"))
    texts = re.findall(
        r"<(?:h1|h2[^>]*|summary|p[^>]*|figcaption[^>]*|button[^>]*|label|title)>([^<]+)", page
    )
    assert '<html lang="zh-CN">' in page
    assert [text for text in texts if not re.search(r"[\u4e00-\u9fff]|^[abc, ]+$", text)] == []
    assert "<h1>3 次训练</h1>" in page
    assert "首个非有限值：第 30 步，last.weight 的梯度，该步损失为 0.0333333；颜色：" in page
    assert 'aria-label="loss/auto 的曲线"' in page
    nesting = _Nesting()
    nesting.feed(page)
    assert nesting.open == []


def test_a_tag_keeps_its_name_in_every_language(tmp_path: Path) -> None:
    write_summary(tmp_path / "run", [values_at(step, {"graph": 1.0 / step}) for step in (1, 2)])

    write_report([str(tmp_path / "run")], str(tmp_path / "report.html"), language="zh")

    assert "<h3>graph</h3>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_report_in_an_unknown_language_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="language must be 'en' or 'zh', got 'de'"):
        write_report([str(tmp_path)], str(tmp_path / "report.html"), language="de")


def test_every_phrase_of_the_report_has_a_chinese_one_with_the_same_values() -> None:
    package = ROOT / "mindsummary_lightning"
    folder = package / "export" / "report"
    chinese = json.loads((folder / "report_zh.json").read_text(encoding="utf-8"))
    template = (folder / "templates" / "report.html").read_text(encoding="utf-8")
    said = set(re.findall(r'say\("([^"]+)"', template)) | set(STATUSES)
    for path in [*folder.glob("*.py"), package / "reading" / "output_statistics.py"]:
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                first = call.args[0] if call.args else None
                if call.func.id in ("Phrase", "say") and isinstance(first, ast.Constant):
                    said.add(first.value)

    assert {text for text in said if re.search("[a-z]", text)} - set(chinese) == set()
    for text, translated in chinese.items():
        assert text.count("{") == translated.count("{"), text
