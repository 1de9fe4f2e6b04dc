"""What somebody else may put before the user's browser: names with markup in a run, and a page on
another port.
"""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.conversion.user_images import to_image
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    Event,
    Graph,
    GraphInput,
    GraphNode,
    Tensor,
    TrainInfo,
    UserDefinedInfo,
)
from mindsummary_lightning.viewer import browser as users_browser
from tests.oracle.browser import PAGES, Browser, running_browser
from tests.reading.runs import record, values_at, write_lineage, write_summary
from tests.viewer.view_process import View, viewing

_MARKUP = "<s class=inserted>&lt;\"'"
_RUN = f"a{_MARKUP}"
_COUNT_INSERTED = "return document.querySelectorAll('s.inserted').length"
# On the others no name became an element when it was answered as it is: they were tried once.
_PAGES = ["scalar", "graph", "data graph", "model lineage", "scalar comparison"]


def _write_run(run: Path, rate: float) -> None:
    nodes = (
        GraphNode("1", f"Conv{_MARKUP}", scope=f"Default/{_MARKUP}"),
        GraphNode("2", f"ReLU{_MARKUP}", scope=f"Default/{_MARKUP}", inputs=(GraphInput("1"),)),
    )
    records = [record(Event(1700000000.0, 0, Graph(nodes)))]
    for step in range(1, 21):
        values = {f"loss{_MARKUP}": 1 / (step + rate), "loss/auto": 1 / (step + rate)}
        records.append(values_at(step, values))  # type: ignore[arg-type]
        weights = np.random.default_rng(step).normal(size=100).astype(np.float32)
        records.append(
            values_at(
                step,
                {
                    f"h{_MARKUP}": to_histogram(weights),
                    f"i{_MARKUP}": to_image(np.full((3, 8, 8), 0.5, np.float32), "CHW"),
                    f"t{_MARKUP}": Tensor(weights),
                },
            )
        )
    write_summary(run, records)
    pipeline = DatasetGraph(
        {"op_type": f"Batch{_MARKUP}", "batch_size": int(80 * rate)},
        children=(DatasetGraph({"op_type": "B"}),),
    )
    train = TrainInfo(
        f"Adam{_MARKUP}",
        rate,
        f"Loss{_MARKUP}",
        2,
        "alone",
        1,
        32,
        None,
        100,
        f"Net{_MARKUP}",
        rate,
    )
    noted = UserDefinedInfo(
        {f"note{_MARKUP.replace(chr(34), '')}": f"first{_MARKUP}", "seed": rate}
    )
    write_lineage(
        run,
        [train, EvaluationInfo('{"accuracy<s class=inserted>": 0.5}', None, 10), pipeline, noted],
    )


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    runs = tmp_path_factory.mktemp("runs")
    for name, rate in ((_RUN, 0.1), ("b", 0.2), ("c", 0.3)):
        _write_run(runs / name, rate)
    with viewing(runs, tmp_path_factory.mktemp("cache")) as view:
        yield view


@pytest.fixture(scope="module")
def browser(view: View, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_browser(view.server, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.mark.parametrize("page", _PAGES)
def test_no_name_of_a_run_becomes_an_element_of_a_page(page: str, browser: Browser) -> None:
    browser.open(page, f"./{_RUN}" if PAGES[page].run_parameter else None)
    address = browser.driver.current_url

    most = 0
    for x, y in _points_of_charts(browser):
        _point_at(browser, x, y)
        most = max(most, browser.driver.execute_script(_COUNT_INSERTED))

    assert most == 0
    assert browser.driver.current_url == address
    assert browser.placeholders() == []


def test_a_tooltip_shows_the_name_of_a_run_as_it_is(browser: Browser) -> None:
    browser.open("scalar comparison")
    tooltips = set()
    for x, y in _points_of_charts(browser):
        _point_at(browser, x, y)
        tooltips.add(
            browser.driver.execute_script(
                "return document.querySelector('.char-tip-table')?.innerText"
            )
        )

    assert any(_RUN in text.replace("\u2060", "") for text in tooltips if text)


def _points_of_charts(browser: Browser) -> list[tuple[int, int]]:
    """Points of the window that lie in its charts, four in each."""
    boxes = browser.driver.execute_script(
        "return [...document.querySelectorAll('canvas')].map(canvas => "
        "canvas.getBoundingClientRect())"
        ".filter(box => box.width > 50 && box.height > 50 && box.bottom < innerHeight && "
        "box.right < innerWidth)"
        ".map(box => [box.x, box.y, box.width, box.height])"
    )
    parts = (0.3, 0.6)
    return [
        (int(x + a * width), int(y + b * height))
        for x, y, width, height in boxes
        for a in parts
        for b in parts
    ]


def _point_at(browser: Browser, x: int, y: int) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    actions = ActionChains(browser.driver, duration=20)
    actions.w3c_actions.pointer_action.move_to_location(x, y)
    actions.perform()
    time.sleep(0.1)  # the charts draw their tooltips in a later frame


def test_a_page_on_another_port_does_not_get_the_token(view: View, browser: Browser) -> None:
    sent: list[str] = []

    class Neighbour(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent.append(f"{self.path} {self.headers}")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<title>neighbour</title>")

        def log_message(self, *_: object) -> None:
            pass

    browser.open("summary list")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Neighbour) as neighbour:
        threading.Thread(target=neighbour.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{neighbour.server_address[1]}/"
        browser.driver.execute_script(f"location.href = '{address}'")  # as a link of the page would
        browser.wait("document.title === 'neighbour'")
        assert (
            browser.driver.execute_script("return document.referrer + document.cookie + name") == ""
        )
        neighbour.shutdown()

    assert any(line.startswith("/ ") for line in sent)
    assert view.server.rpartition("/")[2] not in "".join(sent)


def test_the_file_that_the_browser_is_given_opens_the_pages(
    view: View, browser: Browser, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("BROWSER", "a-browser")
    monkeypatch.setattr(
        users_browser.subprocess, "Popen", lambda command, **_: commands.append(command)
    )

    with users_browser.opened_in_browser(view.addresses["runs"]):
        browser.driver.get(commands[0][-1])
        browser.wait("document.title === 'MindInsight'")
        browser.wait_drawn(*PAGES["summary list"].drawn)

    assert browser.driver.current_url == view.addresses["runs"]
