"""The server's life: a listening socket, an event loop in the calling thread, and an end within a second.

No process is started, and nothing here depends on the platform but how the event loop hears of a signal.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
import sys
from collections.abc import Callable

from aiohttp import web

# aiohttp logs a traceback per malformed request. The client gets a 400; errors of ours are logged by the application.
_PROTOCOL_LOG = logging.getLogger(f"{__name__}.protocol")
_PROTOCOL_LOG.setLevel(logging.CRITICAL)

_CUSTOMARY_PORT = 8080
_END_S = 0.3  # for answers that are being sent when the server ends
_MAX_TARGET_BYTES = 2**20  # the comparison page names each of its runs in the address


def listen(host: str, port: int | None) -> socket.socket:
    """A listening socket.

    Args:
        host: address or name of the interface.
        port: the port that must be free; ``None`` takes 8080, or any if that is taken.

    Raises:
        OSError: ``port`` of ``host`` cannot be listened on.
    """
    try:
        return _listen(host, _CUSTOMARY_PORT if port is None else port)
    except OSError as error:
        if port is None and error.errno in (errno.EADDRINUSE, errno.EACCES):
            return _listen(host, 0)
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"cannot listen on port {port} of {host} ({reason}); choose another") from error


def _listen(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return socket.create_server(address[:2], family=family, backlog=128)


async def serve_until(
    stop: asyncio.Event, app: web.Application, listener: socket.socket, ready: Callable[[], object]
) -> None:
    """Serve until an event is set; ``ready`` is called once requests are answered, the socket is closed at the end."""
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_PROTOCOL_LOG,
        handler_cancellation=True,  # the client has disconnected
        shutdown_timeout=_END_S,
        max_line_size=_MAX_TARGET_BYTES,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        ready()
        await stop.wait()
    finally:
        await runner.cleanup()


def serve_until_signal(app: web.Application, listener: socket.socket, ready: Callable[[], object]) -> None:
    """:func:`serve_until` Ctrl-C, SIGTERM or the end of the terminal; call it in the main thread."""

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in _end_signals():
            if sys.platform == "win32":
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
            else:  # by signal.signal, one that arrives just before the loop sleeps would be heard at its next event
                loop.add_signal_handler(number, stop.set)
        await serve_until(stop, app, listener, ready)

    asyncio.run(run())


def _end_signals() -> list[signal.Signals]:
    """The signals that ask a process to end; one that is ignored, as SIGHUP under nohup, stays ignored."""
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")  # the last two: POSIX, Windows
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
