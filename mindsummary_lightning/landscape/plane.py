"""A plane in weight space; the parameters at its points are views of a buffer.

This module uses only tensors.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

# 64 bytes, the alignment torch gives tensors of their own.
_ALIGNED_ELEMENTS = 16
# Threads take turns at changing and restoring what a process has once: random states, default type,
# threads, log level.
PROCESS_STATE = threading.RLock()


class FlatState(dict[str, Tensor]):
    """Dict of tensors that are views of one buffer, all of a type, at first zero."""

    def __init__(
        self,
        shapes: Mapping[str, Any],
        dtype: Any = torch.float32,
        device: torch.device | str = "cpu",
        flat: Any = None,
    ) -> None:
        sizes = {
            name: -(-math.prod(shape) // _ALIGNED_ELEMENTS) * _ALIGNED_ELEMENTS
            for name, shape in shapes.items()
        }
        self.shapes: dict[str, Any] = dict(shapes)
        self.flat: Tensor = (
            torch.zeros(sum(sizes.values()), dtype=dtype, device=device) if flat is None else flat
        )
        start = 0
        for name, shape in self.shapes.items():
            view = self.flat[..., start : start + math.prod(shape)]
            self[name] = view.view((*self.flat.shape[:-1], *shape))
            start += sizes[name]

    def __reduce__(self) -> Any:
        return type(self), (self.shapes, self.flat.dtype, "cpu", self.flat)


@dataclass(frozen=True, slots=True)
class Plane:
    """A plane in weight space: the points ``anchor + x * first + y * second``.

    The anchor has every parameter and buffer of the network by name. The directions have the
    parameters that move, in the same order.
    """

    anchor: Mapping[str, Tensor]
    first: FlatState
    second: FlatState


def strided_parts(tensor: Tensor) -> list[Tensor]:
    """Return the strided tensors that hold the elements of a tensor.

    That is the tensor itself, or the indices and values of a sparse tensor.
    """
    if tensor.layout == torch.strided:
        return [tensor]
    coordinates = tensor if tensor.is_sparse else tensor.to_sparse()
    return [coordinates._indices(), coordinates._values()]


def memory_of(tensor: Tensor) -> object:
    """Return a key that is equal for two tensors that share the same elements.

    For tensors without strided memory, the key is equal only for the same object.
    """
    if is_lazy(tensor) or tensor.layout != torch.strided or not tensor.data_ptr():
        return id(tensor)
    return tensor.device, tensor.dtype, tensor.data_ptr(), tuple(tensor.shape), tensor.stride()


class MappedTensors(dict[str, Tensor]):
    """Dict of tensors whose memory is mapped from a file and is never written to.

    Args:
        path: the file, without links.
        tensors: the tensors.
    """

    def __init__(self, path: str, tensors: Mapping[str, Tensor]) -> None:
        super().__init__(tensors)
        self._path = path

    def forget_pages(self) -> None:
        """Release the memory of the file's pages that were read; only on Linux.

        Mapping the file again would take 0.1 s for a thousand files.
        """
        if sys.platform != "linux":
            return
        with open("/proc/self/maps", errors="surrogateescape") as file:
            mappings = [line.rstrip("\n").split(maxsplit=5) for line in file]
        for bounds, *_, path in mappings:
            if path.removesuffix(" (deleted)") == self._path:
                first, end = [int(bound, 16) for bound in bounds.split("-")]
                advise = ctypes.CDLL(None).madvise
                advise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), mmap.MADV_DONTNEED)


class FlatPlane:
    """A plane on a device, with the moving parameters in flat buffers.

    A point costs two additions.

    ``tensors`` are the parameters at the point of the last :meth:`place`, in their own types or in
    ``dtype``; ``fixed`` are all other tensors. On the CPU no copy is made of directions and anchor,
    which may be mapped from a file. The memory then holds the file's pages, the two directions and
    the point.
    """

    def __init__(
        self, plane: Plane, device: torch.device, dtype: torch.dtype | None = None
    ) -> None:
        self.device: torch.device = device
        self._wide, self._shapes = plane.first.flat.dtype, plane.first.shapes
        self.first: FlatState = self._on_device(plane.first)
        self.second: FlatState = self._on_device(plane.second)
        self.anchor: dict[str, Tensor] = {
            name: plane.anchor[name].to(device) for name in self._shapes
        }
        self._point = FlatState(self._shapes, self._wide, device)
        self.tensors: dict[str, Tensor] = {
            name: view.to(dtype or plane.anchor[name].dtype) for name, view in self._point.items()
        }
        self._cast: list[tuple[Tensor, Tensor]] = []
        for name, view in self._point.items():
            if view is not self.tensors[name]:
                self._cast.append((self.tensors[name], view))
        self.fixed: dict[str, Tensor] = {}
        for name, tensor in plane.anchor.items():
            if name not in plane.first:
                wanted = dtype if tensor.is_floating_point() else None
                self.fixed[name] = tensor.to(device, wanted or tensor.dtype)

    def _on_device(self, direction: FlatState) -> FlatState:
        flat = direction.flat.to(self.device)
        return FlatState(self._shapes, self._wide, self.device, flat)

    def own_dtype(self) -> torch.dtype | None:
        """Return the common type of all floating-point tensors; ``None`` if they differ.

        In Lightning's true precisions they have the same type.
        """
        tensors = (*self.tensors.values(), *self.fixed.values())
        types = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
        return types.pop() if len(types) == 1 else None

    def place(self, x: float, y: float) -> None:
        """Set ``tensors`` to the parameters at the point (``x``, ``y``) of the plane."""
        for name, point in self._point.items():
            torch.add(self.anchor[name], self.second[name], alpha=y, out=point)
        self._point.flat.add_(self.first.flat, alpha=x)
        for tensor, view in self._cast:
            tensor.copy_(view)

    def stacked(self, points: Tensor) -> dict[str, Tensor]:
        """Return the parameters at several points, stacked along a new first dimension."""
        x, y = points.to(self.device, self._wide).T[:, :, None]
        views = FlatState(
            self._shapes, self._wide, self.device, x * self.first.flat + y * self.second.flat
        )
        return {
            name: (self.anchor[name] + view).to(self.tensors[name].dtype)
            for name, view in views.items()
        }
