"""The viewer's application under aiohttp's own test client, with made-up endpoints and a front end
of a few files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from aiohttp.test_utils import TestClient, TestServer

from mindsummary_lightning.viewer.access import Access
from mindsummary_lightning.viewer.api import Handler
from mindsummary_lightning.viewer.app import create_app
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from tests.viewer.small_frontend import SMALL_WHEEL

Client = TestClient  # no parameters: aiohttp's types changed between its versions


def visit(
    folder: Path,
    check: Callable[[Client], Awaitable[None]],
    *,
    handlers: Mapping[str, Handler] | None = None,
    access: Access | None = None,
    frontend: bytes | None = SMALL_WHEEL,
) -> None:
    """Start the application, let a coroutine visit it, and end it.

    Args:
        folder: an empty directory, for the runs.
        check: gets the client.
        handlers: what answers each endpoint; ``None`` for none.
        access: who is answered; ``None`` answers everyone.
        frontend: the wheel with the front end; ``None`` where it is missing.
    """
    (folder / "runs").mkdir()
    runs = LoadedRuns(str(folder / "runs"))
    app = create_app(runs, frontend, access or Access(None), handlers or {})

    async def run() -> None:
        async with TestClient(TestServer(app)) as client:
            await check(client)

    asyncio.run(run())
