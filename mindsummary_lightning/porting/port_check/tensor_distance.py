"""Measures how far two tensors differ, and finds layouts in which they agree."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.porting.port_check.tolerances import HIDDEN_BELOW, NOT_HIDDEN_ABOVE

# Any, in this module: arrays of any dtype.
Array = NDArray[Any]
_MOST_AXES = 5  # layouts of tensors with more axes are not searched
_LEAST_SQUARE, _GREATEST_SQUARE = 1e-28, 1e28  # means of squares that float32 sums without loss
_CHANNELS_FIRST = {4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}
_CHANNELS_LAST = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}


@dataclass(frozen=True, slots=True)
class Layout:
    """A conversion of an original array to the port's shape.

    Attributes:
        axes: order of the axes of the squeezed array.
        shape: of the port's tensor.
        is_flat: whether only the order of all elements is the same, as of an embedding of
            positions.
    """

    axes: tuple[int, ...]
    shape: tuple[int, ...]
    is_flat: bool = False

    @property
    def is_plain(self) -> bool:
        """Tell whether all axes keep their places."""
        return self.axes == tuple(range(len(self.axes)))

    def applied(self, array: Array) -> Array:
        """Convert an original array to the port's layout."""
        if self.is_flat:
            return array.reshape(self.shape)
        squeezed = array.reshape(_squeezed(array.shape))
        placed: Array = squeezed.transpose(self.axes).reshape(self.shape)
        return placed


def layouts(reference: tuple[int, ...], port: tuple[int, ...]) -> Iterator[Layout]:
    """Yield layouts that convert one shape to the port's shape, most likely first."""
    squeezed, wanted = _squeezed(reference), _squeezed(port)
    if sorted(squeezed) != sorted(wanted):
        if _is_merged(squeezed, wanted) or _is_merged(wanted, squeezed):
            yield Layout((0,), port, is_flat=True)
        return
    count = len(squeezed)
    plain = tuple(range(count))
    likely = [
        plain,
        *(table[count] for table in (_CHANNELS_FIRST, _CHANNELS_LAST) if count in table),
    ]
    others = permutations(plain) if count <= _MOST_AXES else ()
    seen: set[tuple[int, ...]] = set()
    for axes in [*likely, *others]:
        fits = tuple(squeezed[axis] for axis in axes) == wanted
        if fits and axes not in seen:
            seen.add(axes)
            yield Layout(axes, port)


def relative_distance(reference: Array, port: Array, floor: float = 0.0) -> float:
    """Return the root mean square of the difference, relative to the reference's.

    Args:
        reference: of any dtype.
        port: of the same shape.
        floor: least value to divide by, absolute.

    Returns:
        Zero for equal arrays; infinite where one is not finite and the other is. Of integers it is
        the fraction of elements that differ.
    """
    if reference.dtype == port.dtype and np.array_equal(reference, port):
        return 0.0
    quick = _quick_distance(reference, port, floor)
    if quick is not None:
        return quick
    if reference.dtype.kind in "iub" and port.dtype.kind in "iub":
        return float(np.mean(reference != port)) if reference.size else 0.0
    wide = np.complex128 if "c" in (reference.dtype.kind, port.dtype.kind) else np.float64
    a, b = reference.astype(wide), port.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        is_same = (a == b) | (np.isnan(a) & np.isnan(b))
        difference = np.where(is_same, 0.0, a - b)
        if not np.isfinite(difference).all():
            return np.inf
        scale = max(rms(a), floor)
        apart = rms(difference)
    if apart == 0.0:
        return 0.0
    return float(apart / scale) if scale > 0.0 else np.inf


def _quick_distance(reference: Array, port: Array, floor: float) -> float | None:
    """Return the distance of float32 arrays; ``None`` if float32 is too coarse."""
    if reference.dtype != np.float32 or port.dtype != np.float32:
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        apart = _quick_rms(np.subtract(reference, port))
        scale = _quick_rms(reference)
    if apart is None or scale is None:
        return None
    return apart / max(scale, floor)


def _quick_rms(array: Array) -> float | None:
    """Return the root mean square in float32; ``None`` if that is not exact."""
    if array.dtype != np.float32 or not array.size:
        return None
    flat = np.ascontiguousarray(array).ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(np.dot(flat, flat)) / flat.size
    is_exact = _LEAST_SQUARE < mean < _GREATEST_SQUARE
    return math.sqrt(mean) if is_exact else None


def without_hidden(reference: Array, port: Array) -> tuple[Array, Array]:
    """Set elements that both arrays hide from a softmax to zero."""
    if reference.dtype.kind != "f" or port.dtype.kind != "f":
        return reference, port
    hidden = (reference <= HIDDEN_BELOW) & (port <= HIDDEN_BELOW)
    if not hidden.any():
        return reference, port
    shown = np.where(hidden, 0, reference)
    if np.abs(shown).max(initial=0.0) > NOT_HIDDEN_ABOVE:
        return reference, port
    return shown, np.where(hidden, 0, port)


def rms(array: Array) -> float:
    """Return the root mean square of the finite elements; 0 if there are none."""
    if not array.size:
        return 0.0
    quick = _quick_rms(array)
    return exact_rms(array) if quick is None else quick


def exact_rms(array: Array) -> float:
    """Compute the exact root mean square of the finite elements.

    It is computed in float64, so that equal values give equal numbers.
    """
    if not array.size:
        return 0.0
    magnitudes = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
    finite = np.isfinite(magnitudes)
    if not finite.all():
        magnitudes = np.where(finite, magnitudes, 0.0)
    return float(np.sqrt(np.mean(np.square(magnitudes))))


def moves_between_equal_elements(values: Array, reference: Array, port: Array) -> bool:
    """Tell whether two gradients differ only among equal elements of a channel.

    A maximum of equal elements may pass its gradient to any of them. Zeros may be as large as
    padding, which receives the gradient then.

    Args:
        values: tensor that the gradients belong to, with at least two axes.
        reference: gradient, of the same shape.
        port: gradient, of the same shape.
    """
    is_same_shape = values.shape == reference.shape == port.shape
    if values.ndim < 3 or not is_same_shape:
        return False
    rows = values.shape[0] * values.shape[1]
    flat = values.reshape(rows, -1)
    difference = (port.astype(np.float64) - reference).reshape(rows, -1)
    scale = rms(difference)
    for row, moved in zip(flat, difference, strict=True):
        if not moved.any():
            continue
        distinct, groups = np.unique(row, return_inverse=True)
        sums = np.bincount(groups.ravel(), weights=moved)
        sums[distinct == 0] = 0
        if np.abs(sums).max() > 1e-4 * scale * max(1.0, np.sqrt(moved.size)):
            return False
    return True


def _is_merged(axes: tuple[int, ...], merged: tuple[int, ...]) -> bool:
    """Tell whether neighbouring axes, such as height and width, are merged."""
    places = iter(axes)
    for length in merged:
        product = 1
        while product < length:
            product *= next(places, length + 1)
        if product != length:
            return False
    return next(places, None) is None


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)
