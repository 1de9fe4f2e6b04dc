"""Names of tensors of two runs, matched across frameworks and wrappers.

In this order: what the user says, equal names, names that are equal without wrappers' prefixes and with MindSpore's
words translated, and at last a guess for what is left between matched neighbours. No name is used twice.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

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
AUTO = "/auto"  # and to a tag


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


def carried_weights(weights: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """Weights of one framework under the names of the other, for a port that begins where the original does.

    Args:
        weights: arrays by their names; of MindSpore ``{p.name: p.asnumpy() for p in net.get_parameters()}``.
        like: arrays or tensors by the names that are wanted, for example ``module.state_dict()``; only their shapes
            count.

    Returns:
        The arrays of ``weights``, in the order of ``like``. Counters such as ``num_batches_tracked`` are skipped.

    Raises:
        ValueError: a name of ``like`` has no partner with as many elements, or one of another shape.

    Example:
        >>> import numpy as np
        >>> carried_weights({"bn.gamma": np.ones(2)}, {"bn.weight": np.zeros(2)})
        {'bn.weight': array([1., 1.])}
    """
    wanted = {name: array for name, array in like.items() if not name.endswith("num_batches_tracked")}
    match = match_names(
        [TensorName(name, math.prod(array.shape)) for name, array in weights.items()],
        [TensorName(name, math.prod(array.shape)) for name, array in wanted.items()],
    )
    if match.unmatched_b:
        raise ValueError(f"no weight fits {match.unmatched_b[0]!r}; without a partner are {match.unmatched_a}")
    carried = {pair.b: weights[pair.a] for pair in match.pairs}
    for name, array in wanted.items():
        if tuple(carried[name].shape) != tuple(array.shape):
            found, expected = tuple(carried[name].shape), tuple(array.shape)
            raise ValueError(f"the weight that fits {name!r} has shape {found}, not {expected}; transpose it yourself")
    return {name: carried[name] for name in wanted}


def plain_name(name: str) -> str:
    """A name without wrappers' prefixes, its last word as PyTorch has it."""
    gradient = GRADIENT if name.endswith(GRADIENT) else ""
    name = _LEADING.sub("", _ANYWHERE.sub("", name.removesuffix(gradient)))
    stem, dot, last = name.rpartition(".")
    return stem + dot + _MINDSPORE.get(last, last) + gradient


def equal_names(a: Iterable[str], b: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of names that are equal as :func:`plain_name` has them, in the order of the first run."""
    plain = {plain_name(name): name for name in b}
    return [(name, plain[plain_name(name)]) for name in a if plain_name(name) in plain]


def read_names(path: str | os.PathLike[str]) -> dict[str, str]:
    """Pairs of names from a text file: a line each, separated by blanks; ``#`` begins a comment.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is not a pair, or a name is there twice.
    """
    pairs: dict[str, str] = {}
    with open(path, encoding="utf-8-sig", errors="replace") as file:  # editors of Windows begin it with a mark
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
    """Pairs of unmatched names of one size at the same place, where nothing in the names speaks against it."""
    taken = {other: name for name, other in matched.items()}
    tokens_a = [("", tensor.name) if tensor.name in matched else _shape(tensor) for tensor in a]
    tokens_b = [("", taken[tensor.name]) if tensor.name in taken else _shape(tensor) for tensor in b]
    groups: dict[object, list[tuple[str, str]]] = {}
    for start_a, start_b, length in SequenceMatcher(None, tokens_a, tokens_b, autojunk=False).get_matching_blocks():
        for one, other in zip(a[start_a : start_a + length], b[start_b : start_b + length], strict=True):
            if one.name not in matched and one.elements and _numbers(one.name) == _numbers(other.name):
                groups.setdefault((_shape(one), *_numbers(one.name)), []).append((one.name, other.name))
    for pairs in groups.values():
        if not _contradict(*(_distinguishing(list(names)) for names in zip(*pairs, strict=True))):
            yield from pairs


def _shape(tensor: TensorName) -> tuple[object, str]:
    is_gradient = GRADIENT if tensor.name.endswith(GRADIENT) else ""
    return tensor.elements, plain_name(tensor.name).removesuffix(GRADIENT).rpartition(".")[2] + is_gradient


def _numbers(name: str) -> list[str]:
    return re.findall(r"\d+", name)


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
