"""Requests and answers, and the two sides that are asked: a real MindInsight over HTTP, the viewer in this process."""

from __future__ import annotations

import http.client
import json
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mindsummary_lightning.viewer.api import ApiError, ApiRequest, EncodedImage, Route
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns

__all__ = ["Answer", "Ask", "RealServer", "Viewer", "get", "post"]

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


class RealServer:
    """A MindInsight that runs already.

    Args:
        address: ``http://host:port``.
    """

    def __init__(self, address: str) -> None:
        self._host = urllib.parse.urlsplit(address).netloc

    def ask(self, ask: Ask) -> Answer:
        """The server's answer."""
        connection = http.client.HTTPConnection(self._host, timeout=60)
        try:
            query = f"?{urllib.parse.urlencode(ask.query)}" if ask.query else ""
            headers = {} if ask.body is None else {"Content-Type": ask.content_type}
            connection.request(ask.method, _PREFIX + ask.path + query, ask.body, headers)
            response = connection.getresponse()
            content_type = response.headers.get_content_type()
            content = response.read()
        finally:
            connection.close()
        is_json = content_type == "application/json"
        return Answer(response.status, json.loads(content) if is_json else content, content_type)


@dataclass
class Viewer:
    """Our pages over a directory, without a web server.

    Attributes:
        runs: what they show.
        routes: the endpoints.
    """

    runs: LoadedRuns
    routes: Iterable[Route]
    _handlers: Mapping[tuple[str, str], Route] = field(init=False)

    def __post_init__(self) -> None:
        self._handlers = {(route.method, route.path): route for route in self.routes}

    def has(self, ask: Ask) -> bool:
        """Whether there is a page that answers it."""
        return (ask.method, ask.path) in self._handlers

    def ask(self, ask: Ask) -> Answer:
        """Our answer, as JSON would carry it."""
        query: dict[str, list[str]] = {}
        for key, value in ask.query:
            query.setdefault(key, []).append(value)
        request = ApiRequest(query, ask.body or b"", ask.content_type if ask.body is not None else "")
        try:
            answer = self._handlers[ask.method, ask.path].handler(self.runs, request)
        except ApiError as error:
            return Answer(error.status, {"error_code": error.code, "error_msg": error.message})
        if isinstance(answer, EncodedImage):
            return Answer(200, answer.content, answer.content_type)
        return Answer(200, json.loads(json.dumps(answer)))
