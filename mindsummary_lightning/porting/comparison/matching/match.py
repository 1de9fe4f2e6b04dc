"""``match_names``: matches the tensor names of two runs.

Several matchers run in order. Every matcher pairs tensors that the matchers before left unpaired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from mindsummary_lightning.porting.comparison.matching.names import equal_names
from mindsummary_lightning.porting.comparison.matching.positions import (
    between_pairs,
    in_corresponding_blocks,
    in_paired_layers,
)
from mindsummary_lightning.porting.comparison.matching.tensor_names import (
    Pair,
    TensorName,
    names_in_candidate,
    names_of,
)
from mindsummary_lightning.porting.comparison.matching.values import (
    equal_values,
    has_numbers,
    is_random,
)
from mindsummary_lightning.porting.comparison.tolerance_table import (
    TRUSTED_CONSTANT_SHARE,
    TRUSTED_SHARE,
)

_Found = Iterable[tuple[str, str]]


class NameMatch(NamedTuple):
    """The matched and unmatched tensors of two runs, in the order of each run.

    Attributes:
        pairs: tensors of both runs.
        unmatched_a: names that only the baseline has.
        unmatched_b: names that only the candidate has.
    """

    pairs: tuple[Pair, ...]
    unmatched_a: tuple[str, ...]
    unmatched_b: tuple[str, ...]


class _Matching:
    """All tensors of two runs, and the pairs found so far; no name is used twice."""

    def __init__(self, a: Sequence[TensorName], b: Sequence[TensorName]) -> None:
        self.a, self.b = a, b
        self.pairs: dict[str, Pair] = {}
        self._elements_a, self._elements_b = _elements(a), _elements(b)

    def unmatched_a(self) -> list[TensorName]:
        """Return the unmatched tensors of the baseline."""
        return [tensor for tensor in self.a if tensor.name not in self.pairs]

    def unmatched_b(self) -> list[TensorName]:
        """Return the unmatched tensors of the candidate."""
        taken = names_in_candidate(self.pairs.values())
        return [tensor for tensor in self.b if tensor.name not in taken]

    def take(self, found: _Found, rule: str) -> None:
        """Accept pairs of names that are unmatched and whose tensor sizes may be equal."""
        free = set(names_of(self.unmatched_b()))
        for name_a, name_b in found:
            known_sizes = {self._elements_a[name_a], self._elements_b[name_b]} - {0}
            if name_a not in self.pairs and name_b in free and len(known_sizes) < 2:
                self.pairs[name_a] = Pair(name_a, name_b, rule)
                free.remove(name_b)


def _elements(tensors: Sequence[TensorName]) -> dict[str, int]:
    return {tensor.name: tensor.elements for tensor in tensors}


def _by_name(matching: _Matching) -> _Found:
    return equal_names(names_of(matching.a), names_of(matching.b))


def _by_values_of_random_tensors(matching: _Matching) -> _Found:
    return equal_values(matching.unmatched_a(), matching.unmatched_b(), is_random, TRUSTED_SHARE)


def _by_values_of_all_tensors(matching: _Matching) -> _Found:
    unmatched = matching.unmatched_a(), matching.unmatched_b()
    return equal_values(*unmatched, has_numbers, TRUSTED_CONSTANT_SHARE)


def _by_layer(matching: _Matching) -> _Found:
    unmatched = matching.unmatched_a(), matching.unmatched_b()
    return in_paired_layers(*unmatched, matching.pairs.values())


def _by_block(matching: _Matching) -> _Found:
    return in_corresponding_blocks(matching.a, matching.b, matching.pairs)


def _by_order(matching: _Matching) -> _Found:
    return between_pairs(matching.a, matching.b, matching.pairs)


MATCHERS: tuple[tuple[str, Callable[[_Matching], _Found]], ...] = (
    ("name", _by_name),
    ("value", _by_values_of_random_tensors),
    ("layer", _by_layer),
    ("value", _by_values_of_all_tensors),
    ("layer", _by_layer),
    ("position", _by_block),
    ("position", _by_layer),
    ("position", _by_order),
    ("position", _by_layer),
)
"""Each matcher with the rule that its pairs get, in the order in which they are asked."""


def match_names(
    a: Sequence[TensorName], b: Sequence[TensorName], given: Mapping[str, str] | None = None
) -> NameMatch:
    """Match the tensors of two runs.

    Args:
        a: tensors of the baseline, in the order in which they were recorded.
        b: tensors of the candidate.
        given: names in the candidate by names in the baseline, which decide where both are among
            the tensors.
    """
    matching = _Matching(a, b)
    names_a, names_b = set(names_of(a)), set(names_of(b))
    for name_a, name_b in (given or {}).items():
        if name_a in names_a and name_b in names_b:
            matching.pairs[name_a] = Pair(name_a, name_b, "given")
    for rule, matcher in MATCHERS:
        matching.take(matcher(matching), rule)
    in_order = [matching.pairs[tensor.name] for tensor in a if tensor.name in matching.pairs]
    return NameMatch(
        tuple(in_order),
        tuple(names_of(matching.unmatched_a())),
        tuple(names_of(matching.unmatched_b())),
    )
