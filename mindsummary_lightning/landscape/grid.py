"""Landscapes to compute: plane, rows of points, and the value that their losses become."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from mindsummary_lightning.landscape.directions import (
    OpenState,
    State,
    final_axes,
    opened,
    path_axes,
    path_coordinates,
    pca_directions,
    random_directions,
    scaled,
)
from mindsummary_lightning.landscape.plane import Plane, strided_parts
from mindsummary_lightning.values import LandscapeMetadata, LossLandscape, Points

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class LandscapeGrid:
    """One landscape to compute: a grid of coordinates ``x`` and ``y``, and the ``path`` of an interval's checkpoints.

    A final landscape has one number, that of its checkpoint, and a path without rows. The plane may be a function that
    makes it: planes of large networks are made one at a time, where they are needed.
    """

    numbers: tuple[int, ...]
    plane: Plane | Callable[[], Plane]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    path: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 2)))
    plane_hash: str = ""
    anchor: OpenState = field(default_factory=dict)

    @property
    def tag(self) -> str:
        """MindSpore's tag: ``landscape_[first, last]`` of an interval, ``landscape_[last]`` of a final landscape."""
        return f"landscape_{[self.numbers[0], self.numbers[-1]] if len(self.path) else [self.numbers[-1]]}"

    def rows(self) -> list[NDArray[np.float64]]:
        """The points in units of work of shape ``(k, 2)``: one per row of the grid, then the path if there is one."""
        grid = [np.stack([self.x, np.full_like(self.x, y)], axis=1) for y in self.y]
        return [*grid, self.path] if len(self.path) else grid

    def open_plane(self) -> Plane:
        """The plane, made now if it is not there."""
        return self.plane() if callable(self.plane) else self.plane

    def fingerprint(self, *more: object) -> str:
        """A hash of everything the losses depend on: the plane, the points and ``more``."""
        sha = hashlib.sha256(repr((self.tag, self.plane_hash, more)).encode())
        for array in (self.x, self.y, self.path):
            sha.update(array.tobytes())
        return sha.hexdigest()[:16]

    def landscape(self, losses: Sequence[NDArray[np.float64]], unit: str, step_per_epoch: int) -> LossLandscape:
        """The value MindInsight draws, from the losses of :meth:`rows`.

        Losses that are not finite become the largest finite one, with one warning.
        """
        rows = iter(_finite(losses, self.tag))
        z = np.stack([next(rows) for _ in self.y])
        x, y, path_xy = (array.astype(np.float32) for array in (self.x, self.y, self.path))
        if len(self.path):
            path = Points(path_xy[:, 0], path_xy[:, 1], next(rows))
            return LossLandscape(
                Points(x, y, z),
                self.numbers,
                path,
                (0.0, 0.0, float(path.z[-1])),
                LandscapeMetadata("PCA", unit, step_per_epoch),
            )
        column, row = len(self.x) // 2, len(self.y) // 2  # MindSpore's centre, half a cell off if the size is even
        centre = (float(x[column]), float(y[row]), float(z[row, column]))
        return LossLandscape(Points(x, y, z), (), None, centre, LandscapeMetadata("Random", unit, step_per_epoch))


def interval_grid(
    numbers: tuple[int, ...], states: Sequence[OpenState], names: list[str], size: int, seed: int
) -> LandscapeGrid:
    """The landscape along an interval, through the two principal directions of its checkpoints.

    The states have the network's names and the order of ``numbers``; the last one is the origin.
    """
    plane = interval_plane(states, names, seed)
    path = path_coordinates(states, plane.first, plane.second)
    x, y = path_axes(path, size)
    make_plane = partial(interval_plane, states, names, seed)
    return LandscapeGrid(numbers, make_plane, x, y, path, _hash(plane.anchor, plane.first, plane.second), states[-1])


def final_grid(number: int, anchor: OpenState, names: list[str], size: int, seed: int) -> LandscapeGrid:
    """The landscape around one checkpoint, through two random directions."""
    make_plane = partial(final_plane, anchor, names, seed)
    plane_hash = f"{_hash(opened(anchor))} {names} {seed}"  # which are all that its directions are made of
    return LandscapeGrid((number,), make_plane, *final_axes(size), plane_hash=plane_hash, anchor=anchor)


def interval_plane(states: Sequence[OpenState], names: list[str], seed: int) -> Plane:
    """The plane of an interval."""
    last = opened(states[-1])
    first, second = (scaled(direction, last) for direction in pca_directions(states, names, seed))
    return Plane(opened(states[-1]), first, second)


def final_plane(anchor: OpenState, names: list[str], seed: int) -> Plane:
    """The plane of a final landscape."""
    state = opened(anchor)
    first, second = (scaled(direction, state) for direction in random_directions(state, names, seed))
    return Plane(opened(anchor), first, second)


def _hash(*states: State) -> str:
    sha = hashlib.sha256()
    for state in states:
        for name, tensor in state.items():
            sha.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
            for part in strided_parts(tensor):
                sha.update(part.contiguous().view(-1).view(torch.uint8).numpy().data if part.numel() else b"")
    return sha.hexdigest()


def _finite(losses: Sequence[NDArray[np.float64]], tag: str) -> list[NDArray[np.float32]]:
    with np.errstate(over="ignore"):
        narrow = [row.astype(np.float32) for row in losses]
    every = np.concatenate(narrow)
    good = np.isfinite(every)
    if good.all():
        return narrow
    if not good.any():
        raise ValueError(f"{tag}: no loss is finite; the last checkpoint itself gives {every[-1]}")
    largest = every[good].max()
    _LOG.warning("%s: %d losses that are not finite were replaced by %g", tag, (~good).sum(), largest)
    return [np.where(np.isfinite(row), row, largest) for row in narrow]
