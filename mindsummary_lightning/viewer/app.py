"""The viewer's web application: it serves MindInsight's pages and their JSON data."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import functools
import gzip
import hashlib
import json
import logging
import marshal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote

from aiohttp import web

from mindsummary_lightning.reading.kept_results import KeptResults
from mindsummary_lightning.viewer.access import RUN_TABLE_PATH, Access, redirection
from mindsummary_lightning.viewer.api import (
    ApiError,
    ApiRequest,
    EncodedAnswer,
    Handler,
    PageError,
)
from mindsummary_lightning.viewer.frontend import (
    StaticFile,
    files_without_frontend,
    own_files,
    static_files,
)
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages import page_handlers

_LOG = logging.getLogger(__name__)

API_PREFIX = "/v1/mindinsight/"
_METHODS = ("GET", "POST", "PUT", "DELETE")  # that MindInsight has addresses for
_THREADS = 32  # at a time; some may wait for a file system for long
_MAX_BODY_BYTES = 16 * 2**20  # the train ids of some 100,000 runs
_MAX_FIELDS = 100_000
_COMPRESS_FROM_BYTES = 1024  # below, a packet of the network holds it anyway
_COMPRESS_WELL_TO_BYTES = 200_000  # of a file; larger ones would take a tenth of a second
_MAX_KEPT, _MAX_KEPT_BYTES = 200, 32 * 10**6  # encoded answers
_SELECTION_PREFIX = "/only/"
_NO_PAGE = (
    '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>404 Not Found</title>'
    '<p>404 Not Found. This address has no page. Open the <a href="{0}">table of runs</a>.</p>'
    '<p lang="zh-CN">404 未找到。此地址没有页面。请打开<a href="{0}">训练表</a>。</p></html>\n'
)
_JOINER = "\u2060"
_MARKS = ("<", "&")

# MindInsight's codes and texts.
_NOT_FOUND = ApiError("50545001", "404 Not Found.", HTTPStatus.NOT_FOUND)
_WRONG_METHOD = ApiError("50545002", "405 Method Not Allowed.", HTTPStatus.METHOD_NOT_ALLOWED)
_SYSTEM_ERROR = ApiError("50540000", "System error.", HTTPStatus.INTERNAL_SERVER_ERROR)


class _Encoded(NamedTuple):
    body: bytes
    headers: dict[str, str]

    @property
    def nbytes(self) -> int:
        return len(self.body)


def create_app(
    runs: LoadedRuns,
    frontend: bytes | None,
    access: Access,
    handlers: Mapping[str, Handler] | None = None,
) -> web.Application:
    """Create the web application that serves the pages of some runs.

    Args:
        runs: the runs.
        frontend: the bytes of MindInsight's wheel; ``None`` serves only the table of runs and
            this package's other pages.
        access: checks every request.
        handlers: functions that answer the endpoints, by HTTP method and path below
            :data:`API_PREFIX`; ``None`` takes the handlers of all endpoints.
    """
    site = _Site(runs, frontend, access, page_handlers() if handlers is None else handlers)
    app = web.Application(client_max_size=_MAX_BODY_BYTES)
    app.router.add_route("*", "/{path:.*}", site.answer)
    return app


class _Site:
    def __init__(
        self,
        runs: LoadedRuns,
        frontend: bytes | None,
        access: Access,
        handlers: Mapping[str, Handler],
    ) -> None:
        self._runs = runs
        self._files = own_files() | (
            files_without_frontend() if frontend is None else static_files(frontend)
        )
        self._access = access
        self._handlers = handlers
        self._kept = KeptResults(_MAX_KEPT, _MAX_KEPT_BYTES)
        self._turns = asyncio.Semaphore(_THREADS)
        self._endpoints = {API_PREFIX + endpoint.partition(" ")[2] for endpoint in handlers}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer an HTTP request after the access check."""
        checked = self._access.check(request)
        # Compared with None: a response without entries of its own is false in older versions of
        # aiohttp.
        response = (
            await self._respond(request, checked.path) if checked.answer is None else checked.answer
        )
        for name, value in checked.headers.items():
            response.headers.setdefault(name, value)
        return response

    async def _respond(self, request: web.Request, path: str) -> web.StreamResponse:
        try:
            path, only = without_selection(path)
            # aiohttp leaves the body of a HEAD out
            method = "GET" if request.method == "HEAD" else request.method
            if path in self._endpoints:
                return await self._call(request, f"{method} {path.removeprefix(API_PREFIX)}", only)
            is_file = path in self._files or path.startswith("/static/")
            if method not in (_METHODS[:1] if is_file else _METHODS):
                raise _WRONG_METHOD
            if path in self._files:
                return _file_response(request, self._files[path])
            return self._misspelt(request, path)
        except ApiError as error:
            return _error_response(error)
        except web.HTTPException as error:  # a body that is too large or cannot be decoded
            return _error_response(
                ApiError(_SYSTEM_ERROR.code, "System error or http error.", error.status)
            )
        except Exception as error:
            target = f"{path}?{request.rel_url.raw_query_string}".rstrip("?")  # without the token
            _LOG.exception("%s %s could not be answered: %r", request.method, target, error)
            return _error_response(_SYSTEM_ERROR)

    def _misspelt(self, request: web.Request, path: str) -> web.Response:
        """Redirect a request whose URL has an extra or a missing slash at its end.

        A browser that asks for an unknown page gets an HTML page with a link to the table of runs.
        Other requests raise the ``ApiError`` for an unknown address.
        """
        *_, last = path.rstrip("/").split("/")
        if path.endswith("/") and path[:-1] in self._files:
            return redirection(request, f"../{last}")
        if without_selection(f"{path}/")[1] is not None:
            return redirection(request, f"./{quote(last)}/")
        is_page = "text/html" in request.headers.get("Accept", "") and not path.startswith(
            API_PREFIX
        )
        if not is_page or request.method not in ("GET", "HEAD"):
            raise _NOT_FOUND
        table = "../" * (path.count("/") - 1) + RUN_TABLE_PATH
        body = _NO_PAGE.format(table).encode()
        return web.Response(body=body, status=HTTPStatus.NOT_FOUND, content_type="text/html")

    async def _call(
        self, request: web.Request, endpoint: str, only: frozenset[str] | None
    ) -> web.Response:
        handler = self._handlers.get(endpoint)
        if handler is None:
            raise _WRONG_METHOD
        query = _decoded_query(request.rel_url.raw_query_string)
        media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        asked = ApiRequest(query, body_as_recorded(await request.read()), media_type, only)
        takes_gzip = _takes_gzip(request)
        async with self._turns:
            body, headers = await _in_thread(
                lambda: self._encoded(handler(self._runs, asked), takes_gzip)
            )
        return web.Response(body=body, headers=headers)

    def _encoded(self, answer: Any, takes_gzip: bool) -> _Encoded:
        """Encode an answer of a page, or return the bytes of an equal earlier answer."""
        with contextlib.suppress(ValueError):  # it is no JSON, or holds a float of NumPy's
            # of equal answers the same bytes; ten times as fast as JSON and gzip
            known = marshal.dumps(answer, 2)
            if len(known) >= _COMPRESS_FROM_BYTES:
                key = hashlib.blake2b(known, digest_size=16).digest(), takes_gzip
                return self._kept.of(key, lambda: _encoded(answer, takes_gzip))
        return _encoded(answer, takes_gzip)


