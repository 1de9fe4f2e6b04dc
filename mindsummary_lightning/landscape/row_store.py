"""Finished rows of an unfinished landscape, one small file per row, so that an interrupted one can be continued.

Row files are replaced atomically. They are not fsynced: a killed process loses nothing, and after a power cut a row
that cannot be read is computed again.
"""

from __future__ import annotations

import os
import shutil

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.fileio.replace import replacement


class RowStore:
    """The rows of one landscape in one folder, which exists from the first :meth:`keep` to :meth:`clear`.

    Args:
        directory: the folder; its name must identify everything the losses depend on.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def find(self, index: int, length: int) -> NDArray[np.float64] | None:
        """The losses of a finished row, shape ``(length,)``, or ``None`` if it has to be computed."""
        try:
            with open(self._path(index), "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return None
        return np.frombuffer(data, np.float64) if len(data) == 8 * length else None

    def keep(self, index: int, losses: NDArray[np.float64]) -> None:
        """Store a finished row."""
        os.makedirs(self.directory, exist_ok=True)
        with replacement(self._path(index), is_synced=False) as file:
            file.write(np.ascontiguousarray(losses, np.float64).tobytes())

    def clear(self) -> None:
        """Remove the rows, if there are any."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _path(self, index: int) -> str:
        return os.path.join(self.directory, f"{index:04d}.row")
