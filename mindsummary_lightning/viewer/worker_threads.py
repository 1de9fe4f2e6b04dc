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
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
_Job = tuple["Future[Any]", Callable[[], Any]]


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
        future: Future[T] = Future()
        self._jobs.put((future, call))
        return await asyncio.wrap_future(future)

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
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except StopIteration as error:  # an asyncio future refuses it
                    future.set_exception(RuntimeError(repr(error)))
                except BaseException as error:  # passed on to the caller; a thread that ends would shrink the pool
                    future.set_exception(error)