async def _in_thread(call: Callable[[], _Encoded]) -> _Encoded:
    """Run a blocking call in a new daemon thread, and await its result.

    The thread ends with the process, even while it waits for a file system that does not answer.
    """
    future: Future[_Encoded] = Future()
    future.set_running_or_notify_cancel()  # a caller that is gone does not cancel it

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name="mindsummary-view", daemon=True).start()
    return await asyncio.wrap_future(future)


def _file_response(request: web.Request, file: StaticFile) -> web.Response:
    headers = file.headers()
    if any(f'"{etag.value}"' == headers["ETag"] for etag in request.if_none_match or ()):
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    body, encoding = (
        _compressed_file(file) if _takes_gzip(request) else _Encoded(file.content(), {})
    )
    return web.Response(body=body, headers=headers | encoding)


@functools.lru_cache(maxsize=64)
def _compressed_file(file: StaticFile) -> _Encoded:
    """Compress a static file with gzip; the result is cached."""
    content = file.content()
    if len(content) > _COMPRESS_WELL_TO_BYTES:
        return _compressed(content, takes_gzip=True)
    return _Encoded(gzip.compress(content, compresslevel=9), {"Content-Encoding": "gzip"})


def _takes_gzip(request: web.Request) -> bool:
    return "gzip" in request.headers.get("Accept-Encoding", "")


