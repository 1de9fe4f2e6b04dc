"""Run the viewer's web server: listen, serve in the calling thread, and stop.

The server stops within a second.

No process is started. Only the way in which the event loop hears of a signal depends on the
platform.
"""

from __future__ import annotations

import asyncio
import atexit
import errno
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from aiohttp import web

from mindsummary_lightning.viewer.connections import LimitedConnections, max_connections
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)
# aiohttp logs a traceback per malformed request. The client gets a 400; errors of ours are logged
# by the application.
_PROTOCOL_LOG = logging.getLogger(f"{__name__}.protocol")
_PROTOCOL_LOG.setLevel(logging.CRITICAL)

CUSTOMARY_PORT = 8080
_END_S = 0.3  # for answers that are being sent when the server ends
_END_SWITCH_S = 1e-5  # between threads, so that those which compute do not delay the end
_IDLE_S = 75.0  # between two requests of a connection
_QUEUED = 128  # connections, until they are accepted
_ACCEPTED_TOGETHER = 16  # connections, before one of them is looked at
# Turns of the event loop until the application's server knows an accepted connection: the first
# makes the transport, the second tells the protocol.
_TURNS_TO_CONNECT = 2
_MAX_TARGET_BYTES = 2**20  # the comparison page names each of its runs in the address


def listen(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens on ``port`` of ``host``.

    Args:
        host: address or name of the interface.
        port: a port that must be free; ``None`` takes port 8080, or any free port if 8080 is taken.

    Raises:
        OSError: the port of ``host`` cannot be listened on.
    """
    try:
        return _listen(host, wanted := CUSTOMARY_PORT if port is None else port)
    except OSError as error:
        if port is None and error.errno in (errno.EADDRINUSE, errno.EACCES):
            return _listen(host, 0)
        reason = error.strerror or str(error)
        raise OSError(
            error.errno, f"cannot listen on port {wanted} of {host} ({reason}). Choose another port"
        ) from error


def _listen(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    is_dual = address[0] == "::" and socket.has_dualstack_ipv6()
    return socket.create_server(address[:2], family=family, backlog=_QUEUED, dualstack_ipv6=is_dual)


def lacks_ipv4(listener: socket.socket) -> bool:
    """Tell whether a socket listens on all IPv6 addresses, but on no IPv4 address."""
    if listener.family != socket.AF_INET6 or listener.getsockname()[0] != "::":
        return False
    return bool(listener.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY))


async def serve_until(
    stop: asyncio.Event, app: web.Application, listener: socket.socket, ready: Callable[[], object]
) -> None:
    """Serve a web application until the event ``stop`` is set, then close the socket.

    ``ready`` is called as soon as the server answers requests.
    """
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_warn_in_a_line(WarnOnce(_LOG)))
    connections = LimitedConnections(max_connections())
    app.middlewares.append(connections.middleware)
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_PROTOCOL_LOG,
        handler_cancellation=True,  # the client has disconnected
        shutdown_timeout=_END_S,
        keepalive_timeout=_IDLE_S,
        max_line_size=_MAX_TARGET_BYTES,
    )
    await runner.setup()
    connections.server = runner.server
    server = await loop.create_server(connections, sock=listener, backlog=_ACCEPTED_TOGETHER)
    listener.listen(_QUEUED)  # asyncio has made the queue as short as what it accepts together
    try:
        ready()
        await stop.wait()
    finally:
        await _stop_accepting(server, listener)
        await runner.cleanup()


async def _stop_accepting(server: asyncio.Server, listener: socket.socket) -> None:
    """Close the listening socket once all accepted connections have a protocol.

    asyncio leaves a connection open if its server closes before the connection has a transport.
    """
    if sys.platform != "win32":  # Windows' event loop makes the transport at once
        asyncio.get_running_loop().remove_reader(listener)
    for _ in range(_TURNS_TO_CONNECT):
        await asyncio.sleep(0)
    server.close()


def _warn_in_a_line(
    warnings: WarnOnce,
) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """Return an asyncio exception handler that logs each distinct error as a line.

    An equal message is logged only once, and without a traceback. Such an error is, for example,
    that no file descriptor is left for a connection.
    """

    def warn(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        message = str(context["message"])
        warnings.warn(message, "%s: %r", message, context.get("exception"))

    return warn


def serve_until_signal(
    app: web.Application, listener: socket.socket, ready: Callable[[], object]
) -> None:
    """Serve a web application until Ctrl-C, SIGTERM, or until the terminal is closed.

    Call it in the main thread. ``ready`` is called as soon as the server answers requests.
    """

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def end() -> None:
            # in this process alone, which ends: a notebook's goes on
            sys.setswitchinterval(_END_SWITCH_S)
            stop.set()

        for number in _end_signals():
            if sys.platform == "win32":
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(end))
            else:
                # signal.signal would note a signal that arrives just before the loop sleeps only
                # at the next event
                loop.add_signal_handler(number, end)
        await serve_until(stop, app, listener, ready)

    # the end of the process need not search all that was loaded for garbage
    atexit.register(gc.freeze)
    asyncio.run(run())


def _end_signals() -> list[signal.Signals]:
    """List the signals that stop the server and that this process does not ignore.

    For example, a process under nohup ignores SIGHUP.
    """
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")  # the last two: POSIX, Windows
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
