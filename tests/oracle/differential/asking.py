"""Requests and answers, and the two sides that are asked over HTTP: a real MindInsight and the
viewer.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import threading
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from mindsummary_lightning.viewer.access import Access
from mindsummary_lightning.viewer.app import create_app
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from tests.viewer.small_frontend import SMALL_WHEEL

_PREFIX = "/v1/mindinsight/"


@dataclass(frozen=True)
class Ask:
    """A request as a page sends it.

    Attributes:
        method: HTTP method.
        path: below ``/v1/mindinsight/``.
        query: keys and values in order; a key may come more than once.
        body: bytes of the body, ``None`` for none.
        content_type: media type of the body.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = "application/json"

    def __str__(self) -> str:
        body = "" if self.body is None else f" {self.body.decode(errors='replace')[:300]}"
        return f"{self.method} {self.path}?{urllib.parse.urlencode(self.query)}{body}"

    def value(self, key: str) -> str | None:
        """The first value of a key of the query."""
        return next((value for name, value in self.query if name == key), None)


def get(path: str, **query: str | int | list[str]) -> Ask:
    """A GET request; a list is a repeated key."""
    pairs = []
    for key, value in query.items():
        pairs += [(key, str(one)) for one in (value if isinstance(value, list) else [value])]
    return Ask("GET", path, tuple(pairs))


def post(path: str, body: Any, method: str = "POST", **query: str) -> Ask:
    """A request with a JSON body."""
    return Ask(method, path, tuple(query.items()), json.dumps(body).encode())


@dataclass(frozen=True)
class Answer:
    """An answer: its status, and the JSON or the bytes of its body."""

    status: int
    content: Any
    content_type: str = "application/json"

    @property
    def code(self) -> str | None:
        """MindInsight's error code, or ``None``."""
        return self.content.get("error_code") if isinstance(self.content, dict) else None


class Server:
    """A server that runs already: a real MindInsight, or the viewer.

    Args:
        address: ``http://host:port``.
    """

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(
            urllib.parse.urlsplit(address).netloc, timeout=60
        )

    def ask(self, ask: Ask) -> Answer:
        """The server's answer."""
        pairs = [
            (key, self._own_interval(ask, value) if key == "interval_id" else value)
            for key, value in ask.query
        ]
        query = f"?{urllib.parse.urlencode(pairs)}" if pairs else ""
        headers = {} if ask.body is None else {"Content-Type": ask.content_type}
        request = (ask.method, _PREFIX + ask.path + query, ask.body, headers)
        try:
            response = self._response(request)
        except (
            http.client.RemoteDisconnected,
            ConnectionError,
        ):  # it was idle for too long; the next one is new
            self._connection.close()
            response = self._response(request)
        content_type = response.headers.get_content_type()
        content = response.read()
        is_json = content_type == "application/json"
        return Answer(response.status, json.loads(content) if is_json else content, content_type)

    def _response(
        self, request: tuple[str, str, bytes | None, dict[str, str]]
    ) -> http.client.HTTPResponse:
        self._connection.request(*request)
        return self._connection.getresponse()

    def _own_interval(self, ask: Ask, value: str) -> str:
        """The server's own name of a landscape's interval, given by its number as ``#0``."""
        if not value.startswith("#"):
            return value
        listed = self.ask(
            get("datavisual/landscape/intervals", train_id=ask.value("train_id") or "")
        ).content
        name: str = listed["intervals"][int(value[1:])]["id"]
        return name


@contextlib.contextmanager
def running_viewer(base: str) -> Iterator[Server]:
    """The viewer over a directory of runs, in a thread of this process, without a token."""
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(create_app(LoadedRuns(base), SMALL_WHEEL, Access(None)))

    async def start() -> int:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port: int = runner.addresses[0][1]
        return port

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        port = asyncio.run_coroutine_threadsafe(start(), loop).result()
        yield Server(f"http://127.0.0.1:{port}")
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
