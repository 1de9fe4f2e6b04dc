"""The site's search, in a browser: for each question the page that answers is among the first
three.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

import pytest

from tests.docs.pages import ROOT
from tests.docs.questions import CHINESE, ENGLISH
from tests.oracle.browser import Browser, running_browser

_LIMIT_S = 20
_FIRST_PAGES = """
const links = [...document.querySelectorAll("ul.search > li > a")].map(a => a.getAttribute("href").split(/[#?]/)[0]);
return document.querySelector(".search-summary")?.textContent && links.length ? [...new Set(links)].slice(0, 3) : null;
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    site = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-b", "html", ROOT / "docs", site],
        cwd=ROOT,
        check=True,
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def chromium(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_browser(address, tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.mark.parametrize(("question", "page"), (ENGLISH | CHINESE).items())
def test_the_page_that_answers_is_among_the_first_three(
    chromium: Browser, question: str, page: str
) -> None:
    chromium.driver.get(f"{chromium.address}/search.html?q={quote(question)}")

    deadline = time.monotonic() + _LIMIT_S
    while (
        first := chromium.driver.execute_script(_FIRST_PAGES)
    ) is None and time.monotonic() < deadline:
        time.sleep(0.05)

    assert f"{page}.html" in (first or [])
