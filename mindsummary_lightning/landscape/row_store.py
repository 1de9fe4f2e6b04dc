"""Finished rows of an unfinished landscape, one small file per row, so that an interrupted one can be continued.

Row files are replaced atomically. They are not fsynced: a killed process loses nothing, and after a power cut a row
that cannot be read is computed again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.fileio.regular import read_regular
from mindsummary_lightning.fileio.replace import replacement


class RowStore:
    """The rows of one landscape in one folder, whose name must identify everything the losses depend on."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._root = os.path.dirname(os.path.dirname(directory))  # the run

    def rows(self, points: Sequence[NDArray[np.float64]]) -> dict[int, NDArray[np.float64]]:
        """The losses of the finished rows, by their position among all rows of points."""
        finished = {}
        for index, row in enumerate(points):
            with contextlib.suppress(OSError):
                data = read_regular(self._path(index), root=self._root)
                if len(data) == 8 * len(row):
                    finished[index] = np.frombuffer(data, np.float64)
        return finished

    def write(self, index: int, losses: NDArray[np.float64]) -> None:
        """Store a finished row."""
        with replacement(self._path(index), root=self._root, is_synced=False) as file:
            file.write(np.ascontiguousarray(losses, np.float64).tobytes())

    def clear(self) -> None:
        """Remove the rows, if there are any."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _path(self, index: int) -> str:
        return os.path.join(self.directory, f"{index:04d}.row")
