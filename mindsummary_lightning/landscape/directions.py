"""Directions of a loss landscape in weight space, and coordinates on their plane.

The rules are MindSpore 2.7.0's ``_landscape.py``: only weights and biases move, a direction is
scaled tensor by tensor to the norm of the parameter, and the grid extends 20 % beyond the path on
each side. Checkpoints are read piece by piece, so that only two directions and a few pieces are in
memory, for any number of checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mindsummary_lightning.landscape.plane import PROCESS_STATE, FlatState, MappedTensors

State: TypeAlias = Mapping[str, Tensor]
# tensors, or what maps them from a file when it is called
OpenState: TypeAlias = State | Callable[[], State]
Directions: TypeAlias = tuple[FlatState, FlatState]

_MARGIN = 0.2
_FINAL_REACH = 1.0
# Squared singular values come from a Gram matrix in float64; below this ratio the second one is
# rounding noise.
_NEGLIGIBLE = 1e-12
_PIECE = 2**14  # elements; a multiple of 16
MAX_MAPPED_ELEMENTS = 2**23


def is_moved(name: str) -> bool:
    """Tell whether a landscape moves a parameter, by MindSpore's rule for its name.

    The name contains ``weight`` or ``bias``, but not ``moment``.
    """
    return ("weight" in name or "bias" in name) and "moment" not in name


def pca_directions(states: Sequence[OpenState], names: Sequence[str], seed: int = 0) -> Directions:
    """Compute the two principal directions of the differences between checkpoints.

    The differences are taken to the last checkpoint. The directions are not scaled yet.

    As in MindSpore, each difference is centred on its own mean over all elements before the
    decomposition. Unlike in MindSpore, a tensor that never changed (a frozen layer) is not part of
    the plane and does not move. The sign makes the element of largest magnitude positive. The
    second direction is random if the checkpoints are on a straight line.

    Raises:
        ValueError: all checkpoints are equal.
    """
    with _one_thread():
        products = _inner_products(states, names)
        last = opened(states[-1])
        moved = [name for name in names if name in products.changed]
        if not moved:
            raise ValueError(
                "all checkpoints of the interval are equal, so a landscape has no direction. Name "
                "an interval in which the weights change"
            )
        count = sum(last[name].numel() for name in moved)
        means = products.sums / count
        squares, vectors = torch.linalg.eigh(products.gram - count * means[:, None] * means)
        directions = _zeros(last, moved), _zeros(last, moved)
        largest = torch.zeros(2, dtype=torch.float64)
        for name, start, rows in _differences(states, moved):
            for rank, direction in enumerate(directions):
                part = _weighted_sum(rows, means, vectors[:, -1 - rank])
                part /= squares[-1 - rank].clamp(min=1e-300).sqrt()
                direction[name].view(-1)[start : start + len(part)] = part
                extreme = part[part.abs().argmax()]
                if extreme.abs() > largest[rank].abs():
                    largest[rank] = extreme
    for direction, extreme in zip(directions, largest, strict=True):
        direction.flat.mul_(-1.0 if extreme < 0 else 1.0)
    if squares[-2] <= _NEGLIGIBLE * squares[-1]:
        return directions[0], random_directions(last, moved, seed)[1]
    return directions


def _weighted_sum(rows: Tensor, means: Tensor, weights: Tensor) -> Tensor:
    """Sum the rows, each less its mean and times its weight; float64, shape ``(n,)``."""
    total = torch.zeros(rows.shape[1], dtype=torch.float64)
    for row, mean, weight in zip(rows, means, weights, strict=True):
        total += weight * (row - mean)
    return total


@dataclass(frozen=True)
class _InnerProducts:
    """Inner products and sums of each checkpoint's difference to the last checkpoint.

    Attributes:
        gram: inner products of the differences, float64, shape ``(n, n)``.
        sums: sums of the elements of the differences, float64, shape ``(n,)``.
        changed: names of the tensors that differ.
    """

    gram: Tensor
    sums: Tensor
    changed: set[str]


def _inner_products(states: Sequence[OpenState], names: Sequence[str]) -> _InnerProducts:
    count = len(states) - 1
    gram = torch.zeros(count, count, dtype=torch.float64)
    sums = torch.zeros(count, dtype=torch.float64)
    changed: set[str] = set()
    for name, _, rows in _differences(states, names):
        if rows.any():
            changed.add(name)
        gram += rows @ rows.T
        sums += rows.sum(1)
    return _InnerProducts(gram, sums, changed)


def random_directions(anchor: OpenState, names: Sequence[str], seed: int = 0) -> Directions:
    """Draw two directions with independent normal elements, not scaled.

    The same seed gives the same directions.
    """
    state = opened(anchor)
    generator = torch.Generator().manual_seed(seed)

    def drawn() -> FlatState:
        direction = _zeros(state, names)
        for tensor in direction.values():
            flat = tensor.view(-1)
            for start, end in _pieces(len(flat)):
                flat[start:end] = torch.randn(end - start, generator=generator, dtype=torch.float64)
        return direction

    return drawn(), drawn()


def scaled(direction: FlatState, state: State) -> FlatState:
    """Scale every tensor of a direction, in place, to the norm of the parameter.

    A tensor of zeros, or a parameter that is zero, gets the direction zero and does not move.
    """
    for name, part in direction.items():
        norm = _norm(part)
        part.mul_(_norm(state[name]) / norm if norm > 0 else 0.0)
    return direction


def path_coordinates(
    states: Sequence[OpenState], first: FlatState, second: FlatState
) -> NDArray[np.float64]:
    """Project checkpoints onto the plane of two directions, by least squares.

    The last checkpoint is the origin.

    Returns:
        Coordinates, float64, shape ``(len(states), 2)``; the last row is zero.
    """
    gram = torch.zeros(2, 2, dtype=torch.float64)
    right = torch.zeros(2, len(states) - 1, dtype=torch.float64)
    with _one_thread():
        for name, start, rows in _differences(states, list(first)):
            piece = slice(start, start + rows.shape[1])
            along = [direction[name].view(-1)[piece].double() for direction in (first, second)]
            axes = torch.stack(along)
            gram += axes @ axes.T
            right += axes @ rows.T
        # The pseudo-inverse gives the shortest solution where the axes are parallel or one of them
        # is zero.
        solution = torch.linalg.pinv(gram, hermitian=True) @ right
    return np.vstack([solution.T.numpy(), np.zeros((1, 2))])


def path_axes(
    path: NDArray[np.float64], size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the grid coordinates of both axes, with a margin of 20 % around a path.

    Each axis has ``size`` points. An axis along which the path does not move reaches from -1 to 1.
    """

    def axis(coordinates: NDArray[np.float64]) -> NDArray[np.float64]:
        low, high = float(coordinates.min()), float(coordinates.max())
        margin = _MARGIN * (high - low)
        if margin > 0:
            return np.linspace(low - margin, high + margin, size)
        return final_axes(size)[0]

    return axis(path[:, 0]), axis(path[:, 1])


