"""Pairs tensors that have the same position in both runs.

The position is in a paired layer, in corresponding blocks, or between two pairs.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from mindsummary_lightning.porting.comparison.matching.list_members import ListMembers
from mindsummary_lightning.porting.comparison.matching.tensor_names import (
    LayerLayout,
    Pair,
    TensorName,
    layers_of,
    layout_of,
    names_in_candidate,
    names_of,
    parts_of,
)

_Layer = list[TensorName]


class _FirstTensors(NamedTuple):
    """A layer's first tensor in both runs, and the layer's layout."""

    layout: LayerLayout
    a: str
    b: str


def in_paired_layers(
    a: Sequence[TensorName], b: Sequence[TensorName], pairs: Iterable[Pair]
) -> Iterator[tuple[str, str]]:
    """Pair tensors of the same kind in layers that have a paired tensor already."""
    layers = {parts_of(pair.a)[0]: parts_of(pair.b)[0] for pair in pairs}
    names_b = {parts_of(tensor.name): tensor.name for tensor in b}
    for tensor in a:
        layer, kind = parts_of(tensor.name)
        partner = names_b.get((layers.get(layer, ""), kind)) if layer in layers else None
        if partner is not None:
            yield tensor.name, partner


def in_corresponding_blocks(
    a: Sequence[TensorName], b: Sequence[TensorName], pairs: Mapping[str, Pair]
) -> Iterator[tuple[str, str]]:
    """Pair the layers of corresponding blocks.

    Two layers are paired if their layout is unique in both blocks, or if their numbers are equal.
    """
    members = ListMembers(a, b)
    taken_b = names_in_candidate(pairs.values())
    layers_a = _unpaired_layers_in_blocks(a, pairs, members, in_baseline=True)
    layers_b = _unpaired_layers_in_blocks(b, taken_b, members, in_baseline=False)
    for key, unsorted_a in layers_a.items():
        found_a, found_b = sorted(unsorted_a), sorted(layers_b.get(key, ()))
        numbers_a = [numbers for numbers, _ in found_a]
        numbers_b = [numbers for numbers, _ in found_b]
        have_own_numbers = len(set(numbers_a)) == len(numbers_a)
        are_told_by_numbers = numbers_a == numbers_b and have_own_numbers
        if are_told_by_numbers or len(found_a) == len(found_b) == 1:
            for (_, name_a), (_, name_b) in zip(found_a, found_b, strict=True):
                yield name_a, name_b


def _unpaired_layers_in_blocks(
    tensors: Sequence[TensorName],
    taken: Collection[str],
    members: ListMembers,
    *,
    in_baseline: bool,
) -> dict[object, list[tuple[tuple[str, ...], str]]]:
    """Return the unpaired layers of blocks, grouped by block and layout.

    A layer is described by the numbers in its name and by its first tensor.
    """
    found: dict[object, list[tuple[tuple[str, ...], str]]] = defaultdict(list)
    for name, layer in layers_of(tensors).items():
        if any(tensor.name in taken for tensor in layer):
            continue
        block, partner = members.of(name, in_baseline=in_baseline)
        if not (block and partner):
            continue
        block_of_a = block if in_baseline else partner
        numbers = tuple(re.findall(r"\d+", name[len(block) :]))
        found[block_of_a, layout_of(layer)].append((numbers, layer[0].name))
    return found


def between_pairs(
    a: Sequence[TensorName], b: Sequence[TensorName], pairs: Mapping[str, Pair]
) -> Iterator[tuple[str, str]]:
    """Pair layers that both runs have between the same two paired tensors.

    Only layouts that both runs have equally often count, and only if they come in the same order.
    """
    members = ListMembers(a, b)
    anchors = _anchors(a, b, pairs.values())
    taken_b = names_in_candidate(pairs.values())
    gaps_a = _layers_in_gaps(a, pairs, {a[place].name for place, _ in anchors})
    gaps_b = _layers_in_gaps(b, taken_b, {b[place].name for _, place in anchors})
    for gap, layers_a in gaps_a.items():
        yield from _sure_pairs(_layers_in_one_order(layers_a, gaps_b.get(gap, [])), members)


def _anchors(
    a: Sequence[TensorName], b: Sequence[TensorName], pairs: Iterable[Pair]
) -> list[tuple[int, int]]:
    """Return the positions of those pairs that have the same order in both runs."""
    places_a, places_b = _places(a), _places(b)
    return ascending([(places_a[pair.a], places_b[pair.b]) for pair in pairs])


def _places(tensors: Sequence[TensorName]) -> dict[str, int]:
    return {tensor.name: place for place, tensor in enumerate(tensors)}


def _sure_pairs(firsts: list[_FirstTensors], members: ListMembers) -> Iterator[tuple[str, str]]:
    """Yield the first tensors of layers that correspond with certainty.

    Left out are crossed layouts, and layouts with layers in blocks that do not correspond.
    """
    unsure = _crossed_layouts(firsts)
    for first in firsts:
        if not members.may_correspond(first.a, first.b):
            unsure.add(first.layout)
    for first in firsts:
        if first.layout not in unsure:
            yield first.a, first.b


def _layers_in_one_order(
    layers_a: Sequence[_Layer], layers_b: Sequence[_Layer]
) -> list[_FirstTensors]:
    """Pair layers whose layout occurs equally often on both sides.

    The result is empty if the orders differ.
    """
    counts_a, counts_b = Counter(map(layout_of, layers_a)), Counter(map(layout_of, layers_b))
    common = {layout for layout, count in counts_a.items() if counts_b[layout] == count}
    kept_a, kept_b = _of_layouts(layers_a, common), _of_layouts(layers_b, common)
    if [*map(layout_of, kept_a)] != [*map(layout_of, kept_b)]:
        return []
    firsts = []
    for layer_a, layer_b in zip(kept_a, kept_b, strict=True):
        firsts.append(_FirstTensors(layout_of(layer_a), layer_a[0].name, layer_b[0].name))
    return firsts


def _of_layouts(layers: Sequence[_Layer], layouts: set[LayerLayout]) -> list[_Layer]:
    return [layer for layer in layers if layout_of(layer) in layouts]


def _layers_in_gaps(
    tensors: Sequence[TensorName], taken: Collection[str], anchors: Collection[str]
) -> dict[int, list[_Layer]]:
    """Group the unpaired layers by the number of paired tensors before them."""
    counts = accumulate(tensor.name in anchors for tensor in tensors)
    anchors_before = dict(zip(names_of(tensors), counts, strict=True))
    left = (tensor for tensor in tensors if tensor.name not in taken)
    gaps: dict[int, list[_Layer]] = {}
    for layer in layers_of(left).values():
        gap = min(anchors_before[tensor.name] for tensor in layer)
        gaps.setdefault(gap, []).append(layer)
    return gaps


def ascending(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of index pairs that ascends in both runs."""
    ends: list[int] = []
    # the longest of each length: its last place, and the chain before
    chains: list[tuple[tuple[int, int], Any]] = []
    for place in sorted(places):
        length = bisect_left(ends, place[1])
        ends[length : length + 1] = [place[1]]
        chains[length : length + 1] = [(place, chains[length - 1] if length else None)]
    chain = chains[-1] if chains else None
    result = []
    while chain:
        place, chain = chain
        result.append(place)
    return result[::-1]


def _crossed_layouts(firsts: Iterable[_FirstTensors]) -> set[LayerLayout]:
    """Find layouts whose layers have the same initials, but in a different order.

    Their order may differ, too.
    """
    initials_a: dict[LayerLayout, list[str]] = defaultdict(list)
    initials_b: dict[LayerLayout, list[str]] = defaultdict(list)
    for first in firsts:
        initials_a[first.layout].append(_initial(first.a))
        initials_b[first.layout].append(_initial(first.b))
    crossed = set()
    for layout, letters in initials_a.items():
        others = initials_b[layout]
        if letters != others and sorted(letters) == sorted(others):
            crossed.add(layout)
    return crossed


def _initial(name: str) -> str:
    return parts_of(name)[0].rpartition(".")[2][:1]
