"""MindInsight's pages in a headless Chromium: opened, and waited for until their data is drawn.

Routes and selectors are those of the Vue pages in the 2.3.1 wheel, found by looking at runs that a
real MindSpore wrote. The pages live behind ``#`` (``<address>/#<route>``); a run is named by
``train_id`` (``./<folder>``), only the dashboard calls it ``id``. "Drawn" is judged by what a
person would see: a canvas with coloured pixels, a picture that has loaded, nodes of a graph, rows
of a table; and nothing moving any more. Every page keeps a hidden "no data" picture, so only a
visible one counts.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from tests.oracle.mindinsight_server import wait_until

if TYPE_CHECKING:
    from selenium.webdriver.remote.webdriver import WebDriver

_DRAW_LIMIT_S = 30.0
_POLL_S = 0.05
_STILL_POLLS = 10  # for canvases, whose charts grow their lines
_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # containers run tests as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1600,1000",
)

# For each visible element how much of it is drawn. A canvas: its coloured pixels, because axes and
# labels are grey and only data has colour. A canvas of WebGL cannot be read back: its area. A
# picture: its width once it has loaded. Anything else: 1, for being there.
_MEASURE = """
const coloured = canvas => {
  const plane = canvas.width && canvas.height && canvas.getContext('2d');
  if (!plane) return canvas.width * canvas.height;
  const bytes = plane.getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let i = 0; i < bytes.length; i += 4) {
    const spread = Math.max(bytes[i], bytes[i + 1], bytes[i + 2]) - Math.min(bytes[i], bytes[i + 1], bytes[i + 2]);
    count += bytes[i + 3] > 0 && spread > 40;
  }
  return count;
};
const visible = element => element.getClientRects().length > 0;
return [...document.querySelectorAll(arguments[0])].filter(visible).map(element =>
  element.tagName === 'CANVAS' ? coloured(element) :
  element.tagName === 'IMG' ? (element.complete ? element.naturalWidth : 0) : 1);
"""
# MindInsight answers 500 for this file of its own now and then on a busy machine, whatever the run
# holds; a person would load the page again.
_OWN_FILE = "graphvizlib.wasm"
_HAS_FAILED = """
return performance.getEntriesByType('resource').some(
  entry => entry.name.includes(arguments[0]) && entry.responseStatus >= 400);
"""
_ATTEMPTS = 4
_ENOUGH_COLOUR = 100  # pixels; a line of two points has more

# Placeholders a page shows instead of data.
_FIND_PLACEHOLDERS = """
return [...document.querySelectorAll('img[src*="nodata"], .el-message--error')]
  .filter(element => element.getClientRects().length > 0)
  .map(element => (element.closest('div') || element).innerText.trim() || element.src);
