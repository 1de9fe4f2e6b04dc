"""Pairs weights of port and original by names, values and structure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mindsummary_lightning.porting.comparison.matching.match import match_names
from mindsummary_lightning.porting.comparison.matching.tensor_names import TensorName, kind_of
from mindsummary_lightning.porting.port_check.layer_pairs import joined_rows, pair_layers
from mindsummary_lightning.porting.port_check.tensor_distance import (
    Array,
    Layout,
    layouts,
    relative_distance,
)

_SAME = 1e-6  # relative distance of two weights that are one weight in two layouts
_COUNTERS = "num_batches_tracked"


@dataclass(frozen=True, slots=True)
class WeightPair:
    """The original's weight, or weights, that correspond to a weight of the port.

    Attributes:
        references: names in the original; several, whose rows one weight of the port holds in this
            order, as of query, key and value.
        layout: how the original's array, or the rows of all, become the port's.
    """

    references: tuple[str, ...]
    layout: Layout

    def in_port(self, arrays: Sequence[Array]) -> Array:
        """Convert arrays of the original to the form that the port's weight has."""
        whole = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        return self.layout.applied(whole)


@dataclass(frozen=True, slots=True)
class WeightPairs:
    """The weight pairs of port and original, and the weights without a partner.

    Attributes:
        pairs: by the names in the port.
        only_port: names of unpaired weights of the port.
        only_reference: names of unpaired weights of the original.
    """

    pairs: dict[str, WeightPair]
    only_port: tuple[str, ...]
    only_reference: tuple[str, ...]

    def references(self, name: str) -> tuple[str, ...]:
        """Return all names in the original that belong to a weight of the port."""
        return self.pairs[name].references if name in self.pairs else ()


def pair_weights(reference: Mapping[str, Array], port: Mapping[str, Array]) -> WeightPairs:
    """Pair the weights that the original and the port have at the start of a step.

    Args:
        reference: arrays of the original by name, in their order.
        port: arrays of the port by name.
    """
    reference = _without_counters(reference)
    port = _without_counters(port)
    pairs: dict[str, WeightPair] = {}
    matched = match_names(_described(reference), _described(port)).pairs
    transposes = any(
        _must_transpose(reference[pair.a].shape, port[pair.b].shape) for pair in matched
    )
    for pair in matched:
        layout = weight_layout(reference[pair.a], port[pair.b], may_transpose=transposes)
        if layout is not None:
            pairs[pair.b] = WeightPair((pair.a,), layout)
    _pair_by_value(pairs, reference, port)
    _pair_parts(pairs, reference, port)
    _pair_layers(pairs, reference, port, transposes)
    only_port = [name for name in port if name not in pairs]
    return WeightPairs(pairs, tuple(only_port), tuple(_free(pairs, reference)))


