"""A server of the viewer in a thread of the test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from mindsummary_lightning.viewer.serve import listen, serve_until


@contextmanager
def serving(app: web.Application) -> Iterator[int]:
    """Serve an application on this machine; gives its port and ends it after the body."""
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    ready = threading.Event()
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(
        target=loop.run_until_complete,
        args=(serve_until(stop, app, listener, ready.set),),
        daemon=True,
    )
    thread.start()
    assert ready.wait(30)
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        assert not thread.is_alive()
        loop.close()