"""


@dataclass(frozen=True)
class Page:
    """A page of MindInsight.

    Attributes:
        route: what follows ``#`` in its address.
        drawn: selectors of what shows data; all of them must have drawn.
        run_parameter: name of the query parameter that says which run; empty for pages over all
            runs.
    """

    route: str
    drawn: tuple[str, ...]
    run_parameter: str = ""


_TABLE_ROW = ".el-table__body tr.el-table__row"

# The cards of the dashboard; one without data shows how to record it instead.
DASHBOARD_CARDS = {
    "scalar": "#module-chart canvas",
    "histogram": "#distribution-chart canvas",
    "tensor": ".cl-dashboard .slick-row",
    "image": ".cl-dashboard img.sample-img",
    "graph": ".cl-dashboard svg g.node",  # the computational and the data graph
}

PAGES = {
    "summary list": Page("/summary-manage", (_TABLE_ROW,)),
    "dashboard": Page(
        "/train-manage/training-dashboard",
        (DASHBOARD_CARDS["scalar"], DASHBOARD_CARDS["graph"]),
        "id",
    ),
    "scalar": Page("/train-manage/scalar", (".char-item-content canvas",), "train_id"),
    "histogram": Page("/train-manage/histogram", (".char-item-content canvas",), "train_id"),
    "image": Page("/train-manage/image", ("img.sample-img",), "train_id"),
    "tensor": Page("/train-manage/tensor", (".slick-row",), "train_id"),
    "graph": Page(
        "/train-manage/graph", ("#graph svg g.node", "#small-container canvas"), "train_id"
    ),
    "data graph": Page("/train-manage/data-map", (".cl-data-map svg g.node",), "train_id"),
    # The surface and the curve of scalar tag loss/auto beside it.
    "loss analysis": Page(
        "/train-manage/loss-analysis", (".chart-item canvas", "#commonChart canvas"), "train_id"
    ),
    "model lineage": Page("/model-traceback", ("#echart canvas", _TABLE_ROW)),
    "data lineage": Page("/data-traceback", ("#data-echart canvas", _TABLE_ROW)),
    "scalar comparison": Page("/compare-analysis/scalar", (".char-item-content canvas",)),
    "loss comparison": Page("/compare-analysis/loss", (".chart-item canvas",)),
}


@dataclass(frozen=True)
class Browser:
    """A running Chromium.

    Attributes:
        driver: selenium's handle.
        address: the MindInsight it looks at, ``http://127.0.0.1:<port>``.
    """

    driver: WebDriver
    address: str

    def open(self, name: str, train_id: str | None = None) -> None:
        """Open a page and wait until it has drawn.

        Args:
            name: a key of ``PAGES``.
            train_id: the run, ``./<folder>``; ``None`` for pages over all runs.

        Raises:
            AssertionError: it had not in time; says what the page shows and what its console says.
        """
        page = PAGES[name]
        query = (
            f"?{urlencode({page.run_parameter: train_id})}"
            if page.run_parameter and train_id
            else ""
        )
        for attempt in range(_ATTEMPTS):
            # the next address differs behind the # only: without this it would not load
            self.driver.get("about:blank")
            self._read_console()  # what was said before is not this page's
            self.driver.get(f"{self.address}/#{page.route}{query}")
            try:
                self.wait_drawn(*page.drawn)
                return
            except AssertionError as error:
                if _OWN_FILE not in str(error) or attempt + 1 == _ATTEMPTS:
                    raise

    def wait_drawn(self, *selectors: str) -> int:
        """Wait until of each selector an element is visible and drawn, and nothing there moves any
        more.

        Returns:
            How many elements are drawn.

        Raises:
            AssertionError: that was not so in time.
        """
        deadline = time.monotonic() + _DRAW_LIMIT_S
        measured: list[list[int]] = []
        still = 0  # polls in a row that saw the same
        needed = _STILL_POLLS if any("canvas" in selector for selector in selectors) else 1
        while still < needed or not all(map(any, measured)):
            is_late = time.monotonic() > deadline
            if is_late or (
                not all(map(any, measured)) and self.driver.execute_script(_HAS_FAILED, _OWN_FILE)
            ):
                reason = f"in {_DRAW_LIMIT_S:.0f} s" if is_late else f"without {_OWN_FILE}"
                raise AssertionError(
                    f"{selectors} did not settle {reason}: {measured}; console: "
                    f"{self._read_console()}; "
                    f"the page shows: {self.text()[:600]}"
                )
            time.sleep(_POLL_S)
            before, measured = measured, [self._measure(selector) for selector in selectors]
            still = still + 1 if measured == before else 0
        return sum(amount > 0 for part in measured for amount in part)

    def wait(self, condition: str) -> None:
        """Wait until an expression of the page's is true."""
        wait_until(lambda: bool(self.driver.execute_script(f"return {condition}")), self.text)

    def screen(self, width: int, scheme: str = "light") -> None:
        """Look at the pages on a screen of this width, a phone's below 500, in a light or dark
        scheme.
        """
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        for name, values in (("setDeviceMetricsOverride", size), ("setEmulatedMedia", media)):
            self.driver.execute("executeCdpCommand", {"cmd": f"Emulation.{name}", "params": values})

    def text(self) -> str:
        """The text a person sees."""
        text: str = self.driver.execute_script("return document.body.innerText")
        return text

    def placeholders(self) -> list[str]:
        """Visible "no data" pictures and error messages."""
        found: list[str] = self.driver.execute_script(_FIND_PLACEHOLDERS)
        return found

    def errors(self) -> list[str]:
        """What the page's scripts and requests complained about since it was opened, at level
        SEVERE.
        """
        return [entry["message"] for entry in self._read_console() if entry["level"] == "SEVERE"]

    def failed_requests(self) -> list[str]:
        """Requests since the last call that were answered with an error or not at all: status or
        reason, address.
        """
        failed, addresses = [], {}
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            facts = message["params"]
            if message["method"] == "Network.requestWillBeSent":
                addresses[facts["requestId"]] = facts["request"]["url"]
            elif (
                message["method"] == "Network.responseReceived"
                and facts["response"]["status"] >= 400
            ):
                failed.append(f"{facts['response']['status']} {facts['response']['url']}")
            elif message["method"] == "Network.loadingFailed" and not facts.get("canceled"):
                address = addresses.get(facts["requestId"])
                # else Chromium's own
                failed += [f"{facts['errorText']} {address}"] if address else []
        return failed

    def _measure(self, selector: str) -> list[int]:
        """How much is drawn of each visible element; 0 for what does not count."""
        measured: list[int] = self.driver.execute_script(_MEASURE, selector)
        is_canvas = "canvas" in selector
        return [0 if is_canvas and amount < _ENOUGH_COLOUR else amount for amount in measured]

    def _read_console(self) -> list[dict[str, Any]]:
        answer = self.driver.execute("getLog", {"type": "browser"})
        entries: list[dict[str, Any]] = answer["value"]
        return entries


@contextlib.contextmanager
def running_browser(address: str, profile: Path, entrance: str | None = None) -> Iterator[Browser]:
    """Start Chromium for a MindInsight; it is gone after the body. Where it is not installed, the
    test is skipped.

    Args:
        address: ``http://127.0.0.1:<port>``.
        profile: an empty directory for its profile.
        entrance: the address that is opened first, with a token; ``None`` where none is needed.
    """
    pytest.importorskip("selenium")  # sessions without MindInsight do not install it
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    chromium = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    driver_path = shutil.which("chromedriver")
    if not chromium or not driver_path:
        pytest.skip(
            "chromium and chromedriver are not on the PATH (Debian: apt-get install chromium "
            "chromium-driver)"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_path))
    try:
        driver.get(entrance or address)
        # The graph page lays an introduction over itself on the first visit.
        driver.execute_script(
            "localStorage.setItem('graphShowGuide', true); localStorage.setItem('milang', 'en-us')"
        )
        yield Browser(driver, address)
    finally:
        driver.quit()


def wait_for_download(path: Path) -> None:
    """Wait until a download has its bytes; the browser makes its file empty at first."""
    wait_until(
        lambda: path.exists() and path.stat().st_size > 0,
        lambda: str(list(path.parent.iterdir())),
    )