def _encoded(answer: Any, takes_gzip: bool) -> _Encoded:
    if isinstance(answer, EncodedAnswer):
        is_page = answer.content_type.startswith("text/html")
        body, encoding = _compressed(answer.content, takes_gzip and is_page)
        return _Encoded(body, {"Content-Type": answer.content_type} | encoding)
    body, encoding = _compressed(_json_bytes(answer), takes_gzip)
    return _Encoded(body, {"Content-Type": "application/json"} | encoding)


def _compressed(body: bytes, takes_gzip: bool) -> _Encoded:
    if not takes_gzip or len(body) < _COMPRESS_FROM_BYTES:
        return _Encoded(body, {})
    # Rows of 10,000 runs are 3 % smaller than with level 1, and 1 ms per MB slower to compress.
    return _Encoded(gzip.compress(body, compresslevel=2), {"Content-Encoding": "gzip"})


def _json_bytes(answer: Any) -> bytes:
    encode = functools.partial(json.dumps, sort_keys=True, separators=(",", ":"), allow_nan=False)
    try:
        text = encode(answer)
    except (
        ValueError
    ):  # no browser reads a bare NaN, which a metric may be: the page of all runs would stay empty
        # here: it loads NumPy
        from mindsummary_lightning.values.text import finite_or_named, map_json

        text = encode(map_json(answer, finite_or_named))
    return without_markup(text).encode() + b"\n"


def _error_response(error: ApiError) -> web.Response:
    if isinstance(error, PageError):
        return web.Response(
            body=error.page, status=error.status, content_type="text/html", charset="utf-8"
        )
    body = _json_bytes({"error_code": error.code, "error_msg": error.message})
    return web.Response(body=body, status=error.status, content_type="application/json")


def _decoded_query(raw: str) -> dict[str, list[str]]:
    try:
        query = parse_qs(raw, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise web.HTTPRequestURITooLong from None
    return {name: list(map(as_recorded, values)) for name, values in query.items()}


def without_selection(path: str) -> tuple[str, frozenset[str] | None]:
    """Split a path ``/only/<selection>/<rest>`` into the rest and the selected runs.

    MindInsight's pages then list only the selected runs. The second value is ``None`` if the path
    has no selection, or if the selection cannot be decoded.

    The front end sends every request below the address that it was opened at, so
    ``/only/<JSON list in base64url>/#/compare-analysis/scalar`` compares exactly the runs of the
    list.
    """
    encoded, slash, rest = path.removeprefix(_SELECTION_PREFIX).partition("/")
    if not path.startswith(_SELECTION_PREFIX) or not slash:
        return path, None
    try:
        train_ids = json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
        return f"/{rest}", frozenset(as_recorded(str(train_id)) for train_id in train_ids)
    except (binascii.Error, ValueError, TypeError, RecursionError):
        return path, None


def without_markup(json_text: str) -> str:
    """Make JSON text safe for HTML: put U+2060 after each ``<`` and ``&``.

    JSON has these characters in its strings only. :func:`as_recorded` removes the word joiners.
    """
    for mark in _MARKS:
        json_text = json_text.replace(mark, f"{mark}\\u2060")
    return json_text


def as_recorded(text: str) -> str:
    """Undo :func:`without_markup` in a text: remove U+2060 after ``<`` and ``&``."""
    for mark in _MARKS:
        text = text.replace(mark + _JOINER, mark)
    return text


def body_as_recorded(body: bytes) -> bytes:
    """Undo :func:`without_markup` in the bytes of a request body.

    Browsers send U+2060 in JSON without escaping it.
    """
    for mark in _MARKS:
        body = body.replace((mark + _JOINER).encode(), mark.encode())
    return body