def final_axes(size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the grid coordinates of both axes, ``size`` points from -1 to 1.

    The unit is the norm of a parameter.
    """
    axis = np.linspace(-_FINAL_REACH, _FINAL_REACH, size)
    return axis, axis


def _differences(
    states: Sequence[OpenState], names: Sequence[str]
) -> Iterator[tuple[str, int, Tensor]]:
    """Yield, piece by piece, the differences between states and the last state.

    A piece has the name, the index of its first element, and a float64 row for every state but the
    last.
    """
    files = [state() if callable(state) else state for state in states]
    tensors = [opened(file) for file in files]
    read = 0
    for name in names:
        for start, end in _pieces(tensors[-1][name].numel()):
            if read > MAX_MAPPED_ELEMENTS:
                read = 0
                _forget_pages(files)
            rows = torch.stack([state[name].reshape(-1)[start:end].double() for state in tensors])
            read += rows.numel()
            yield name, start, rows[:-1] - rows[-1]


def _forget_pages(files: Iterable[State]) -> None:
    for file in files:
        if isinstance(file, MappedTensors):
            file.forget_pages()


def _pieces(size: int) -> Iterator[tuple[int, int]]:
    """Split a flat tensor of ``size`` elements; return start and end of each piece.

    A piece has 16,384 elements; the last piece may be longer or shorter. No piece is shorter than
    16 elements, unless the tensor is: then torch draws the same normal numbers for pieces as for
    the whole.
    """
    starts = list(range(0, size, _PIECE))
    if len(starts) > 1 and size - starts[-1] < 16:
        starts.pop()
    if starts:
        return zip(starts, [*starts[1:], size], strict=True)
    return iter(())


def opened(state: OpenState) -> State:
    """Return the tensors of a state; if they are in a file, map the file again.

    A complex tensor that moves becomes pairs of real elements.
    """
    tensors = state() if callable(state) else state
    found = {}
    for name, tensor in tensors.items():
        is_pairs = tensor.is_complex() and is_moved(name)
        found[name] = torch.view_as_real(tensor) if is_pairs else tensor
    return found


def _zeros(state: State, names: Iterable[str]) -> FlatState:
    """Return a direction of zeros, in float64 if a parameter is float64, else float32."""
    is_wide = any(state[name].dtype == torch.float64 for name in names)
    shapes = {name: state[name].shape for name in names}
    return FlatState(shapes, torch.float64 if is_wide else torch.float32)


def _norm(tensor: Tensor) -> float:
    flat = tensor.reshape(-1)
    return math.sqrt(
        sum(float(flat[start:end].double().square().sum()) for start, end in _pieces(len(flat)))
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    """Make torch use one thread within a ``with`` block.

    Sums are then the same, to the last bit, in processes with any number of threads.
    """
    with PROCESS_STATE:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
