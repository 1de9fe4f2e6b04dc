"""Run one call at a time, even if a signal handler interrupts a call.

A lock is not enough: a plain lock would deadlock, and a re-entrant lock would let the handler write
in the middle of a record. So the handler's call is queued, and the call that it interrupted makes
it at its end.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any

from mindsummary_lightning.errors import error_text

_LOG = logging.getLogger(__name__)


class SerializedCalls:
    """A queue that runs one call at a time.

    Thread-safe, and safe to use from a signal handler or finalizer.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._busy: FrameType | None = None  # of the call that is being made
        self._queue: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()

    def call(
        self, action: Callable[..., object], *arguments: object, is_waiting: bool = True
    ) -> bool:
        """Call a function after the running calls of other threads have ended.

        A call that interrupts another call of its own thread is queued, and made when the
        interrupted call ends. Without ``is_waiting``, a call is also queued while another thread
        makes a call. If a queued call raises an error, the error is logged.

        Returns:
            False if the call was queued.
        """
        if not self._lock.acquire(is_waiting):
            self._queue.append((action, arguments))
            return False
        try:
            if self._busy is not None and _is_running(self._busy):
                self._queue.append((action, arguments))
                return False
            try:
                self._busy = sys._getframe()
                action(*arguments)
            finally:
                self._busy = None
                while self._queue:  # and what a handler queues while the last of them ends
                    self._make_queued_calls()
        finally:
            self._lock.release()
        return True

    def _make_queued_calls(self) -> None:
        try:
            self._busy = sys._getframe()
            while self._queue:
                action, arguments = self._queue.popleft()
                try:
                    action(*arguments)
                except Exception as error:
                    _LOG.error(
                        "a value recorded in a signal handler could not be written: %s",
                        error_text(error),
                    )
        finally:
            self._busy = None


def _is_running(frame: FrameType) -> bool:
    # An exception out of a signal handler may end a call before it can say so; then its frame is
    # not in the stack.
    caller: FrameType | None = sys._getframe()
    while caller is not None:
        if caller is frame:
            return True
        caller = caller.f_back
    return False
