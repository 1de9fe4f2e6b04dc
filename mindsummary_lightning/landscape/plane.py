"""A plane in weight space, and the parameters at a point of it as views of one flat buffer. Tensors only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

# 64 bytes, the alignment torch gives tensors of their own.
_ALIGNED_ELEMENTS = 16


@dataclass(frozen=True, slots=True)
class Plane:
    """``anchor + x * first + y * second`` in weight space, under the module's own names.

    The anchor has every parameter and buffer of the network, the directions those that move.
    """

    anchor: Mapping[str, Tensor]
    first: Mapping[str, Tensor]
    second: Mapping[str, Tensor]


class FlatPlane:
    """The moving parameters as views of one buffer, so that a point costs two additions whatever the network.

    ``tensors`` are the parameters at the point of the last :meth:`place`, in their own dtypes.
    """

    def __init__(self, plane: Plane, device: torch.device) -> None:
        self._shapes = {name: plane.anchor[name].shape for name in plane.first}
        self._starts: dict[str, int] = {}
        end = 0
        for name, shape in self._shapes.items():
            self._starts[name] = end
            end += -(-math.prod(shape) // _ALIGNED_ELEMENTS) * _ALIGNED_ELEMENTS
        is_double = any(plane.anchor[name].dtype == torch.float64 for name in plane.first)
        dtype = torch.float64 if is_double else torch.float32
        self._anchor, self._first, self._second = (
            self._flat(state, end, dtype, device) for state in (plane.anchor, plane.first, plane.second)
        )
        self._row, self._point = torch.empty_like(self._anchor), torch.empty_like(self._anchor)
        self._y: float | None = None
        views = self._views(self._point)
        self.tensors = {name: view.to(plane.anchor[name].dtype) for name, view in views.items()}
        self._cast = [(self.tensors[name], view) for name, view in views.items() if view is not self.tensors[name]]

    def place(self, x: float, y: float) -> None:
        """Move ``tensors`` to a point; cheapest if only x changes."""
        if y != self._y:
            torch.add(self._anchor, self._second, alpha=y, out=self._row)
            self._y = y
        torch.add(self._row, self._first, alpha=x, out=self._point)
        for tensor, view in self._cast:
            tensor.copy_(view)

    def stacked(self, points: Tensor) -> dict[str, Tensor]:
        """The parameters at several points, stacked along a new first dimension."""
        x, y = points.to(self._anchor.device, self._anchor.dtype).T[:, :, None]
        flat = self._anchor + x * self._first + y * self._second
        return {name: view.to(self.tensors[name].dtype) for name, view in self._views(flat).items()}

    def _flat(self, state: Mapping[str, Tensor], size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        flat = torch.zeros(size, dtype=dtype, device=device)
        for name, view in self._views(flat).items():
            view.copy_(state[name])
        return flat

    def _views(self, flat: Tensor) -> dict[str, Tensor]:
        return {
            name: flat[..., start : start + math.prod(shape)].view((*flat.shape[:-1], *shape))
            for (name, shape), start in zip(self._shapes.items(), self._starts.values(), strict=True)
        }
