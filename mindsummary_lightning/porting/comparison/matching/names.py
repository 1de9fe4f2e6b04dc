"""Pairs tensors by name, also between PyTorch names and MindSpore names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from mindsummary_lightning.porting.comparison.matching.tensor_names import kind_of, parts_of

_Key = tuple[str, ...]


def equal_names(names_a: Iterable[str], names_b: Iterable[str]) -> list[tuple[str, str]]:
    """Pair equal names, then names that are equal once written as in PyTorch.

    The second search leaves out common prefixes. If one run counts a list from one and the other
    run from zero, equal names belong to different layers. The names of such a list are not used.
    """
    all_a, all_b = list(names_a), list(names_b)
    shifted = _lists_counted_differently(all_a, all_b)
    sure_a, sure_b = _outside_of(all_a, shifted), _outside_of(all_b, shifted)
    same = set(sure_a) & set(sure_b)
    pairs = [(name, name) for name in all_a if name in same]
    keys_b = _by_plain_name(sure_b, all_b, same)
    keys_a = _by_plain_name(sure_a, all_a, same)
    for key, name in keys_a.items():
        if key in keys_b:
            pairs.append((name, keys_b[key]))
    return pairs


def _outside_of(names: Sequence[str], lists: set[str]) -> list[str]:
    """Return the names outside the given numbered lists."""
    outside = []
    for name in names:
        if not any(prefix in lists for prefix, _ in _numbers_in(name)):
            outside.append(name)
    return outside


def _by_plain_name(
    names: Sequence[str], all_names: Sequence[str], paired: set[str]
) -> dict[_Key, str]:
    """Index the unpaired names by a key made of their words and their kind.

    The first words that all names share are left out. A key that several names have is dropped.
    """
    common = _common_words(all_names)
    found: dict[_Key, list[str]] = {}
    for name in names:
        if name not in paired:
            words = parts_of(name)[0].split(".")[common:]
            found.setdefault((*filter(None, words), kind_of(name)), []).append(name)
    return {key: keyed[0] for key, keyed in found.items() if len(keyed) == 1}


def _common_words(names: Sequence[str]) -> int:
    """Count the leading words that all layer names have in common.

    The last word of a layer is its own and does not count.
    """
    layers = {parts_of(name)[0] for name in names}
    stems = []
    for layer in layers:
        words = layer.split(".")
        # a network may have a bias of its own beside its modules: no prefix of the others
        is_beside_modules = "." not in layer and len(layers) > 1
        stems.append(words if is_beside_modules else words[:-1])
    columns = zip(*stems, strict=False)
    return len([*takewhile(lambda words: len({*words}) == 1, columns)])


def _lists_counted_differently(names_a: Iterable[str], names_b: Iterable[str]) -> set[str]:
    """Find module lists whose member numbers differ by 1 between the runs.

    A run counts such a list from zero, and its partner from one.
    """
    numbers_a, numbers_b = _numbers_by_list(names_a), _numbers_by_list(names_b)
    shifted = set()
    for prefix in numbers_a.keys() & numbers_b.keys():
        if numbers_b[prefix] in (_moved(numbers_a[prefix], 1), _moved(numbers_a[prefix], -1)):
            shifted.add(prefix)
    return shifted


def _moved(numbers: set[int], by: int) -> set[int]:
    return {number + by for number in numbers}


def _numbers_by_list(names: Iterable[str]) -> dict[str, set[int]]:
    numbers: dict[str, set[int]] = defaultdict(set)
    for name in names:
        for prefix, number in _numbers_in(name):
            numbers[prefix].add(number)
    return numbers


def _numbers_in(name: str) -> Iterator[tuple[str, int]]:
    """Yield the numbers in a name, with the words before every number.

    In these words ``*`` stands for a number.
    """
    before: list[str] = []
    for word in name.split("."):
        if word.isdecimal():
            yield ".".join(before), int(word)
            before.append("*")
        else:
            before.append(word)
