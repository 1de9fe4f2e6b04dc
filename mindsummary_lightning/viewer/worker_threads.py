"""A bounded pool of threads for blocking calls, which never delays the end of the process.

``ThreadPoolExecutor`` joins its threads when the interpreter ends, so that one read of a stalled network file system
would keep the command alive. What runs here only reads, so it may be abandoned at any point.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["WorkerThreads"]

T = TypeVar("T")
_Job = tuple["asyncio.Future[Any]", Callable[[], Any]]


class WorkerThreads:
    """Daemon threads that run calls in the order they were submitted.

    Args:
        count: how many calls run at a time.
    """

    def __init__(self, count: int) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"mindsummary-view-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    async def run(self, call: Callable[[], T]) -> T:
        """The result of a call, or its exception; a call whose caller was cancelled before it began is skipped."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put((future, call))
        return await future

    def close(self) -> None:
        """Let each thread end after its current call; waiting calls are dropped and never answered."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._jobs.get_nowait()
        for _ in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, call = job
            if future.cancelled():
                continue
            result: Any = None
            error: BaseException | None = None
            try:
                result = call()
            except BaseException as caught:  # passed on to the caller; a thread that ends would shrink the pool
                error = caught
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                future.get_loop().call_soon_threadsafe(_settle, future, result, error)


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration):  # a future refuses it
        future.set_exception(RuntimeError("StopIteration"))
    else:
        future.set_exception(error)
