"""Tensors as ``.npy`` files beside a run: MindSpore's ``export_options={"tensor_format": "npy"}``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

__all__ = ["TensorExport"]


class TensorExport:
    """Saves tensors to ``<directory>/export_<seconds>/tensor/<percent-quoted tag>_<step>.npy``.

    The seconds are those of the first export, so that a second recording of the directory does not replace the first.
    """

    def __init__(self, directory: str, clock: Callable[[], float] = time.time) -> None:
        self._run_dir = directory
        self._clock = clock
        self._folder: str | None = None

    def save(self, tag: str, step: int, array: NDArray[np.generic]) -> None:
        """Save one tensor.

        Raises:
            OSError: it could not be written.
        """
        if self._folder is None:
            self._folder = os.path.join(self._run_dir, f"export_{int(self._clock())}", "tensor")
        os.makedirs(self._folder, exist_ok=True)
        # Quoted, a tag has no path separator left and cannot lead out of the folder.
        np.save(os.path.join(self._folder, f"{quote(tag, safe='')}_{step}.npy"), array, allow_pickle=False)
