"""Weights of a port and of the original, paired by names, values and structure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mindsummary_lightning.comparison.name_blocks import TensorName
from mindsummary_lightning.comparison.names import match_names
from mindsummary_lightning.port_check.tensor_distance import Array, layouts, relative_distance

_SAME = 1e-6  # relative distance of two weights that are one weight in two layouts
_COUNTERS = "num_batches_tracked"


@dataclass(frozen=True, slots=True)
class WeightPairs:
    """Which weight of the port is which of the original.

    Attributes:
        reference_of: names in the original by names in the port.
        parts_of: names of several weights in the original whose rows one weight of the port holds in this order, as of
            query, key and value.
        only_port: names without a partner.
        only_reference: names without a partner.
    """

    reference_of: dict[str, str]
    parts_of: dict[str, tuple[str, ...]]
    only_port: tuple[str, ...]
    only_reference: tuple[str, ...]

    def references(self, name: str) -> tuple[str, ...]:
        """All names in the original that belong to a weight of the port."""
        if name in self.reference_of:
            return (self.reference_of[name],)
        return self.parts_of.get(name, ())


def pair_weights(reference: Mapping[str, Array], port: Mapping[str, Array]) -> WeightPairs:
    """Pair the weights with which a step of the original and of the port begins.

    Args:
        reference: arrays of the original by name, in their order.
        port: arrays of the port by name.
    """
    reference = {name: array for name, array in reference.items() if not name.endswith(_COUNTERS)}
    port = {name: array for name, array in port.items() if not name.endswith(_COUNTERS)}
    match = match_names(_described(reference), _described(port))
    reference_of = {pair.b: pair.a for pair in match.pairs if _fits(reference[pair.a], port[pair.b])}
    _mend_by_value(reference_of, reference, port)
    taken = {*reference_of.values()}
    left = {name: array for name, array in port.items() if name not in reference_of}
    free = [name for name in reference if name not in taken]
    parts = _parts(left, free, reference)
    taken.update(*parts.values())
    return WeightPairs(
        reference_of,
        parts,
        tuple(name for name in left if name not in parts),
        tuple(name for name in reference if name not in taken),
    )


def fitted_weight(reference: Array, like: tuple[int, ...], own: Array | None = None) -> Array | None:
    """The reference's weight in the port's shape: squeezed, or transposed as the port's own values are.

    Returns:
        ``None`` if it has another size, or if only a transposition fits that the port's values do not confirm.
    """
    for layout in layouts(reference.shape, like):
        fitted = layout.applied(reference)
        if layout.is_plain or (own is not None and relative_distance(fitted, own) <= _SAME):
            return fitted
    if math.prod(reference.shape) == math.prod(like) and own is not None:
        flat = reference.reshape(like)
        if relative_distance(flat, own) <= _SAME:
            return flat
    candidates = [layout.applied(reference) for layout in layouts(reference.shape, like)]
    return candidates[0] if len(candidates) == 1 else None


def _described(weights: Mapping[str, Array]) -> list[TensorName]:
    described = []
    for name, array in weights.items():
        numbers: tuple[float, ...] = ()
        if array.size and array.dtype.kind == "f":
            numbers = (float(array.min()), float(array.max()), float(array.mean(dtype=np.float64)))
        described.append(TensorName(name, array.size, numbers))
    return described


def _fits(reference: Array, port: Array) -> bool:
    return fitted_weight(reference, port.shape, port) is not None


def _mend_by_value(reference_of: dict[str, str], reference: Mapping[str, Array], port: Mapping[str, Array]) -> None:
    """Pair what is left by equal values, if only one of each has them."""
    taken = {*reference_of.values()}
    free = [name for name in reference if name not in taken]
    for name, array in port.items():
        if name in reference_of or array.size < 2:
            continue
        equal = [other for other in free if _is_same(reference[other], array)]
        if len(equal) == 1:
            reference_of[name] = equal[0]
            free.remove(equal[0])


def _is_same(reference: Array, port: Array) -> bool:
    if reference.size != port.size:
        return False
    fitted = fitted_weight(reference, port.shape, port)
    return fitted is not None and relative_distance(fitted, port) <= _SAME and bool(np.ptp(port) > 0)


def _parts(
    port: Mapping[str, Array], free: Sequence[str], reference: Mapping[str, Array]
) -> dict[str, tuple[str, ...]]:
    """Weights of the port whose rows are those of several consecutive weights of the original, by values."""
    found: dict[str, tuple[str, ...]] = {}
    for name, array in port.items():
        for rows in (array, array.T) if array.ndim == 2 else (array,):
            parts = _covering(rows, free, reference)
            if len(parts) > 1:
                found[name] = parts
                break
    return found


def _covering(rows: Array, free: Sequence[str], reference: Mapping[str, Array]) -> tuple[str, ...]:
    parts: list[str] = []
    begin = 0
    while begin < len(rows):
        fitting = [name for name in free if name not in parts and _begins(rows[begin:], reference[name])]
        if not fitting:
            return ()
        parts.append(fitting[0])
        begin += len(reference[fitting[0]])
    return tuple(parts)


def _begins(rows: Array, part: Array) -> bool:
    if part.ndim != rows.ndim or part.shape[1:] != rows.shape[1:] or not 0 < len(part) <= len(rows):
        return False
    return relative_distance(part, rows[: len(part)]) <= _SAME
