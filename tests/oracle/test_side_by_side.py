"""The same walk through the same runs, on the viewer and on the real MindInsight: every page shows
the same.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mindsummary_lightning import SummaryRecord
from tests.oracle.browser import PAGES, Browser, running_browser
from tests.oracle.mindinsight_server import running_mindinsight, wait_until
from tests.viewer.view_process import viewing

_MINDSPORE_RUNS = Path(__file__).with_name("mindspore_runs")
_RUN = "./momentum_0.01"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("side_by_side") / "runs"
    shutil.copytree(_MINDSPORE_RUNS, directory, ignore=shutil.ignore_patterns("*.py"))
    return directory


@pytest.fixture(scope="module")
def ours(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with (
        viewing(runs, tmp_path_factory.mktemp("cache")) as view,
        running_browser(
            view.server, tmp_path_factory.mktemp("ours"), view.addresses["runs"]
        ) as browser,
    ):
        yield browser


@pytest.fixture(scope="module")
def theirs(
    ours: Browser, runs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    with running_mindinsight(runs, tmp_path_factory.mktemp("workspace")) as server:
        for run in runs.iterdir():
            server.wait_cached(f"./{run.name}")
            server.wait_lineage(f"./{run.name}")
        with running_browser(server.address, tmp_path_factory.mktemp("theirs")) as browser:
            yield browser


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_it_shows_on_the_real_one(
    page: str, ours: Browser, theirs: Browser
) -> None:
    shown = []
    for browser in (ours, theirs):
        browser.open(page, _RUN if PAGES[page].run_parameter else None)
        assert browser.placeholders() == []
        shown.append(browser.text().splitlines())
    assert ours.errors() == []
    assert ours.failed_requests() == []

    assert shown[0] == shown[1]


def test_a_run_is_seen_while_it_appears_and_grows(ours: Browser, runs: Path) -> None:
    # the shortest that the page offers
    ours.driver.execute_script("localStorage.setItem('timeReloadValue', 3)")
    ours.open("summary list")
    with SummaryRecord(str(runs / "late")) as record:
        record.add_value("scalar", "loss", 1.0)
        record.record(1)
        record.add_value("scalar", "loss", 0.5)
        record.record(2)
        wait_until(
            lambda: "./late" in ours.text(),
            lambda: f"the run in the list, which shows {ours.text()}",
        )

        ours.open("scalar", "./late")
        canvas = "return document.querySelector('.char-item-content canvas').toDataURL()"
        seconds = []
        for step in (3, 4, 5):
            before = ours.driver.execute_script(canvas)
            started = time.monotonic()
            record.add_value("scalar", "loss", float(step))
            record.record(step)
            wait_until(
                lambda: ours.driver.execute_script(canvas) != before,  # noqa: B023
                lambda: "the curve to grow",
            )
            seconds.append(time.monotonic() - started)
        # the page's own refresh; two may be slowed down by a neighbour
        assert min(seconds) < 3 + 3, seconds
    shutil.rmtree(runs / "late")
    ours.open("summary list")
    wait_until(lambda: "./late" not in ours.text(), lambda: "the run to vanish from the list")
    assert ours.errors() == []
