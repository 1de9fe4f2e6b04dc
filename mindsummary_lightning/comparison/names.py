"""Names of tensors of two runs, matched across frameworks and wrappers.

In this order: what the user says, equal names, names that are equal without wrappers' prefixes and with MindSpore's
words translated, and at last a guess for what is left between matched neighbours. No name is used twice.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

_LEADING = re.compile(r"^(?:(?:module|model|network|_?backbone|net_with_loss|_network)\.)+")
_ANYWHERE = re.compile(r"(?:^|(?<=\.))(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
_MINDSPORE = {
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
    "embedding_table": "weight",
}
GRADIENT = ".gradient"  # what the collector adds to the name of a parameter


class TensorName(NamedTuple):
    """A tensor of a run.

    Attributes:
        name: its tag without the collector's ``/auto``.
        elements: how many numbers it has; 0 if unknown.
    """

    name: str
    elements: int = 0


class Pair(NamedTuple):
    """Two names of one tensor.

    Attributes:
        a: the name in the first run.
        b: the name in the second run.
        rule: ``map``, ``equal``, ``rules`` or ``guess``.
    """

    a: str
    b: str
    rule: str


class NameMatch(NamedTuple):
    """Names of two runs, matched.

    Attributes:
        pairs: in the order of the first run.
        unmatched_a: names that only the first run has, in its order.
        unmatched_b: names that only the second run has, in its order.
    """

    pairs: tuple[Pair, ...]
    unmatched_a: tuple[str, ...]
    unmatched_b: tuple[str, ...]


def match_names(a: Sequence[TensorName], b: Sequence[TensorName], given: Mapping[str, str] | None = None) -> NameMatch:
    """Match the tensors of two runs.

    Args:
        a: tensors of the first run, in the order in which they were recorded.
        b: those of the second.
        given: names of the first run to names of the second, which decide; the rest is matched as without.

    Raises:
        ValueError: a given name is in neither run, or given twice.
    """
    given = dict(given or {})
    _check_given(given, a, b)
    sizes_a, sizes_b = dict(a), dict(b)
    matched = {name: (other, "map") for name, other in given.items()}

    def free(tensors: Sequence[TensorName], taken: Iterable[str]) -> list[TensorName]:
        used = set(taken)
        return [tensor for tensor in tensors if tensor.name not in used]

    def is_same_size(one: str, other: str) -> bool:
        return sizes_a[one] == sizes_b[other] or not (sizes_a[one] and sizes_b[other])

    left_a, left_b = free(a, matched), free(b, given.values())
    there = {tensor.name for tensor in left_b}
    for name, _ in left_a:
        if name in there and is_same_size(name, name):
            matched[name] = (name, "equal")
    left_a, left_b = free(left_a, matched), free(left_b, (other for other, _ in matched.values()))
    plain_a, plain_b = _unique(left_a), _unique(left_b)
    for plain, name in plain_a.items():
        if plain in plain_b and is_same_size(name, plain_b[plain]):
            matched[name] = (plain_b[plain], "rules")
    left_a, left_b = free(left_a, matched), free(left_b, (other for other, _ in matched.values()))
    for name, other in _guesses(a, b, {name: other for name, (other, _) in matched.items()}):
        matched[name] = (other, "guess")
    used = {other for other, _ in matched.values()}
    return NameMatch(
        tuple(Pair(tensor.name, *matched[tensor.name]) for tensor in a if tensor.name in matched),
        tuple(tensor.name for tensor in left_a if tensor.name not in matched),
        tuple(tensor.name for tensor in left_b if tensor.name not in used),
    )


def plain_name(name: str) -> str:
    """A name without wrappers' prefixes, its last word as PyTorch has it."""
    gradient = GRADIENT if name.endswith(GRADIENT) else ""
    name = _LEADING.sub("", _ANYWHERE.sub("", name.removesuffix(gradient)))
    stem, dot, last = name.rpartition(".")
    return stem + dot + _MINDSPORE.get(last, last) + gradient


def read_names(path: str | os.PathLike[str]) -> dict[str, str]:
    """Pairs of names from a text file: a line each, separated by blanks; ``#`` begins a comment.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is not a pair, or a name is there twice.
    """
    pairs: dict[str, str] = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            if len(words) != 2 or words[0] in pairs:
                problem = "a name of the first run and its name in the second run, each once"
                raise ValueError(f"line {number} of {os.fspath(path)} must be {problem}, not {line.strip()!r}")
            pairs[words[0]] = words[1]
    return pairs


