"""Connections of a server, limited in number and in waiting time.

A connection ends if its first request takes long or is refused.

Whoever reaches the port may open connections. Those that never know the token must neither use up
the process's files nor keep a visitor waiting who does.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

_MAX_CONNECTIONS = 512
_MIN_CONNECTIONS = 16
_FIRST_REQUEST_S = 10.0


def max_connections() -> int:
    """Limit of connections, at most half of the files the process may open."""
    if sys.platform == "win32":
        return _MAX_CONNECTIONS
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MAX_CONNECTIONS
    return max(_MIN_CONNECTIONS, min(_MAX_CONNECTIONS, files // 2))


class LimitedConnections:
    """Factory of the protocols of accepted connections.

    When there are too many, the connection that has waited longest gives way; those whose visitor
    is not refused stay.

    Args:
        limit: how many connections may be open.
        first_request_s: how long one may last before its first request is complete.
    """

    def __init__(self, limit: int, first_request_s: float = _FIRST_REQUEST_S) -> None:
        self.server: web.Server | None = None
        self._limit = limit
        self._first_request_s = first_request_s
        self._waiting: dict[web.RequestHandler, asyncio.TimerHandle] = {}

    def __call__(self) -> asyncio.Protocol:
        """The protocol of a connection that has been accepted."""
        assert self.server is not None
        excess = sum(map(_is_open, self.server.connections)) - self._limit + 1
        if excess > 0 and not self._drop_oldest(excess):
            return _Refused()
        handler = self.server()
        loop = asyncio.get_running_loop()
        self._waiting[handler] = loop.call_later(self._first_request_s, self._drop, handler)
        return handler

    @property
    def middleware(self) -> Middleware:
        """Keep the connection of a request until its answer.

        A refusal ends the connection.
        """

        @web.middleware
        async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
            if (timer := self._waiting.pop(request.protocol, None)) is not None:
                timer.cancel()
            response = await handler(request)
            if response.status == HTTPStatus.FORBIDDEN:
                response.force_close()
            return response

        return admit

    def _drop_oldest(self, count: int) -> bool:
        """Close the connections that have waited longest; whether there were as many."""
        oldest = list(itertools.islice(filter(_is_open, self._waiting), count))
        for handler in oldest:
            self._waiting[handler].cancel()
            self._drop(handler)
        return len(oldest) == count

    def _drop(self, handler: web.RequestHandler) -> None:
        del self._waiting[handler]
        if isinstance(handler.transport, asyncio.Transport):
            handler.transport.abort()


def _is_open(handler: web.RequestHandler) -> bool:
    return handler.transport is not None and not handler.transport.is_closing()


class _Refused(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
