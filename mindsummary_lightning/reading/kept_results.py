"""``KeptResults``: caches results in bounded memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

_T = TypeVar("_T")
_RESULT_BYTES = 500  # of a result beside what it holds, measured


class KeptResults:
    """A cache that keeps the newest results under their keys.

    It is safe to use from several threads.

    Args:
        most: greatest number of results.
        most_bytes: of all of them; one tells its size by an attribute ``nbytes``.

    Attributes:
        nbytes: bytes of memory that they take, roughly.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self.nbytes: int = 0
        self._most, self._most_bytes = most, most_bytes
        self._results: dict[Hashable, tuple[object, object, int]] = {}  # state, result and size
        self._lock = threading.Lock()

    def of(self, key: Hashable, compute: Callable[[], _T], state: object = None) -> _T:
        """Return the result for a key; compute it if it is not cached for ``state``."""
        known = self._results.get(key)
        if known is not None and known[0] == state:
            return cast("_T", known[1])
        result = compute()
        size = _RESULT_BYTES + int(getattr(result, "nbytes", 0))
        with self._lock:
            self._forget(key)
            self._results[key] = state, result, size
            self.nbytes += size
            while len(self._results) > self._most or (
                self.nbytes > self._most_bytes and len(self._results) > 1
            ):
                self._forget(next(iter(self._results)))
        return result

    def known(self, key: Hashable) -> object:
        """Return the cached result for a key in any state, or ``None``."""
        return self._results.get(key, (None, None))[1]

    def forget(self, key: Hashable) -> None:
        """Remove the cached result for a key."""
        with self._lock:
            self._forget(key)

    def _forget(self, key: Hashable) -> None:
        *_, size = self._results.pop(key, (0,))
        self.nbytes -= size
