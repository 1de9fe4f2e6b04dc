"""Splits tensor names into layer and kind, and describes the layout of layers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_WRAPPERS = re.compile(
    r"(?:^|(?<=\.))(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."
)
_KINDS = {
    **dict.fromkeys(("weight", "gamma", "embedding_table", "kernel", "w"), "weight"),
    **dict.fromkeys(("bias", "beta"), "bias"),
    **dict.fromkeys(("running_mean", "moving_mean"), "running_mean"),
    **dict.fromkeys(("running_var", "moving_variance"), "running_var"),
}
GRADIENT = ".gradient"
"""What the collector adds to the name of a parameter whose gradient it records."""

LayerLayout = tuple[tuple[str, int], ...]
"""Kind and number of elements of each tensor of a layer."""


class TensorName(NamedTuple):
    """A tensor of a run: its name, its size and its first values.

    Attributes:
        name: its tag without the collector's ``/auto``.
        elements: number of its elements; 0 if unknown.
        first: minimum, maximum and mean in the first step that both runs recorded; ``()`` if
            unknown.
    """

    name: str
    elements: int = 0
    first: tuple[float, ...] = ()


class Pair(NamedTuple):
    """A tensor that both runs have: its name in each run, and how it was matched.

    Attributes:
        a: name in the baseline.
        b: name in the candidate.
        rule: what paired them: ``given``, ``name``, ``value``, ``layer`` or ``position``.
    """

    a: str
    b: str
    rule: str


def names_of(tensors: Iterable[TensorName]) -> list[str]:
    """Return the names of tensors in their order."""
    return [tensor.name for tensor in tensors]


def names_in_candidate(pairs: Iterable[Pair]) -> set[str]:
    """Return the names of all paired tensors in the candidate."""
    return {pair.b for pair in pairs}


def names_in_baseline(pairs: Iterable[Pair]) -> set[str]:
    """Return the names of all paired tensors in the baseline."""
    return {pair.a for pair in pairs}


def without_wrappers(name: str) -> str:
    """Remove the words that ``torch.compile``, FSDP and checkpointing add to a name."""
    return _WRAPPERS.sub("", name)


def kind_of(name: str) -> str:
    """Return a name's last word, translated to PyTorch's, such as ``weight``.

    A gradient has ``.gradient`` added.
    """
    return parts_of(name)[1]


def is_bias(name: str) -> bool:
    """Tell by its name whether a tensor is a bias."""
    last_word = name.removesuffix(GRADIENT).rpartition(".")[2]
    return kind_of(name).startswith("bias") or "bias" in last_word


def parts_of(name: str) -> tuple[str, str]:
    """Split a name into its layer and its kind.

    A parameter of an unknown kind is a layer of its own.
    """
    gradient = GRADIENT if name.endswith(GRADIENT) else ""
    plain = without_wrappers(name.removesuffix(gradient))
    for separator in "._":  # as in fc.weight and in_proj_weight
        stem, _, last = plain.rpartition(separator)
        kind = _KINDS.get(last)
        if kind:
            return stem, kind + gradient
    return plain, gradient


def layers_of(tensors: Iterable[TensorName]) -> dict[str, list[TensorName]]:
    """Group tensors by layer, in order; the tensors of a layer are sorted by kind."""
    layers: dict[str, list[TensorName]] = {}
    for tensor in tensors:
        layers.setdefault(parts_of(tensor.name)[0], []).append(tensor)
    for layer in layers.values():
        layer.sort(key=lambda tensor: kind_of(tensor.name))
    return layers


def layout_of(layer: Sequence[TensorName]) -> LayerLayout:
    """Return a layer's layout: the kinds and the sizes of its tensors.

    A weight has no kind, as a parameter of another name may be one.
    """
    layout = []
    for tensor in layer:
        kind = kind_of(tensor.name)
        layout.append(("" if kind == "weight" else kind, tensor.elements))
    return tuple(layout)
