"""Names of tensors of two runs, paired by what was recorded of them.

In this order: what the user says; the same name; the same values in the first step, which only runs
that began alike have; the same place beside a pair; the only one of its kind, or of its numbers, in
blocks that belong together; and the same place between two pairs. No name is used twice.
"""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.porting.comparison.distances import Floats
from mindsummary_lightning.porting.comparison.name_blocks import (
    Blocks,
    Pair,
    TensorName,
    is_bias,
    kind_of,
    layers_of,
    layout_of,
    parts_of,
)
from mindsummary_lightning.values.text import listed

AUTO = "/auto"  # what the collector adds to a tag

_LARGE = 64  # elements, from which on minimum, maximum and mean tell a tensor from others
_NEARER = 4.0  # times, than the next candidate
# times as wide must a tensor be as _NEARER distances; one that began as a constant is not
_WIDTH = 4.0
_CONSTANT = 0.2  # of the mean: the width up to which a tensor began as ones
_TRUSTED = 0.3  # share of the large tensors that pair by values, if the runs began alike
_ALL_TRUSTED = 0.5  # of those that began as constants, if the first updates were alike
_LISTED = 4


class NameMatch(NamedTuple):
    """Names of two runs, matched, and those that one run alone has; in the order of the runs."""

    pairs: tuple[Pair, ...]
    unmatched_a: tuple[str, ...]
    unmatched_b: tuple[str, ...]


def match_names(
    a: Sequence[TensorName], b: Sequence[TensorName], given: Mapping[str, str] | None = None
) -> NameMatch:
    """Match the tensors of two runs.

    Args:
        a: tensors of the first run, in the order in which they were recorded.
        b: those of the second.
        given: names of the first run to names of the second, which decide where both are tensors of
            these.
    """
    sizes_a, sizes_b = ({tensor.name: tensor.elements for tensor in tensors} for tensors in (a, b))
    both = (
        (one, other) for one, other in (given or {}).items() if one in sizes_a and other in sizes_b
    )
    pairs = {one: Pair(one, other, "map") for one, other in both}

    def left() -> tuple[list[TensorName], list[TensorName]]:
        taken = {pair.b for pair in pairs.values()}
        return [one for one in a if one.name not in pairs], [
            other for other in b if other.name not in taken
        ]

    def take(found: Iterable[tuple[str, str]], rule: str) -> None:
        free = {other.name for other in left()[1]}
        for one, other in found:
            sizes = {sizes_a[one], sizes_b[other]} - {0}
            if one not in pairs and other in free and len(sizes) < 2:
                pairs[one] = Pair(one, other, rule)
                free.remove(other)

    take(equal_names(sizes_a, sizes_b), "equal")
    for are_meant, trusted in ((is_drawn, _TRUSTED), (_has_numbers, _ALL_TRUSTED)):
        take(_equal_values(*left(), are_meant, trusted), "value")
        take(_siblings(*left(), pairs.values()), "sibling")
    blocks = Blocks(a, b)
    for find in (_in_blocks, _between):
        take(find(a, b, pairs, blocks), "place")
        take(_siblings(*left(), pairs.values()), "place")
    in_order = tuple(pairs[tensor.name] for tensor in a if tensor.name in pairs)
    return NameMatch(in_order, *(tuple(tensor.name for tensor in tensors) for tensors in left()))


