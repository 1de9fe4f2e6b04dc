"""Pairs layers by shape and order, where names and values did not pair weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from mindsummary_lightning.porting.port_check.tensor_distance import Array

_ROLES = {
    "gamma": "weight",
    "beta": "bias",
    "embedding_table": "weight",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}
_JOINED = 3  # query, key and value


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of a module, or of modules that the second framework joins.

    Attributes:
        weights: names by their role, such as ``weight`` and ``bias``; several names, whose rows are
            joined.
        shape: of the weight, joined, without axes of one element.
    """

    weights: dict[str, tuple[str, ...]]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RolePair:
    """The original's weights, by names, whose joined rows are a weight of the port."""

    references: tuple[str, ...]
    port: str


def pair_layers(reference: Mapping[str, Array], port: Mapping[str, Array]) -> list[RolePair]:
    """Pair the weights that have no partner yet, layer by layer.

    Layers of equal shapes are paired in their order. Then whole runs of layers that come in another
    order are paired.

    Args:
        reference: arrays of the original by name, in their order.
        port: arrays of the port by name, in their order.
    """
    ports = _layers(port)
    references = _layers(reference)
    plain = _aligned(references, ports)
    joined = _aligned(_with_joined(references), ports)
    best = joined if len(joined) > len(plain) else plain
    pairs: list[RolePair] = []
    for ours, theirs in best:
        for role in ours.weights.keys() & theirs.weights.keys():
            pairs.append(RolePair(ours.weights[role], theirs.weights[role][0]))
    return pairs


def _layers(weights: Mapping[str, Array]) -> list[Layer]:
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for name, array in weights.items():
        if array.dtype.kind == "f":
            module, _, last = name.rpartition(".")
            found.setdefault(module, {})[_ROLES.get(last, last)] = (name,)
    return [Layer(roles, _shape_of(roles, weights)) for roles in found.values()]


def _shape_of(
    roles: Mapping[str, tuple[str, ...]], weights: Mapping[str, Array]
) -> tuple[int, ...]:
    names = roles.get("weight") or next(iter(roles.values()))
    return tuple(length for length in weights[names[0]].shape if length != 1)


def _with_joined(layers: Sequence[Layer]) -> list[Layer]:
    """Join query, key and value layers of equal shape."""
    result: list[Layer] = []
    begin = 0
    while begin < len(layers):
        group = layers[begin : begin + _JOINED]
        if len(group) == _JOINED and _may_be_joined(group):
            roles = {}
            for role in group[0].weights:
                roles[role] = tuple(layer.weights[role][0] for layer in group)
            result.append(Layer(roles, (_JOINED * group[0].shape[0], *group[0].shape[1:])))
            begin += _JOINED
        else:
            result.append(layers[begin])
            begin += 1
    return result


def _may_be_joined(group: Sequence[Layer]) -> bool:
    first = group[0]
    if len(first.shape) != 2:
        return False
    for each in group:
        has_same_weights = each.weights.keys() == first.weights.keys()
        if each.shape != first.shape or not has_same_weights:
            return False
        if _module_around(each) != _module_around(first):
            return False
    return True


def _module_around(layer: Layer) -> str:
    (name, *_) = next(iter(layer.weights.values()))
    module = name.rpartition(".")[0]
    return module.rpartition(".")[0]


def _aligned(references: Sequence[Layer], ports: Sequence[Layer]) -> list[tuple[Layer, Layer]]:
    pairs = _matching(references, ports)
    left_reference = _runs(references, {id(ours) for ours, _ in pairs})
    left_port = _runs(ports, {id(theirs) for _, theirs in pairs})
    for run in left_port:
        shapes = _shapes(run)
        same = next((other for other in left_reference if _shapes(other) == shapes), None)
        if same is not None:
            left_reference.remove(same)
            pairs.extend(zip(same, run, strict=True))
    return pairs


def _matching(references: Sequence[Layer], ports: Sequence[Layer]) -> list[tuple[Layer, Layer]]:
    """Find sequences of layers that both sides have."""
    matcher = SequenceMatcher(None, _shapes(references), _shapes(ports), autojunk=False)
    pairs: list[tuple[Layer, Layer]] = []
    for block in matcher.get_matching_blocks():
        ours = references[block.a : block.a + block.size]
        theirs = ports[block.b : block.b + block.size]
        pairs.extend(zip(ours, theirs, strict=True))
    return pairs


def _shapes(layers: Sequence[Layer]) -> list[tuple[int, ...]]:
    return [layer.shape for layer in layers]


def _runs(layers: Sequence[Layer], taken: set[int]) -> list[list[Layer]]:
    """Group the layers that have no partner yet into runs of consecutive layers."""
    runs: list[list[Layer]] = [[]]
    for layer in layers:
        if id(layer) in taken:
            runs.append([])
        else:
            runs[-1].append(layer)
    return [run for run in runs if run]


def joined_rows(arrays: Sequence[Array]) -> Array:
    """Stack the rows of several arrays."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