def _check_given(given: Mapping[str, str], a: Sequence[TensorName], b: Sequence[TensorName]) -> None:
    for names, tensors, which in ((given, a, "first"), (given.values(), b, "second")):
        unknown = sorted({*names} - {tensor.name for tensor in tensors})
        if unknown:
            has = ", ".join(tensor.name for tensor in tensors[:5])
            raise ValueError(f"the {which} run has no tensor {unknown[0]!r}; it has {has or 'none'}, ...")
    twice = [name for name, count in Counter(given.values()).items() if count > 1]
    if twice:
        raise ValueError(f"{twice[0]!r} of the second run is given to two names of the first; each has one partner")


def _unique(tensors: Iterable[TensorName]) -> dict[str, str]:
    """Plain names that only one tensor has, and the name of that."""
    plain = [(plain_name(tensor.name), tensor.name) for tensor in tensors]
    counts = Counter(name for name, _ in plain)
    return {name: original for name, original in plain if counts[name] == 1}


def _guesses(a: Sequence[TensorName], b: Sequence[TensorName], matched: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """Pairs of unmatched names at the same place between matched neighbours, where nothing speaks against them."""
    anchors = {other: index for index, other in enumerate(matched.values())}
    index_of = {name: anchors[other] for name, other in matched.items()}
    for is_gradient in (False, True):
        gaps_a = _gaps([tensor for tensor in a if tensor.name.endswith(GRADIENT) == is_gradient], index_of)
        gaps_b = _gaps([tensor for tensor in b if tensor.name.endswith(GRADIENT) == is_gradient], anchors)
        for gap, names_a in gaps_a.items():
            names_b = gaps_b.get(gap, [])
            if [_shape(tensor) for tensor in names_a] == [_shape(tensor) for tensor in names_b]:
                yield from _agreeing(names_a, names_b)


def _gaps(tensors: Iterable[TensorName], anchors: Mapping[str, int]) -> dict[tuple[int, int], list[TensorName]]:
    """Unmatched tensors by the matched ones on either side."""
    gaps: dict[tuple[int, int], list[TensorName]] = {}
    before, waiting = -1, []
    for tensor in tensors:
        if tensor.name not in anchors:
            waiting.append(tensor)
            continue
        if waiting:
            gaps[before, anchors[tensor.name]] = waiting
        before, waiting = anchors[tensor.name], []
    if waiting:
        gaps[before, -1] = waiting
    return gaps


def _shape(tensor: TensorName) -> tuple[int, str]:
    return tensor.elements, plain_name(tensor.name).removesuffix(GRADIENT).rpartition(".")[2]


def _agreeing(a: list[TensorName], b: list[TensorName]) -> Iterable[tuple[str, str]]:
    """Pairs of equal place; of neighbours of one size, only if their distinguishing words do not contradict."""
    pairs = list(zip(a, b, strict=True))
    by_size = groupby(sorted(pairs, key=lambda pair: _shape(pair[0])), key=lambda pair: _shape(pair[0]))
    for (elements, _), group in by_size:
        same = list(group)
        words_a, words_b = (_distinguishing([pair[side].name for pair in same]) for side in (0, 1))
        if elements and not _contradict(words_a, words_b):
            yield from ((one.name, other.name) for one, other in same)


def _distinguishing(names: list[str]) -> list[list[str]]:
    """The words in which each of the names differs from the others."""
    words = [re.findall(r"[a-z]+|\d+", name.lower()) for name in names]
    common = set.intersection(*map(set, words)) if len(words) > 1 else set()
    return [[word for word in own if word not in common] for own in words]


def _contradict(a: list[list[str]], b: list[list[str]]) -> bool:
    """Whether a word that tells one tensor from its like in one run tells another one in the other run."""
    for index, words in enumerate(a):
        for word in (word for word in words if not word.isdigit()):
            elsewhere = [place for place, others in enumerate(b) if word in others]
            if elsewhere and index not in elsewhere:
                return True
        initials = {word[0] for word in words if not word.isdigit()}
        others = [{word[0] for word in other if not word.isdigit()} for other in b]
        if initials and not initials & others[index] and any(initials & other for other in others):
            return True
    return False
