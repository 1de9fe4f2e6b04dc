"""Limit the number of open connections of the viewer, and their waiting time.

The viewer ends a connection if its first request takes long or is refused.

Everybody who reaches the port may open connections. Clients without the token must neither use up
the process's file descriptors nor keep a client with the token waiting.
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
    """Return the limit of open connections, 16 to 512.

    Within these bounds it is half of the files that the process may open.
    """
    if sys.platform == "win32":
        return _MAX_CONNECTIONS
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MAX_CONNECTIONS
    return max(_MIN_CONNECTIONS, min(_MAX_CONNECTIONS, files // 2))


class LimitedConnections:
    """Factory of aiohttp protocols that limits the number of open connections.

    Over the limit, the connection that has waited longest for its first request is closed.
    Connections whose first request was complete stay open.

    Args:
        limit: how many connections may be open.
        first_request_s: how many seconds a connection may last before its first request is
            complete.
    """

    def __init__(self, limit: int, first_request_s: float = _FIRST_REQUEST_S) -> None:
        self.server: web.Server | None = None
        self._limit = limit
        self._first_request_s = first_request_s
        self._waiting: dict[web.RequestHandler, asyncio.TimerHandle] = {}

    def __call__(self) -> asyncio.Protocol:
        """Create a connection's protocol; at the limit, close a waiting connection."""
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
        """Middleware of aiohttp that stops a connection's timeout at its first request.

        A connection is closed after an answer with status 403.
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
        """Close the ``count`` connections that have waited longest for a first request.

        Returns:
            Whether ``count`` connections were waiting.
        """
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
