"""Writes that fail at a chosen byte.

An ``os`` for :mod:`mindsummary_lightning.fileio.append`, above the real one.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from types import TracebackType
from unittest import mock


class FaultyWrites:
    """Lets ``room`` more bytes through, then fails until there is room again.

    Args:
        room: bytes that still fit.
        error: the errno of a write that finds no room; ``None`` makes such a write return 0.
        at_most: largest number of bytes one call writes.
    """

    def __init__(
        self, room: int = 1 << 60, error: int | None = errno.ENOSPC, at_most: int = 1 << 60
    ) -> None:
        self.room = room
        self.error = error
        self.at_most = at_most
        self.calls = 0
        self._write = os.write

    def _put(self, descriptor: int, data: bytes) -> int:
        self.calls += 1
        fits = min(len(data), self.room, self.at_most)
        if not fits and data:
            if self.error is None:
                return 0
            raise OSError(self.error, os.strerror(self.error))
        self.room -= fits
        return self._write(descriptor, data[:fits])

    def _gather(self, descriptor: int, pieces: Sequence[bytes]) -> int:
        return self._put(descriptor, b"".join(pieces))

    def __enter__(self) -> FaultyWrites:
        module = "mindsummary_lightning.fileio.append.os"
        self._patches = [
            mock.patch(f"{module}.write", self._put),
            mock.patch(f"{module}.writev", self._gather, create=True),
        ]
        for patch in self._patches:
            patch.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for patch in self._patches:
            patch.stop()
