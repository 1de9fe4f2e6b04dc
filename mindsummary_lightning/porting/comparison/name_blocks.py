"""What names of tensors say: their layer, their kind, and which blocks of two runs belong together."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
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
GRADIENT = ".gradient"  # what the collector adds to the name of a parameter


class TensorName(NamedTuple):
    """A tensor of a run.

    Attributes:
        name: its tag without the collector's ``/auto``.
        elements: how many numbers it has; 0 if unknown.
        first: minimum, maximum and mean in the first step that both runs recorded; ``()`` if
            unknown.
    """

    name: str
    elements: int = 0
    first: tuple[float, ...] = ()


class Pair(NamedTuple):
    """Names of a tensor in both runs, and what paired them: ``map``, ``equal``, ``value``, ``sibling`` or ``place``."""

    a: str
    b: str
    rule: str


def kind_of(name: str) -> str:
    """The last word of a name as PyTorch has it, with ``.gradient`` if it is one."""
    return parts_of(name)[1]


def is_bias(name: str) -> bool:
    """Whether a tensor is a bias, by its name."""
    return (
        kind_of(name).startswith("bias") or "bias" in name.removesuffix(GRADIENT).rpartition(".")[2]
    )


def parts_of(name: str) -> tuple[str, str]:
    """The layer that a name belongs to and the kind of the tensor in it; a parameter of no known kind is a layer."""
    gradient = GRADIENT if name.endswith(GRADIENT) else ""
    plain = _WRAPPERS.sub("", name.removesuffix(gradient))
    for between in "._":  # as in fc.weight and in_proj_weight
        stem, _, last = plain.rpartition(between)
        if kind := _KINDS.get(last):
            return stem, kind + gradient
    return plain, gradient


def layers_of(tensors: Iterable[TensorName]) -> dict[str, list[TensorName]]:
    """Tensors by their layer, in order; those of a layer by kind."""
    layers: dict[str, list[TensorName]] = {}
    for tensor in tensors:
        layers.setdefault(parts_of(tensor.name)[0], []).append(tensor)
    for layer in layers.values():
        layer.sort(key=lambda tensor: kind_of(tensor.name))
    return layers


def layout_of(layer: Sequence[TensorName]) -> tuple[tuple[str, int], ...]:
    """Kind and size of each tensor of a layer. A weight's kind is left out: a parameter of another name may be one."""
    return tuple(
        ("" if kind_of(x.name) == "weight" else kind_of(x.name), x.elements) for x in layer
    )


class Blocks:
    """Blocks of two runs that belong together: members of lists that hold the same."""

    def __init__(self, a: Sequence[TensorName], b: Sequence[TensorName]) -> None:
        partners = dict(_of_lists(a, b))
        self._partners: tuple[dict[str, str], ...] = (
            partners,
            {other: one for one, other in partners.items()},
        )

    def of(self, name: str, side: int) -> tuple[str, str]:
        """The smallest block of a name of a run and the one that belongs to it in the other; ``""`` if in none."""
        words = name.split(".")
        beginnings = (".".join([*words[:length], ""]) for length in range(len(words), 0, -1))
        block = next(
            (beginning for beginning in beginnings if beginning in self._partners[side]), ""
        )
        return block, self._partners[side].get(block, "")

    def may_hold(self, one: str, other: str) -> bool:
        """Whether of two names one is in the block that belongs to the smallest of the other."""
        one, other = _WRAPPERS.sub("", one), _WRAPPERS.sub("", other)
        return other.startswith(self.of(one, 0)[1]) or one.startswith(self.of(other, 1)[1])


def _of_lists(*sides: Sequence[TensorName]) -> Iterator[tuple[str, str]]:
    """Members of numbered lists that hold the same layouts, of lists that each side has once."""
    found = []
    for layers in map(layers_of, sides):
        lists = defaultdict[str, dict[int, Counter[object]]](lambda: defaultdict(Counter))
        for name, layer in layers.items():
            for match in re.finditer(r"(?<=\.)(\d+)\.", f"{name}."):
                lists[name[: match.start()]][int(match[1])][layout_of(layer)] += 1
        by_layouts = defaultdict[tuple[object, ...], list[list[str]]](list)
        for name, members in lists.items():
            key: tuple[object, ...] = tuple(
                frozenset(members[number].items()) for number in sorted(members)
            )
            by_layouts[key].append([f"{name}{number}." for number in sorted(members)])
        found.append(
            {key: those[0] for key, those in by_layouts.items() if len(those) == 1 < len(key)}
        )
    for key in found[0].keys() & found[1].keys():
        yield from zip(found[0][key], found[1][key], strict=True)