def _without_counters(arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {name: array for name, array in arrays.items() if not name.endswith(_COUNTERS)}


def _pair_layers(
    pairs: dict[str, WeightPair],
    reference: Mapping[str, Array],
    port: Mapping[str, Array],
    may_transpose: bool,
) -> None:
    """Pair the remaining weights by shapes and order of layers."""
    free = {name: reference[name] for name in _free(pairs, reference)}
    left = {name: array for name, array in port.items() if name not in pairs}
    for found in pair_layers(free, left):
        rows = joined_rows([free[name] for name in found.references])
        layout = weight_layout(rows, left[found.port], may_transpose=may_transpose)
        if layout is not None:
            pairs[found.port] = WeightPair(found.references, layout)


def weight_layout(reference: Array, port: Array, *, may_transpose: bool) -> Layout | None:
    """Return the layout in which an original weight fits a port's weight, or ``None``.

    Args:
        reference: weight of the original.
        port: weight of the port.
        may_transpose: whether axes may change places where the shapes do not ask for it, but the
            port's values do. Other weights of the port show whether it holds them so; else a square
            one was transposed by mistake.
    """
    found = [*layouts(reference.shape, port.shape)]
    plain = next((layout for layout in found if layout.is_plain), None)
    if plain is not None and not may_transpose:
        return plain
    for layout in found:
        if relative_distance(layout.applied(reference), port) <= _SAME:
            return layout
    if plain is not None:
        return plain
    if reference.size == port.size and _is_equal(reference.reshape(port.shape), port):
        return Layout((0,), port.shape, is_flat=True)
    return found[0] if len(found) == 1 else None


def _must_transpose(reference: tuple[int, ...], port: tuple[int, ...]) -> bool:
    """Tell whether the shapes alone show that axes have changed places."""
    found = [*layouts(reference, port)]
    return bool(found) and not any(layout.is_plain for layout in found)


def _described(weights: Mapping[str, Array]) -> list[TensorName]:
    described = []
    for name, array in weights.items():
        numbers: tuple[float, ...] = ()
        if array.size and array.dtype.kind == "f":
            numbers = (float(array.min()), float(array.max()), float(array.mean(dtype=np.float64)))
        described.append(TensorName(name, array.size, numbers))
    return described


def _is_equal(reference: Array, port: Array) -> bool:
    return relative_distance(reference, port) <= _SAME


def _free(pairs: Mapping[str, WeightPair], reference: Mapping[str, Array]) -> list[str]:
    taken: set[str] = set()
    for pair in pairs.values():
        taken.update(pair.references)
    return [name for name in reference if name not in taken]


def _pair_by_value(
    pairs: dict[str, WeightPair], reference: Mapping[str, Array], port: Mapping[str, Array]
) -> None:
    """Pair the remaining weights by unique equal values."""
    free = _free(pairs, reference)
    for name, array in port.items():
        if name in pairs or array.size < 2 or not np.ptp(array) > 0:
            continue
        equal: list[tuple[str, Layout]] = []
        for other in free:
            same_size = reference[other].size == array.size
            layout = (
                weight_layout(reference[other], array, may_transpose=True) if same_size else None
            )
            if layout is not None and _is_equal(layout.applied(reference[other]), array):
                equal.append((other, layout))
        if len(equal) == 1:
            pairs[name] = WeightPair((equal[0][0],), equal[0][1])
            free.remove(equal[0][0])


# ---- one weight of the port that holds the rows of several of the original


def _pair_parts(
    pairs: dict[str, WeightPair], reference: Mapping[str, Array], port: Mapping[str, Array]
) -> None:
    left: defaultdict[str, list[str]] = defaultdict(list)  # names by kind
    for name, array in port.items():
        if name in pairs or array.ndim not in (1, 2):
            continue
        parts = _parts_by_value(array, _free(pairs, reference), reference)
        if parts is not None:
            pairs[name] = parts
        else:
            left[kind_of(name)].append(name)
    for kind, names in left.items():
        _pair_parts_in_order(pairs, names, kind, reference, port)


def _parts_by_value(
    array: Array, free: Sequence[str], reference: Mapping[str, Array]
) -> WeightPair | None:
    for axes in ((0, 1), (1, 0)) if array.ndim == 2 else ((0,),):
        parts = _covering(array.transpose(axes), free, reference)
        if len(parts) > 1:
            return WeightPair(parts, Layout(axes, array.shape))
    return None


def _covering(rows: Array, free: Sequence[str], reference: Mapping[str, Array]) -> tuple[str, ...]:
    parts: list[str] = []
    begin = 0
    while begin < len(rows):
        left = rows[begin:]
        fitting = [name for name in free if name not in parts and _begins(left, reference[name])]
        if not fitting:
            return ()
        parts.append(fitting[0])
        begin += len(reference[fitting[0]])
    return tuple(parts)


def _begins(rows: Array, part: Array) -> bool:
    if part.ndim != rows.ndim or part.shape[1:] != rows.shape[1:]:
        return False
    if not 0 < len(part) <= len(rows):
        return False
    return _is_equal(part, rows[: len(part)])


def _pair_parts_in_order(
    pairs: dict[str, WeightPair], names: Sequence[str], kind: str, reference: Mapping[str, Array],
    port: Mapping[str, Array],
) -> None:  # fmt: skip
    """Pair weights whose parts are separate weights of a module in the original."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name in _free(pairs, reference):
        if kind_of(name) == kind:
            layer = name.rpartition(".")[0]
            groups[layer.rpartition(".")[0]].append(name)
    several = [group for group in groups.values() if len(group) > 1]
    if len(several) != len(names):
        return
    for name, group in zip(names, several, strict=True):
        shape = port[name].shape
        arrays = [reference[each] for each in group]
        is_alike = all(array.shape[1:] == shape[1:] for array in arrays)
        if is_alike and sum(map(len, arrays)) == shape[0]:
            pairs[name] = WeightPair(tuple(group), Layout(tuple(range(len(shape))), shape))
