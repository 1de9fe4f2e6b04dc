"""Save recorded tensors as ``.npy`` files in a run's directory.

MindSpore's ``export_options={"tensor_format": "npy"}``.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Collection, Mapping
from functools import partial
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.fileio.append import MissingRecords
from mindsummary_lightning.fileio.replace import replacement
from mindsummary_lightning.recording.failure_policy import FailurePolicy
from mindsummary_lightning.values import SummaryValue, Tensor

_MAX_NAME_LENGTH = 180  # characters; file systems take 255 bytes, and a step and an ending follow


def quoted_name(tag: str) -> str:
    """Return a percent-quoted file name for a tag, without path separators.

    A name of more than 180 characters is shortened and ends in ``~`` and 12 digits of the tag's
    SHA-256, so that two long tags do not share a file. No other name contains ``~``, because it is
    quoted in a tag.
    """
    name = quote(tag, safe="", errors="surrogatepass").replace("~", "%7E") or "_"
    if len(name) <= _MAX_NAME_LENGTH:
        return name
    digits = hashlib.sha256(tag.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{name[: _MAX_NAME_LENGTH - 13]}~{digits}"


class TensorExport:
    """A writer that saves tensors as ``.npy`` files.

    A file is ``<directory>/export_<seconds>/tensor/<percent-quoted tag>_<step>.npy``.

    The seconds are the Unix time of the first export, so that a second recording into the directory
    does not replace the first. :func:`quoted_name` shortens the names of long tags;
    ``tensor/shortened_names.txt`` lists them.
    """

    def __init__(self, policy: FailurePolicy, directory: str, mode: int) -> None:
        self._policy = policy
        self._run_dir = directory
        # Not synced: a training step must not wait for the disk.
        self._replacement = partial(replacement, mode=mode, root=directory, is_synced=False)
        self._folder = ""
        self._shortened: dict[str, str] = {}
        self._identity: tuple[int, int] | None = None  # device and inode of the folder
        self._saved = 0  # files in the folder
        self._losses: list[MissingRecords] = []

    def save_all(
        self,
        step: int,
        values: Collection[tuple[str, SummaryValue]],
        originals: Mapping[str, NDArray[np.generic]] | None = None,
    ) -> bool:
        """Save the tensors among the values of a step; tell whether all were saved.

        ``originals`` maps tags to arrays in the dtype of the recorded tensor. Tensors without an
        entry are saved as float32.
        """
        arrays = {
            tag: (originals or {}).get(tag, value.data)
            for tag, value in values
            if isinstance(value, Tensor)
        }
        policy = self._policy
        are_saved = [
            policy.attempt(f"tensor {tag!r}", policy.call_in_reach, self.save, tag, step, array)
            for tag, array in arrays.items()
        ]
        return all(are_saved)

    def save(self, tag: str, step: int, array: NDArray[np.generic]) -> None:
        """Save a tensor to its file, which is replaced atomically if it exists.

        Raises:
            OSError: the file could not be written.
        """
        if not self._folder:
            self._folder = os.path.join(self._run_dir, f"export_{int(time.time())}", "tensor")
        self._compare_folder()
        name = quoted_name(tag)
        if "~" in name and name not in self._shortened:
            listed = {**self._shortened, name: tag}
            with self._replacement(os.path.join(self._folder, "shortened_names.txt")) as file:
                lines = (
                    f"{short}\t{quote(full, safe='', errors='surrogatepass')}\n"
                    for short, full in listed.items()
                )
                file.write("".join(lines).encode())
            self._shortened = listed
        with self._replacement(os.path.join(self._folder, f"{name}_{step}.npy")) as file:
            np.save(file, array, allow_pickle=False)
        self._saved += 1
        if self._identity is None:
            self._identity = _identity(self._folder)

    def take_losses(self) -> list[MissingRecords]:
        """Return the number of saved tensors whose folder was removed or replaced.

        Losses that an earlier call returned are left out.
        """
        if self._saved:
            self._compare_folder()
        losses, self._losses = self._losses, []
        return losses

    def _compare_folder(self) -> None:
        """Count the lost files if the folder was removed or replaced."""
        try:
            identity = _identity(self._folder)
            if identity == self._identity:
                return
            # A file system in user space may number its files anew: then they are all there.
            names = os.listdir(self._folder) if identity else []
        except OSError:  # out of reach
            return
        kept = sum(name.endswith(".npy") for name in names)
        if kept < self._saved:
            self._losses.append(MissingRecords(self._saved - kept, is_removed=True))
            self._shortened = {}
        self._saved, self._identity = min(kept, self._saved), identity


def _identity(folder: str) -> tuple[int, int] | None:
    """Return device and inode of a folder; ``None`` if it does not exist.

    Raises:
        OSError: the file system does not answer.
    """
    try:
        status = os.stat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino
