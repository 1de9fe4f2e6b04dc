"""A pool of threads for blocking calls, which grows while calls are stuck and never delays the end of the process.

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
        patience_s: a call that has waited so long gets a further thread: the others may be stuck in a file system.
        max_count: how many threads there may be.
    """

    def __init__(self, count: int, patience_s: float = 2.0, max_count: int = 64) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._patience_s = patience_s
        self._max_count = max_count
        self._count = 0
        for _ in range(count):
            self._start_thread()

    async def run(self, call: Callable[[], T]) -> T:
        """The result of a call, or its exception; a call whose caller was cancelled before it began is skipped."""
        future: Future[T] = Future()
        self._jobs.put((future, call))
        timer = asyncio.get_running_loop().call_later(self._patience_s, self._help, future)
        try:
            return await asyncio.wrap_future(future)
        finally:
            timer.cancel()

    def close(self) -> None:
        """Let each thread end after its current call; waiting calls are dropped and never answered."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._jobs.get_nowait()
        for _ in range(self._count):
            self._jobs.put(None)

    def _help(self, future: Future[Any]) -> None:
        if not future.running() and not future.done() and self._count < self._max_count:
            self._start_thread()

    def _start_thread(self) -> None:
        self._count += 1
        threading.Thread(target=self._work, name=f"mindsummary-view-{self._count}", daemon=True).start()

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
