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


def test_a_call_is_answered_while_fifty_others_are_stuck() -> None:
    go_on = threading.Event()

    async def calls() -> int:
        threads = WorkerThreads(2, patience_s=0.01)
        stuck = [asyncio.ensure_future(threads.run(lambda: go_on.wait(30))) for _ in range(50)]
        try:
            return await asyncio.wait_for(threads.run(lambda: 2), 20)
        finally:
            go_on.set()
            await asyncio.gather(*stuck)
            threads.close()

    assert asyncio.run(calls()) == 2


def test_there_are_no_more_threads_than_there_may_be() -> None:
    go_on, began = threading.Event(), threading.Semaphore(0)

    async def calls() -> None:
        threads = WorkerThreads(1, patience_s=0.0, max_count=3)
        stuck = [asyncio.ensure_future(threads.run(lambda: (began.release(), go_on.wait(30)))) for _ in range(6)]
        for _ in range(3):
            assert await asyncio.to_thread(began.acquire, True, 10)
        await asyncio.sleep(0.05)
        assert not began.acquire(blocking=False)
        go_on.set()
        await asyncio.gather(*stuck)
        threads.close()

    asyncio.run(calls())
