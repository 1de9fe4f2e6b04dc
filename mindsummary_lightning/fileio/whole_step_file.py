"""Write and read the complete tensors of a training step as an ``.npz`` file.

The file is ``whole_step_<n>.npz``, for ``numpy.load``.

A member of the file is an uncompressed ``.npy`` and is written when its tensor arrives, so the
tensors of a step are never in memory together. The index comes last. The file gets its name when it
is complete, and a reader maps a member without reading the others.
"""

from __future__ import annotations

import os
import re
import struct
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.fileformat.whole_step_index import decode_whole_step, encode_whole_step
from mindsummary_lightning.fileio.regular import open_regular
from mindsummary_lightning.fileio.replace import temporary_name
from mindsummary_lightning.values.whole_step import StoredTensor, WholeStep

# Any, in this module: arrays of any dtype.
INDEX_MEMBER = "index.json"
DEFAULT_MAX_BYTES = 2**33  # 8 GiB: a step of GPT-2 small with 1,024 tokens takes 3.7 GB
_NAME = re.compile(r"whole_step_(\d+)\.npz")
_LOCAL_HEADER = 30  # bytes of a zip member's local header, before its name and extra field


def whole_step_path(directory: str, step: int) -> str:
    """Return the path of the file with a step's complete tensors."""
    return os.path.join(directory, f"whole_step_{step}.npz")


def whole_step_paths(directory: str) -> dict[int, str]:
    """Return the paths of a run's ``whole_step_<n>.npz`` files, by ascending step."""
    found: dict[int, str] = {}
    for path in Path(directory).iterdir():
        match = _NAME.fullmatch(path.name)
        if match is not None and path.is_file():
            found[int(match[1])] = str(path)
    return dict(sorted(found.items()))


class WholeStepWriter:
    """A writer that saves the tensors of a training step as they arrive.

    Once the step is larger than ``max_bytes``, tensors are only counted and no longer written, so
    that the total size of the step is known at its end.

    Args:
        directory: directory of the run; it is created if needed.
        max_bytes: greatest size of the file, in bytes.

    Attributes:
        size: bytes of all tensors so far, written or only counted.
    """

    def __init__(self, directory: str, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        os.makedirs(directory, exist_ok=True)
        self.size: int = 0
        self._directory = directory
        self._max_bytes = max_bytes
        self._temporary = temporary_name(directory)
        opener = partial(os.open, mode=0o600)
        self._opened = open(self._temporary, "xb", opener=opener)  # noqa: SIM115 # until the end
        self._file: zipfile.ZipFile | None = zipfile.ZipFile(self._opened, "w", zipfile.ZIP_STORED)
        self._count = 0

    @property
    def is_too_large(self) -> bool:
        """Tell whether the tensors so far are larger than ``max_bytes``."""
        return self.size > self._max_bytes

    def add(self, array: NDArray[Any], path: str = "", dtype: str = "") -> StoredTensor:
        """Write a tensor's array to the file.

        Args:
            array: the array; bfloat16 is given as uint16.
            path: dotted path of the tensor in its input, output or batch.
            dtype: name of the tensor's dtype; ``""`` for the dtype of the array.

        Returns:
            The description of the tensor, with the name of its member.
        """
        name = f"array_{self._count}"
        self._count += 1
        self.size += array.nbytes
        if self.is_too_large:
            self._remove()
        if self._file is not None:
            with self._file.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        return StoredTensor(path, name, dtype or str(array.dtype), tuple(array.shape))

    def finish(self, step: WholeStep) -> str:
        """Write the index of the step, and give the file its final name.

        Returns:
            The path of the file.

        Raises:
            ValueError: the step is larger than ``max_bytes``; no file is left.
        """
        if self._file is None:
            raise ValueError(
                f"the tensors of step {step.step} must have at most "
                f"{_megabytes(self._max_bytes)}, got {_megabytes(self.size)}. Pass a greater "
                "whole_tensors_max_bytes, or record a smaller batch"
            )
        self._file.writestr(INDEX_MEMBER, encode_whole_step(step))
        self._close()
        path = whole_step_path(self._directory, step.step)
        os.replace(self._temporary, path)
        return path

    def discard(self) -> None:
        """Delete the unfinished file of the step."""
        self._remove()

    def _remove(self) -> None:
        if self._file is not None:
            self._close()
            os.unlink(self._temporary)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._opened.close()


class WholeStepReader:
    """A reader of a step's complete tensors, which are mapped and not loaded.

    Args:
        path: path of a ``whole_step_<n>.npz`` file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not the complete file of a recorded step.

    Attributes:
        step: the index of the file: modules, calls and tensors of the step.
        path: path of the file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: str = os.fspath(path)
        try:
            with open_regular(self.path) as opened, zipfile.ZipFile(opened) as file:
                content = file.read(INDEX_MEMBER)
                self._offsets = {
                    info.filename.removesuffix(".npy"): info.header_offset
                    for info in file.infolist()
                }
        except (zipfile.BadZipFile, KeyError) as error:
            raise ValueError(
                f"{self.path} must be the complete file of a recorded step. Record the step again"
            ) from error
        self.step: WholeStep = decode_whole_step(content)

    def array(self, tensor: StoredTensor) -> NDArray[Any]:
        """Return the array of a tensor, read-only, in its shape; bfloat16 as float32.

        Raises:
            ValueError: the file does not contain the tensor.
        """
        if tensor.array not in self._offsets:
            raise ValueError(f"{self.path} lacks the tensor {tensor.array}. Record the step again")
        array = self._mapped(self._offsets[tensor.array])
        if tensor.dtype == "bfloat16":
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array

    def _mapped(self, header_offset: int) -> NDArray[Any]:
        with open_regular(self.path) as file:
            file.seek(header_offset)
            header = file.read(_LOCAL_HEADER)
            name_length, extra_length = struct.unpack("<HH", header[26:30])
            file.seek(name_length + extra_length, os.SEEK_CUR)
            version = np.lib.format.read_magic(file)
            read_header = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, is_fortran, dtype = read_header(file)
            if 0 in shape:
                return np.empty(shape, dtype)
            order = "F" if is_fortran else "C"
            return np.memmap(  # type: ignore[call-overload, no-any-return]
                file, dtype, "r", file.tell(), shape, order
            )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