def carried_weights(weights: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """Weights of one framework under the names of the other, for a port that begins where the original does.

    Args:
        weights: arrays by their names; of MindSpore
            ``{p.name: p.asnumpy() for p in net.get_parameters()}``.
        like: arrays or tensors by the names that are wanted, for example ``module.state_dict()``;
            only their shapes count.

    Returns:
        The arrays of ``weights``, in the order of ``like`` and with its dimensions of one element,
        as MindSpore's ``Conv1d`` has one more. Counters such as ``num_batches_tracked`` are
        skipped.

    Raises:
        TypeError: one of them is not a mapping.
        ValueError: a name of ``like`` has no partner with as many elements, or one of another
            shape.

    Example:
        >>> import numpy as np
        >>> carried_weights({"bn.gamma": np.ones(2)}, {"bn.weight": np.zeros(2)})
        {'bn.weight': array([1., 1.])}
    """
    if not isinstance(weights, Mapping) or not isinstance(like, Mapping):
        found = f"{type(weights).__name__} and {type(like).__name__}"
        raise TypeError(f"weights and like must be dicts of arrays by their names, not {found}")
    wanted = {
        name: array for name, array in like.items() if not name.endswith("num_batches_tracked")
    }
    match = match_names(
        [TensorName(name, math.prod(array.shape)) for name, array in weights.items()],
        [TensorName(name, math.prod(array.shape)) for name, array in wanted.items()],
    )
    if match.unmatched_b:
        raise ValueError(
            f"no weight fits {len(match.unmatched_b)} of {len(wanted)} names: {listed(match.unmatched_b, _LISTED)}; "
            f"without a partner are {listed(match.unmatched_a, _LISTED) or 'none'}"
        )
    carried = {pair.b: weights[pair.a] for pair in match.pairs}
    for name, array in wanted.items():
        found, expected = tuple(carried[name].shape), tuple(array.shape)
        if [size for size in found if size != 1] != [size for size in expected if size != 1]:
            raise ValueError(
                f"the weight that fits {name!r} has shape {found}, not {expected}; transpose it yourself"
            )
    return {name: carried[name].reshape(tuple(array.shape)) for name, array in wanted.items()}


def equal_names(a: Iterable[str], b: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of equal names, and of names that are equal without prefixes and in PyTorch's words, if no two are."""
    a, b = list(a), list(b)
    shifted = _counted_otherwise(a, b)
    sure = [
        [name for name in names if not any(at in shifted for at, _ in _numbered(name))]
        for names in (a, b)
    ]
    same = {*sure[0]} & {*sure[1]}
    names_a, names_b = (
        _plain([name for name in names if name not in same], every)
        for names, every in zip(sure, (a, b), strict=True)
    )
    plain = [(name, names_b[key]) for key, name in names_a.items() if key in names_b]
    return [(name, name) for name in a if name in same] + plain


def read_names(path: str | os.PathLike[str]) -> dict[str, str]:
    """Pairs of names from a text file: a line each, separated by blanks; ``#`` begins a comment.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is not a pair, or a name is there twice.
    """
    pairs: dict[str, str] = {}
    # editors of Windows begin it with a mark
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, 1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            if len(words) != 2 or words[0] in pairs:
                where = f"line {number} of {os.fspath(path)}"
                must = "must be a name of the first run and its name in the second run, each once"
                raise ValueError(f"{where} {must}, not {line.strip()!r}")
            pairs[words[0]] = words[1]
    return pairs


def check_names(given: Mapping[str, str], a: Mapping[str, int], b: Mapping[str, int]) -> None:
    """Refuse, by a ValueError, names of no tensor, names given twice, and tensors of other numbers of elements."""
    for names, own, run in ((given, a, "first"), (given.values(), b, "second")):
        if unknown := sorted({*names} - own.keys()):
            raise ValueError(
                f"the {run} run has no tensor {unknown[0]!r}; it has {listed([*own], _LISTED) or 'none'}"
            )
    counts = Counter(given.values())
    for one, other in given.items():
        if counts[other] > 1:
            raise ValueError(
                f"{other!r} of the second run is given to two names of the first; each has one partner"
            )
        if a[one] != b[other]:
            raise ValueError(
                f"{one!r} has {a[one]} elements and {other!r} {b[other]}: they are not one tensor"
            )


def _plain(names: Sequence[str], every: Sequence[str]) -> dict[tuple[str, ...], str]:
    """Names by their words and kind, without the words that every name begins with; those that only one has."""
    layers = {parts_of(name)[0] for name in every}  # a network may have a bias of its own
    stems = [
        layer.split(".")[: -1 if "." in layer or len(layers) == 1 else None] for layer in layers
    ]
    common = len([*takewhile(lambda words: len({*words}) == 1, zip(*stems, strict=False))])
    keys = [(*filter(None, parts_of(name)[0].split(".")[common:]), kind_of(name)) for name in names]
    counts = Counter(keys)
    return {key: name for key, name in zip(keys, names, strict=True) if counts[key] == 1}


def _counted_otherwise(a: Iterable[str], b: Iterable[str]) -> set[str]:
    """Where layers are counted from one in one run and from zero in the other: their names with a star for numbers."""
    one, other = defaultdict[str, set[int]](set), defaultdict[str, set[int]](set)
    for names, numbers in ((a, one), (b, other)):
        for before, number in (found for name in names for found in _numbered(name)):
            numbers[before].add(number)
    return {
        at
        for at in one.keys() & other.keys()
        if other[at] in ({n + 1 for n in one[at]}, {n - 1 for n in one[at]})
    }


def _numbered(name: str) -> Iterator[tuple[str, int]]:
    """The numbers in a name, each with what comes before it, a star for each number in it."""
    words = name.split(".")
    for at, word in enumerate(words):
        if word.isdecimal():
            yield (
                ".".join("*" if before.isdecimal() else before for before in words[:at]),
                int(word),
            )


def _equal_values(
    a: Sequence[TensorName],
    b: Sequence[TensorName],
    are_meant: Callable[[TensorName], bool],
    trusted: float,
) -> list[tuple[str, str]]:
    """Tensors of as many elements whose numbers are nearest to each other, if enough of them are clearly so."""
    groups: dict[tuple[int, str], tuple[list[TensorName], list[TensorName]]] = {}
    for side, tensors in enumerate((a, b)):
        for tensor in filter(are_meant, tensors):
            groups.setdefault((tensor.elements, kind_of(tensor.name)), ([], []))[side].append(
                tensor
            )
    pairs, large = [], 0
    for (elements, _), (ones, others) in groups.items():
        if not ones or not others:
            continue
        # Means of n random elements are nearer to each other than extremes are, by the root of n.
        weights = np.array([1.0, 1.0, elements**0.5 / 4])
        numbers, theirs = (
            np.array([tensor.first for tensor in tensors]) * weights for tensors in (ones, others)
        )
        nearest, far, of_one = _nearest(numbers, theirs)
        of_other = _nearest(theirs, numbers)[2][nearest]
        rivals = np.minimum(np.minimum(of_one, of_other), np.ptp(numbers[:, :2], axis=1) / _WIDTH)
        large += min(len(ones), len(others))
        for one in np.flatnonzero(_NEARER * far < rivals).tolist():
            pairs.append((ones[one].name, others[nearest[one]].name))
    return pairs if len(pairs) >= trusted * large else []


def _has_numbers(tensor: TensorName) -> bool:
    """Whether numbers may tell a tensor that was not drawn, or not clearly: runs of equal updates show it."""
    return bool(tensor.first) and bool(np.isfinite(tensor.first).all())


def is_drawn(tensor: TensorName) -> bool:
    """Whether a tensor began with many random numbers, and not as a constant."""
    if tensor.elements < _LARGE or is_bias(tensor.name) or not tensor.first:
        return False
    low, high, mean = tensor.first
    return bool(high - low > _CONSTANT * abs(mean))


def _nearest(ones: Floats, others: Floats) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Of each row of one the nearest of the others, its distance and the next one's; infinite where there is none."""
    order = np.argsort(others[:, 2])
    means = np.concatenate([[-np.inf], others[order, 2], [np.inf]])
    places, distances = np.zeros(len(ones), np.int64), np.full((2, len(ones)), np.inf)
    for at, begin in enumerate(np.searchsorted(means[1:-1], ones[:, 2]).tolist()):
        left, right, width = begin, begin, _LARGE
        # None outside is nearer than its mean.
        while min(ones[at, 2] - means[left], means[right + 1] - ones[at, 2]) < distances[1, at]:
            left, right, width = max(0, begin - width), min(len(others), begin + width), 2 * width
            near = np.sort(order[left:right])
            far = np.abs(others[near] - ones[at]).max(axis=1)
            places[at] = near[far.argmin()]
            distances[: far.size, at] = np.partition(far, 1)[:2] if far.size > 1 else far
    return places, *distances


def _siblings(
    a: Sequence[TensorName], b: Sequence[TensorName], pairs: Iterable[Pair]
) -> Iterator[tuple[str, str]]:
    """Tensors of one kind in layers of which another tensor is paired."""
    layers = {parts_of(pair.a)[0]: parts_of(pair.b)[0] for pair in pairs}
    there = {parts_of(tensor.name): tensor.name for tensor in b}
    for layer, kind, name in ((*parts_of(tensor.name), tensor.name) for tensor in a):
        if (place := (layers.get(layer), kind)) in there:
            yield name, there[place]


def _in_blocks(
    a: Sequence[TensorName], b: Sequence[TensorName], pairs: Mapping[str, Pair], blocks: Blocks
) -> Iterator[tuple[str, str]]:
    """First tensors of layers of blocks that belong together: the only ones of a layout, or those of one number."""
    found = [defaultdict[object, list[tuple[list[str], str]]](list) for _ in range(2)]
    taken = pairs.keys(), {pair.b for pair in pairs.values()}
    for side, tensors in enumerate((a, b)):
        for name, layer in layers_of(tensors).items():
            if not any(tensor.name in taken[side] for tensor in layer):
                both = blocks.of(name, side)
                numbers = re.findall(r"\d+", name[len(both[0]) :])
                if all(both):
                    found[side][both[side], layout_of(layer)].append((numbers, layer[0].name))
    for key, layers in found[0].items():
        ones, others = sorted(layers), sorted(found[1].get(key, ()))
        numbers = [number for number, _ in ones]
        is_told = numbers == [number for number, _ in others] and len(
            {*map(tuple, numbers)}
        ) == len(numbers)
        if is_told or len(ones) == len(others) == 1:
            yield from ((one, other) for (_, one), (_, other) in zip(ones, others, strict=True))


def _between(
    a: Sequence[TensorName], b: Sequence[TensorName], pairs: Mapping[str, Pair], blocks: Blocks
) -> Iterator[tuple[str, str]]:
    """First tensors of layers between two pairs: of the layouts that both sides have as often, if in one order."""
    at_a, at_b = (
        {tensor.name: place for place, tensor in enumerate(tensors)} for tensors in (a, b)
    )
    anchors = ascending([(at_a[pair.a], at_b[pair.b]) for pair in pairs.values()])
    gaps_a = _layers_in_gaps(a, pairs, {a[one].name for one, _ in anchors})
    gaps_b = _layers_in_gaps(
        b, {pair.b for pair in pairs.values()}, {b[other].name for _, other in anchors}
    )
    for both in ((layers, gaps_b[gap]) for gap, layers in gaps_a.items()):
        counts = [Counter(map(layout_of, layers)) for layers in both]
        ones, others = (
            [x for x in layers if len({of[layout_of(x)] for of in counts}) == 1] for layers in both
        )
        if [*map(layout_of, ones)] == [*map(layout_of, others)]:
            firsts = [
                (layout_of(x), x[0].name, y[0].name) for x, y in zip(ones, others, strict=True)
            ]
            unsure = _crossed(firsts) | {
                layout for layout, *names in firsts if not blocks.may_hold(*names)
            }
            yield from ((one, other) for layout, one, other in firsts if layout not in unsure)


def _layers_in_gaps(
    tensors: Sequence[TensorName], taken: Collection[str], anchors: Collection[str]
) -> defaultdict[int, list[list[TensorName]]]:
    """Layers of what is left in their order, by how many anchors come before."""
    before = dict(
        zip((x.name for x in tensors), accumulate(x.name in anchors for x in tensors), strict=True)
    )
    gaps = defaultdict[int, list[list[TensorName]]](list)
    for layer in layers_of(tensor for tensor in tensors if tensor.name not in taken).values():
        gaps[min(before[tensor.name] for tensor in layer)].append(layer)
    return gaps


def ascending(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part of pairs of places that ascends in both."""
    ends: list[int] = []
    # the longest of each length: its last place, and the chain before
    chains: list[tuple[tuple[int, int], Any]] = []
    for place in sorted(places):
        at = bisect_left(ends, place[1])
        ends[at : at + 1] = [place[1]]
        chains[at : at + 1] = [(place, chains[at - 1] if at else None)]
    chain, result = chains[-1] if chains else None, []
    while chain:
        place, chain = chain
        result.append(place)
    return result[::-1]


def _crossed(firsts: Iterable[tuple[object, str, str]]) -> set[object]:
    """Layouts of layers whose last words have the same initials in another order: their order may be another, too."""
    initials = defaultdict[object, list[list[str]]](list)
    for layout, *names in firsts:
        initials[layout].append([parts_of(name)[0].rpartition(".")[2][:1] for name in names])
    sides = {layout: [*map(list, zip(*both, strict=True))] for layout, both in initials.items()}
    return {layout for layout, (x, y) in sides.items() if x != y and sorted(x) == sorted(y)}
