from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mindsummary_lightning.viewer.worker_threads import WorkerThreads


def _raising(error: BaseException) -> Callable[[], Any]:
    def call() -> Any:
        raise error

    return call


@pytest.mark.parametrize(("error", "seen"), [(ValueError("x"), ValueError), (StopIteration(), RuntimeError)])
def test_an_exception_reaches_the_caller_and_the_thread_goes_on(error: Exception, seen: type[Exception]) -> None:
    async def calls() -> int:
        threads = WorkerThreads(1)
        try:
            with pytest.raises(seen):
                await asyncio.wait_for(threads.run(_raising(error)), 10)
            return await asyncio.wait_for(threads.run(lambda: 2), 10)
        finally:
            threads.close()

    assert asyncio.run(calls()) == 2


def test_a_call_whose_caller_was_cancelled_before_it_began_is_skipped() -> None:
    began, go_on = threading.Event(), threading.Event()
    skipped: list[str] = []

    async def calls() -> None:
        threads = WorkerThreads(1)
        busy = asyncio.ensure_future(threads.run(lambda: (began.set(), go_on.wait(10))))
        waiting = asyncio.ensure_future(threads.run(lambda: skipped.append("was called")))
        await asyncio.to_thread(began.wait, 10)
        waiting.cancel()
        await asyncio.sleep(0)  # the cancellation is passed on
        go_on.set()
        await busy
        await threads.run(lambda: None)
        threads.close()

    asyncio.run(calls())

    assert skipped == []
