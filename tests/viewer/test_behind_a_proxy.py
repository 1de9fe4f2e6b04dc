"""The viewer behind a proxy that strips its own prefix, as JupyterHub's and nginx do, and at the
end of a tunnel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from mindsummary_lightning.viewer.access import Access
from mindsummary_lightning.viewer.app import create_app
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from tests.viewer.small_frontend import SMALL_WHEEL

_TOKEN = "a-token"
_PREFIX = "/user/me/proxy/8080"
_HANDLERS = {"GET secret": lambda runs, request: "secret"}


def _proxy(port: int, prefix: str, headers: Mapping[str, str]) -> web.Application:
    """Forwards what lies below a prefix; the client's ``Host`` is kept, as hubs and tunnels keep
    it.
    """

    async def forward(request: web.Request) -> web.Response:
        if not request.raw_path.startswith(prefix):
            return web.Response(status=404, text="the hub's own page")
        target = URL(
            f"http://127.0.0.1:{port}{request.raw_path.removeprefix(prefix)}", encoded=True
        )
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.get(
                target,
                headers={**request.headers, **headers},
                auto_decompress=False,
                allow_redirects=False,
            ) as answer,
        ):
            kept = {name: text for name, text in answer.headers.items() if name != "Content-Length"}
            return web.Response(status=answer.status, headers=kept, body=await answer.read())

    app = web.Application()
    app.router.add_get("/{path:.*}", forward)
    return app


def _visit(
    folder: Path,
    prefix: str,
    headers: Mapping[str, str],
    check: Callable[[TestClient], Awaitable[None]],
    token: str | None = _TOKEN,
) -> None:
    app = create_app(LoadedRuns(str(folder)), SMALL_WHEEL, Access(token), _HANDLERS)

    async def run() -> None:
        async with TestServer(app) as server:
            assert server.port is not None
            async with TestClient(TestServer(_proxy(server.port, prefix, headers))) as client:
                await check(client)

    asyncio.run(run())


@pytest.mark.parametrize("prefix", ["", _PREFIX])
def test_the_pages_work_below_the_prefix_of_a_proxy(tmp_path: Path, prefix: str) -> None:
    async def check(client: TestClient) -> None:
        for path in ("/", "/static/js/app.01234567.js", "/v1/mindinsight/secret"):
            async with client.get(
                f"{prefix}/{_TOKEN}{path}", headers={"Host": "hub.example"}
            ) as answer:
                assert answer.status == 200, path
            async with client.get(f"{prefix}{path}", headers={"Host": "hub.example"}) as answer:
                assert answer.status == 403, path

    _visit(tmp_path, prefix, {"X-Forwarded-Proto": "http"}, check)


def test_an_address_without_its_last_slash_stays_below_the_prefix(tmp_path: Path) -> None:
    async def check(client: TestClient) -> None:
        for path, found in ((f"/{_TOKEN}", f"/{_TOKEN}/"), (f"/{_TOKEN}/runs/", f"/{_TOKEN}/runs")):
            async with client.get(f"{_PREFIX}{path}", headers={"Host": "hub.example"}) as answer:
                assert (answer.status, answer.url.path) == (200, f"{_PREFIX}{found}")

    _visit(tmp_path, _PREFIX, {}, check)


def test_a_prefix_without_a_last_slash_in_nginx_leaves_two_in_front(tmp_path: Path) -> None:
    async def check(client: TestClient) -> None:
        for path in ("/", "//", "//static/js/app.01234567.js", "//v1/mindinsight/secret", "//runs"):
            async with client.get(f"{_PREFIX}{path}") as answer:
                assert answer.status == 200, path

    _visit(tmp_path, _PREFIX, {"Host": "127.0.0.1"}, check, token=None)
