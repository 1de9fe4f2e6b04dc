"""The pages at an address whose last slash a proxy swallows, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from mindsummary_lightning.viewer.access import Access
from mindsummary_lightning.viewer.app import create_app
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from tests.oracle.browser import running_browser
from tests.oracle.mindinsight_server import wait_until
from tests.viewer.serving import serving
from tests.viewer.small_frontend import SMALL_WHEEL

_PREFIX = "/user/me/runs"
# The link that a script beside the page adds to it.
_WAY_BACK = """
const host = [...document.body.children].find(element => element.shadowRoot);
return host ? host.shadowRoot.querySelector('a').href : '';
"""


def _nginx(port: int) -> web.Application:
    """Forward as ``location /user/me/runs { proxy_pass http://127.0.0.1:PORT/; }`` does."""

    async def forward(request: web.Request) -> web.Response:
        if not request.raw_path.startswith(_PREFIX):
            return web.Response(status=404, text="the hub's own page")
        target = URL(
            f"http://127.0.0.1:{port}/{request.raw_path.removeprefix(_PREFIX)}", encoded=True
        )
        async with (
            aiohttp.ClientSession() as session,
            session.get(target, headers={"Host": "127.0.0.1"}, allow_redirects=False) as answer,
        ):
            dropped = ("Content-Length", "Content-Encoding")
            kept = {name: text for name, text in answer.headers.items() if name not in dropped}
            return web.Response(status=answer.status, headers=kept, body=await answer.read())

    app = web.Application()
    app.router.add_get("/{path:.*}", forward)
    return app


@contextmanager
def _proxied(folder: Path, token: str | None) -> Iterator[str]:
    app = create_app(LoadedRuns(str(folder)), SMALL_WHEEL, Access(token))
    with serving(app) as port, serving(_nginx(port)) as front:
        yield f"http://127.0.0.1:{front}{_PREFIX}"


@pytest.mark.parametrize(("token", "path"), [(None, ""), (None, "/"), ("a-token", "/a-token")])
def test_the_page_loads_its_scripts_at_an_address_without_its_last_slash(
    tmp_path: Path, token: str | None, path: str
) -> None:
    with _proxied(tmp_path, token) as address:
        opened, complete = f"{address}{path}#/summary-manage", f"{address}{path.rstrip('/')}/"
        with running_browser(complete, tmp_path / "profile", opened) as chromium:
            driver: Any = chromium.driver
            wait_until(
                lambda: bool(driver.execute_script(_WAY_BACK)), lambda: "a script of the page"
            )

            assert driver.current_url == f"{complete}#/summary-manage"
            assert driver.execute_script(_WAY_BACK) == f"{complete}runs"
