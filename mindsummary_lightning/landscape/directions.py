"""Directions in weight space, the coordinates of a run's checkpoints on their plane, and the axes of a grid over it.

The rules are MindSpore 2.7.0's ``_landscape.py``: only weights and biases move, a direction is scaled tensor by tensor
to the norm of the parameter, the grid extends 20 % beyond the path on each side. Tensors only; no files, no modules.
Tensors are processed one by one, so checkpoints larger than memory work when they are mapped from files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

State: TypeAlias = Mapping[str, Tensor]
Direction: TypeAlias = dict[str, Tensor]

_MARGIN = 0.2
_FINAL_REACH = 1.0
# Squared singular values come from a Gram matrix in float64; below this ratio the second one is rounding noise.
_NEGLIGIBLE = 1e-12


def is_moved(name: str) -> bool:
    """Whether a parameter of this name is moved over the plane (MindSpore's rule, by the name alone)."""
    return ("weight" in name or "bias" in name) and "moment" not in name


def pca_directions(states: Sequence[State], names: Sequence[str], seed: int = 0) -> tuple[Direction, Direction]:
    """The two principal directions of the checkpoints' differences to the last one, not scaled.

    As in MindSpore, each difference is centred on its own mean over all elements before the decomposition. Unlike
    there, a tensor that never changed (a frozen layer) is not part of the plane and does not move. The sign makes the
    element of largest magnitude positive. The second direction is random if the checkpoints are on a straight line.
    """
    changed = [name for name in names if any(not torch.equal(s[name], states[-1][name]) for s in states[:-1])]
    if not changed:
        raise ValueError("all checkpoints of the interval are equal; a landscape needs a direction")
    count = sum(states[-1][name].numel() for name in changed)
    sums = sum((_differences(states, name).sum(1) for name in changed), torch.zeros(len(states) - 1).double())
    means = sums / count
    gram = torch.zeros(len(states) - 1, len(states) - 1, dtype=torch.float64)
    for name in changed:
        centred = _differences(states, name) - means[:, None]
        gram += centred @ centred.T
    squares, vectors = torch.linalg.eigh(gram)
    directions = []
    for rank in (-1, -2):
        if squares[rank] <= _NEGLIGIBLE * squares[-1]:
            directions.append(random_directions(states[-1], changed, seed)[1])
            continue
        weights = vectors[:, rank] / squares[rank].sqrt()
        parts = {
            name: (weights @ (_differences(states, name) - means[:, None])).view(states[-1][name].shape)
            for name in changed
        }
        largest = max((part.flatten()[part.abs().argmax()] for part in parts.values()), key=abs)
        directions.append({name: part * largest.sign() for name, part in parts.items()})
    return directions[0], directions[1]


def random_directions(state: State, names: Sequence[str], seed: int = 0) -> tuple[Direction, Direction]:
    """Two directions of independent normal elements, not scaled; the same seed gives the same directions."""
    generator = torch.Generator().manual_seed(seed)

    def one() -> Direction:
        return {name: torch.randn(state[name].shape, generator=generator, dtype=torch.float64) for name in names}

    return one(), one()


def scaled(direction: Direction, state: State) -> Direction:
    """The direction with each tensor scaled to the norm of the parameter; float32 unless the parameter is float64.

    A tensor without any direction, or a parameter that is zero, does not move.
    """
    result = {}
    for name, part in direction.items():
        norm = part.norm()
        factor = state[name].double().norm() / norm if norm > 0 else torch.zeros(())
        dtype = torch.float64 if state[name].dtype == torch.float64 else torch.float32
        result[name] = (part * factor).to(dtype)
    return result


def path_coordinates(states: Sequence[State], first: Direction, second: Direction) -> NDArray[np.float64]:
    """Coordinates of each checkpoint on the plane, by least squares; shape ``(len(states), 2)``, the last row zero."""
    gram = torch.zeros(2, 2, dtype=torch.float64)
    right = torch.zeros(2, len(states) - 1, dtype=torch.float64)
    for name in first:
        axes = torch.stack([first[name].flatten(), second.get(name, torch.zeros_like(first[name])).flatten()]).double()
        gram += axes @ axes.T
        right += axes @ _differences(states, name).T
    # The pseudo-inverse gives the shortest solution where the axes are parallel or one of them is zero.
    solution = torch.linalg.pinv(gram, hermitian=True) @ right
    return np.vstack([solution.T.numpy(), np.zeros((1, 2))])


def path_axes(path: NDArray[np.float64], size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """``size`` points along each axis: the range of the path extended by a fifth of it on each side.

    An axis along which the path does not move reaches from -1 to 1.
    """

    def axis(coordinates: NDArray[np.float64]) -> NDArray[np.float64]:
        low, high = float(coordinates.min()), float(coordinates.max())
        margin = _MARGIN * (high - low)
        return np.linspace(low - margin, high + margin, size) if margin > 0 else final_axes(size)[0]

    return axis(path[:, 0]), axis(path[:, 1])


def final_axes(size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """``size`` points from -1 to 1 along each axis, in units of the parameters' own norms."""
    axis = np.linspace(-_FINAL_REACH, _FINAL_REACH, size)
    return axis, axis


def _differences(states: Sequence[State], name: str) -> Tensor:
    last = states[-1][name].flatten().double()
    return torch.stack([state[name].flatten().double() - last for state in states[:-1]])
