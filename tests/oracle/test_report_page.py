"""The HTML report in a real browser: drawn, usable on a phone, and its controls work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mindsummary_lightning.export.report import write_report
from tests.cli.demo_run import write_demo_run
from tests.oracle.browser import Browser, running_browser
from tests.reading.runs import values_at, write_summary

_CURVE = "Bokeh.documents.flatMap(doc => doc.roots()).filter(plot => plot.tags.includes('curve'))"
_LINES = f"{_CURVE}[0].renderers.filter(line => line.name === 'run0')"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("report")
    for name, rate in (("a", 0.01), ("b", 0.03)):
        write_demo_run(folder / "runs" / name, rate)
    path = folder / "report.html"
    write_report([str(folder / "runs" / name) for name in ("a", "b")], str(path))
    with running_browser(path.as_uri(), tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def _open(report: Browser) -> None:
    """The page, when both of its curves are drawn."""
    report.driver.get(report.address)
    report.wait(f"{_CURVE}.length === 2")


@pytest.mark.parametrize("width", [1300, 390])
def test_the_report_fits_the_screen_and_the_console_stays_empty(
    report: Browser, width: int
) -> None:
    driver = report.driver
    report.screen(width)
    _open(report)
    content = driver.execute_script("return document.documentElement.scrollWidth")

    assert content <= width
    assert driver.execute_script(f"return {_CURVE}.length") == 2
    assert report.errors() == []


@pytest.mark.slow
def test_names_of_many_runs_leave_room_for_the_curves(report: Browser, tmp_path: Path) -> None:
    runs = [tmp_path / f"\u202e{number}{'x' * 200}" for number in range(12)]
    for run in runs:
        write_summary(run, [values_at(step, {"loss": 1.0 / step}) for step in (1, 2)])
    write_report([str(run) for run in runs], str(tmp_path / "report.html"))

    report.driver.get((tmp_path / "report.html").as_uri())

    size = "document.querySelector('.controls').getBoundingClientRect().height / innerHeight"
    assert report.driver.execute_script(f"return {size}") <= 0.3
    assert report.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_runs_can_be_switched_off(report: Browser) -> None:
    _open(report)

    report.driver.execute_script("document.querySelector('[data-run=\"0\"]').click()")

    assert report.driver.execute_script(f"return {_LINES}.map(line => line.visible)") == [False]


def test_smoothing_changes_what_is_drawn_and_keeps_what_was_recorded(report: Browser) -> None:
    _open(report)
    columns = (
        f"return ['raw', 'value'].map(name => Array.from({_LINES}[0].data_source.data[name] ?? []))"
    )
    nothing, raw = report.driver.execute_script(columns)
    assert nothing == []

    slide = (
        "const bar = document.getElementById('smoothing'); bar.value = 0.9; "
        "bar.dispatchEvent(new Event('input'));"
    )
    still, smooth = report.driver.execute_script(slide + columns)

    assert still == raw
    assert smooth != raw
    assert smooth[0] == pytest.approx(raw[0])
    assert max(smooth) - min(smooth) < max(raw) - min(raw)


def test_the_log_axis_takes_the_place_of_the_linear_one_and_gives_it_back(report: Browser) -> None:
    _open(report)
    shown = f"{_CURVE}.filter(plot => plot.visible).map(plot => plot.tags[1]).join()"

    for scales in ("linear,linear", "log,log", "linear,linear"):
        report.wait(f"{shown} === '{scales}'")
        report.driver.execute_script("document.getElementById('log').click()")

    # one for each scale, made once
    assert report.driver.execute_script(f"return {_CURVE}.length") == 4


def test_a_curve_of_negative_values_keeps_its_linear_axis(report: Browser, tmp_path: Path) -> None:
    write_summary(
        tmp_path / "run", [values_at(step, {"a": -1.0 * step, "b": 1.0 * step}) for step in (1, 2)]
    )
    write_report([str(tmp_path / "run")], str(tmp_path / "report.html"))
    report.driver.get((tmp_path / "report.html").as_uri())
    report.wait(f"{_CURVE}.length === 2")

    report.driver.execute_script("document.getElementById('log').click()")

    report.wait(
        f"{_CURVE}.filter(plot => plot.visible).map(plot => plot.tags[1]).join() === 'linear,log'"
    )


def test_a_drawn_point_is_the_recorded_one(report: Browser, tmp_path: Path) -> None:
    steps, values = [1, 2, 2**40], [0.5, float("nan"), 3.0]
    recorded = zip(steps, values, strict=True)
    write_summary(tmp_path / "run", [values_at(step, {"x": value}) for step, value in recorded])
    write_report([str(tmp_path / "run")], str(tmp_path / "report.html"))
    report.driver.get((tmp_path / "report.html").as_uri())
    report.wait(f"{_CURVE}.length === 1")

    columns = f"{_LINES}[0].data_source.data"
    script = f"return ['step', 'value', 'alone'].map(name => Array.from({columns}[name], String))"

    assert report.driver.execute_script(script) == [
        ["1", "2", str(2**40)],
        ["0.5", "NaN", "3"],
        ["0.5", "NaN", "3"],
    ]


def test_one_diverged_run_does_not_flatten_the_others_until_all_points_are_asked_for(
    report: Browser, tmp_path: Path
) -> None:
    for name in "abcde":
        worst = 10.0**30 if name == "e" else 0.0
        losses = [1 / step + (worst if step > 25 else 0.0) for step in range(1, 31)]
        events = [values_at(step, {"loss": loss}) for step, loss in enumerate(losses, 1)]
        write_summary(tmp_path / name, events)
    path = tmp_path / "report.html"
    write_report([str(tmp_path / name) for name in "abcde"], str(path))
    report.driver.get(path.as_uri())
    report.wait(f"{_CURVE}.length === 1")

    top = f"return {_CURVE}[0].y_range.end"
    assert report.driver.execute_script(top) < 2
    report.driver.execute_script("document.getElementById('all').click()")
    assert report.driver.execute_script(top) > 1e30


def test_boxes_are_emptied_at_once_and_tags_are_filtered(report: Browser) -> None:
    _open(report)
    driver = report.driver

    driver.execute_script("document.querySelector('[data-all=\"0\"]').click()")
    assert driver.execute_script(f"return {_LINES}.map(line => line.visible)") == [False]
    driver.execute_script("document.querySelector('[data-all=\"1\"]').click()")
    assert driver.execute_script(f"return {_LINES}.map(line => line.visible)") == [True]

    driver.execute_script(
        "const box = document.getElementById('filter'); box.value = 'loss';"
        "box.dispatchEvent(new Event('input'))"
    )
    shown = "[...document.querySelectorAll('.card')].filter(card => card.checkVisibility())"
    tags = driver.execute_script(f"return {shown}.map(card => card.dataset.tag)")
    assert tags
    assert all("loss" in tag for tag in tags)


@pytest.mark.parametrize(
    ("ticks", "texts"),
    [
        ([0, 5e36, 1e37], ["0", "5e36", "1e37"]),
        ([1e6, 1.5e6], ["1e6", "1.5e6"]),
        ([3e9, 3e9 + 2], ["3e9", "3.000000002e9"]),
        ([0.5, 1], ["0.5", "1.0"]),
        ([0], ["0"]),
    ],
)
def test_numbers_of_an_axis_are_short_and_differ(
    report: Browser, ticks: list[float], texts: list[str]
) -> None:
    _open(report)

    assert report.driver.execute_script("return axisTexts(arguments[0])", ticks) == texts
    formatters = f"{_CURVE}[0].left.map(axis => axis.formatter.type)"
    assert report.driver.execute_script(f"return {formatters}") == ["CustomJSTickFormatter"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_of_all_figures_have_the_colour_of_the_pages_soft_texts(
    report: Browser, scheme: str
) -> None:
    report.screen(1400, scheme)
    _open(report)

    roots = "Bokeh.documents.flatMap(doc => doc.roots())"
    axes = f"{roots}.flatMap(plot => plot.below)"
    colours = f"new Set({axes}.map(axis => axis.major_label_text_color))"
    soft = "getComputedStyle(document.documentElement).getPropertyValue('--soft').trim()"
    report.wait(f"{roots}.length === 4")  # two curves and two landscapes
    report.wait(f"[...{colours}].join() === {soft}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_axe_finds_nothing_in_the_report(report: Browser, width: int, scheme: str) -> None:
    package = pytest.importorskip("axe_core_python", reason="axe-core-python is not installed")
    report.screen(width, scheme)
    _open(report)

    report.driver.execute_script((Path(package.__file__).parent / "axe.min.js").read_text("utf-8"))
    found = report.driver.execute_async_script("axe.run().then(arguments[0])")["violations"]

    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == []
