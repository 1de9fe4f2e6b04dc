"""Tensors of two runs with the same name, also in the words of the other framework."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from mindsummary_lightning.porting.comparison.matching.tensor_names import kind_of, parts_of

_Key = tuple[str, ...]


def equal_names(names_a: Iterable[str], names_b: Iterable[str]) -> list[tuple[str, str]]:
    """Pair equal names, and then names that are equal without prefixes and in PyTorch's words.

    Lists that one run counts from one and the other from zero have equal names for different
    layers; their names are not used.
    """
    all_a, all_b = list(names_a), list(names_b)
    shifted = _lists_counted_differently(all_a, all_b)
    sure_a, sure_b = _outside_of(all_a, shifted), _outside_of(all_b, shifted)
    same = set(sure_a) & set(sure_b)
    pairs = [(name, name) for name in all_a if name in same]
    keys_b = _by_plain_name([name for name in sure_b if name not in same], all_b)
    keys_a = _by_plain_name([name for name in sure_a if name not in same], all_a)
    for key, name in keys_a.items():
        if key in keys_b:
            pairs.append((name, keys_b[key]))
    return pairs


def _outside_of(names: Sequence[str], lists: set[str]) -> list[str]:
    """Return the names that have no number in one of the lists."""
    outside = []
    for name in names:
        if not any(prefix in lists for prefix, _ in _numbers_in(name)):
            outside.append(name)
    return outside


def _by_plain_name(names: Sequence[str], all_names: Sequence[str]) -> dict[_Key, str]:
    """Key names by words and kind, without the words that all names begin with; drop double keys."""
    common = _common_words(all_names)
    keys = []
    for name in names:
        words = parts_of(name)[0].split(".")[common:]
        keys.append((*filter(None, words), kind_of(name)))
    counts = Counter(keys)
    return {key: name for key, name in zip(keys, names, strict=True) if counts[key] == 1}


def _common_words(names: Sequence[str]) -> int:
    """Count the words with which every layer begins; the last word of a layer is its own."""
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
    """Find lists that one run counts from one and the other from zero, by prefix with ``*`` for numbers."""
    numbers_a, numbers_b = _numbers_by_list(names_a), _numbers_by_list(names_b)
    shifted = set()
    for prefix in numbers_a.keys() & numbers_b.keys():
        one_more = {number + 1 for number in numbers_a[prefix]}
        one_less = {number - 1 for number in numbers_a[prefix]}
        if numbers_b[prefix] in (one_more, one_less):
            shifted.add(prefix)
    return shifted


def _numbers_by_list(names: Iterable[str]) -> dict[str, set[int]]:
    numbers: dict[str, set[int]] = defaultdict(set)
    for name in names:
        for prefix, number in _numbers_in(name):
            numbers[prefix].add(number)
    return numbers


def _numbers_in(name: str) -> Iterator[tuple[str, int]]:
    """Yield each number in a name with the words before it, in which ``*`` stands for numbers."""
    before: list[str] = []
    for word in name.split("."):
        if word.isdecimal():
            yield ".".join(before), int(word)
            before.append("*")
        else:
            before.append(word)
