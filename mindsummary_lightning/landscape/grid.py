"""The grid of a loss landscape: its plane, its points, and the recorded result."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.landscape import directions
from mindsummary_lightning.landscape.batches import digest
from mindsummary_lightning.landscape.directions import OpenState, opened
from mindsummary_lightning.landscape.plane import Plane
from mindsummary_lightning.values import LandscapeMetadata, LossLandscape, Points

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class LandscapeGrid:
    """A loss landscape to compute: plane, grid of points, path of its checkpoints.

    The grid has the coordinates ``x`` and ``y``, float64. The path has the coordinates of an
    interval's checkpoints, shape ``(n, 2)``.

    A final landscape has a single number, that of its checkpoint, and a path without rows.
    ``plane`` makes the plane: planes of large networks are made one at a time, where they are
    needed.
    """

    numbers: tuple[int, ...]
    plane: Callable[[], Plane]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    path: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 2)))
    plane_hash: str = ""
    anchor: OpenState = field(default_factory=dict)

    @property
    def tag(self) -> str:
        """MindSpore's tag of the landscape.

        It is ``landscape_[first, last]`` for an interval, and ``landscape_[last]`` for a final
        landscape.
        """
        last = self.numbers[-1]
        ends = [self.numbers[0], last] if len(self.path) else [last]
        return f"landscape_{ends}"

    def rows(self) -> list[NDArray[np.float64]]:
        """Return the points of the landscape in rows, arrays of shape ``(k, 2)``.

        The rows of the grid come first, then the path if there is a path. A row is a unit of work.
        """
        grid = [np.stack([self.x, np.full_like(self.x, y)], axis=1) for y in self.y]
        return [*grid, self.path] if len(self.path) else grid

    def fingerprint(self, *more: object) -> str:
        """Hash everything the losses depend on: the plane, the points and ``more``."""
        sha = hashlib.sha256(repr((self.tag, self.plane_hash, more)).encode())
        for array in (self.x, self.y, self.path):
            sha.update(array.tobytes())
        return sha.hexdigest()[:16]

    def landscape(
        self, losses: Sequence[NDArray[np.float64]], unit: str, step_per_epoch: int
    ) -> LossLandscape:
        """Make the value that MindInsight draws from the losses of :meth:`rows`.

        Losses that are not finite become the largest finite loss, with a warning.

        Raises:
            ValueError: no loss is finite.
        """
        rows = iter(_finite(losses, self.tag))
        z = np.stack([next(rows) for _ in self.y])
        x = self.x.astype(np.float32)
        y = self.y.astype(np.float32)
        path_xy = self.path.astype(np.float32)
        if len(self.path):
            path = Points(path_xy[:, 0], path_xy[:, 1], next(rows))
            end, about = (
                (0.0, 0.0, float(path.z[-1])),
                LandscapeMetadata("PCA", unit, step_per_epoch),
            )
            return LossLandscape(Points(x, y, z), self.numbers, path, end, about)
        # MindSpore's centre, half a cell off if the size is even
        column, row = len(self.x) // 2, len(self.y) // 2
        centre = (float(x[column]), float(y[row]), float(z[row, column]))
        return LossLandscape(
            Points(x, y, z), (), None, centre, LandscapeMetadata("Random", unit, step_per_epoch)
        )


def interval_grid(
    numbers: tuple[int, ...], states: Sequence[OpenState], names: list[str], size: int, seed: int
) -> LandscapeGrid:
    """Make the landscape of a training interval, on two principal directions.

    The states have the network's names and the order of ``numbers``. The last state is the origin.
    """
    make = partial(_plane, states[-1], partial(directions.pca_directions, states, names, seed))
    plane = make()
    path = directions.path_coordinates(states, plane.first, plane.second)
    plane_hash = digest([plane.anchor, plane.first, plane.second])
    return LandscapeGrid(
        numbers, make, *directions.path_axes(path, size), path, plane_hash, states[-1]
    )


def final_grid(
    number: int, anchor: OpenState, names: list[str], size: int, seed: int
) -> LandscapeGrid:
    """Make the landscape around a checkpoint, on two random directions."""
    make = partial(_plane, anchor, partial(directions.random_directions, anchor, names, seed))
    # which are all that its directions are made of
    plane_hash = digest([opened(anchor), names, seed])
    return LandscapeGrid(
        (number,), make, *directions.final_axes(size), plane_hash=plane_hash, anchor=anchor
    )


def _plane(anchor: OpenState, make_axes: Callable[[], directions.Directions]) -> Plane:
    state = opened(anchor)
    first, second = make_axes()
    first = directions.scaled(first, state)
    second = directions.scaled(second, state)
    return Plane(opened(anchor), first, second)


def _finite(losses: Sequence[NDArray[np.float64]], tag: str) -> list[NDArray[np.float32]]:
    with np.errstate(over="ignore"):
        narrow = [row.astype(np.float32) for row in losses]
    every = np.concatenate(narrow)
    good = np.isfinite(every)
    if good.all():
        return narrow
    if not good.any():
        raise ValueError(
            f"{tag}: at least one loss must be finite, got none; the loss of the last checkpoint "
            f"is {every[-1]}"
        )
    largest = every[good].max()
    _LOG.warning(
        "%s: %d losses that are not finite were replaced by %g", tag, (~good).sum(), largest
    )
    return [np.where(np.isfinite(row), row, largest) for row in narrow]
