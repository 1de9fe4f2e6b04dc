"""``leaves``: nested containers in order, without end or exception whatever a user's
object does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from mindsummary_lightning.conversion.flattening import (
    batch_items,
    items_of,
    leaves,
    value_or_default,
)


class Hostile(Mapping[str, Any]):
    """A mapping whose values, or whose keys, cannot be read."""

    def __init__(self, error: type[BaseException], has_keys: bool) -> None:
        self.error = error
        self.has_keys = has_keys

    def __getitem__(self, key: str) -> Any:
        raise self.error

    def __iter__(self) -> Iterator[str]:
        if not self.has_keys:
            raise self.error
        return iter(["key"])

    def __len__(self) -> int:
        return 1


def test_nested_mappings_become_flat_keys_in_order() -> None:
    assert list(leaves({"b": 1, "a": {"y": 2, "x": {"z": 3}}, 4: 5})) == [
        ("b", 1),
        ("a/y", 2),
        ("a/x/z", 3),
        ("4", 5),
    ]


def test_a_mapping_within_itself_is_a_leaf_where_it_repeats() -> None:
    outer: dict[str, Any] = {"a": 1}
    inner = {"outer": outer, "b": 2}
    outer["inner"] = inner

    assert list(leaves(outer)) == [("a", 1), ("inner/outer", outer), ("inner/b", 2)]


def test_a_mapping_that_occurs_twice_side_by_side_is_unfolded_twice() -> None:
    shared = {"x": 1}

    assert list(leaves({"a": shared, "b": shared})) == [("a/x", 1), ("b/x", 1)]


def test_shared_parts_do_not_unfold_without_end() -> None:
    shared: dict[str, Any] = {}
    for _ in range(100):
        shared = {str(number): shared for number in range(10)}

    assert 50_000 < len(list(leaves({"shared": shared}))) < 100_000


def test_an_empty_container_yields_what_the_caller_wants() -> None:
    assert list(leaves({"a": {}})) == []
    assert list(leaves({"a": {}}, empty="{}")) == [("a", "{}")]


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_an_entry_that_cannot_be_read_is_named_by_its_error(error: type[BaseException]) -> None:
    assert list(leaves({"a": Hostile(error, has_keys=True)})) == [("a/key", f"<{error.__name__}>")]


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_a_container_that_cannot_be_read_is_a_leaf(error: type[BaseException]) -> None:
    ((key, value),) = leaves({"a": Hostile(error, has_keys=False)})

    assert (key, type(value)) == ("a", Hostile)


@pytest.mark.parametrize("has_keys", [True, False])
def test_a_keyboard_interrupt_is_passed_on(has_keys: bool) -> None:
    with pytest.raises(KeyboardInterrupt):
        list(leaves({"a": Hostile(KeyboardInterrupt, has_keys)}))
    with pytest.raises(KeyboardInterrupt):
        list(leaves({"a": Hostile(KeyboardInterrupt, has_keys)}, batch_items))


@pytest.mark.parametrize("values", [{"b": 1, "a": 2}, [("b", 1), ("a", 2)], (("b", 1), ["a", 2])])
def test_names_and_values_come_from_a_mapping_or_from_pairs(values: Any) -> None:
    assert items_of(values) == [("b", 1), ("a", 2)]


@pytest.mark.parametrize(
    ("values", "kind"), [(3, "int"), ([1], "list"), ("abc", "str"), (None, "NoneType")]
)
def test_what_has_no_names_is_refused(values: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=f"must be a dict from names to numbers, got {kind}$"):
        items_of(values)


def test_an_attempt_gives_the_result_or_the_default() -> None:
    assert value_or_default(0, int, "7") == 7
    assert value_or_default(0, int, "seven") == 0


class Pair(NamedTuple):
    image: Any
    label: Any


@dataclass
class Slotted:
    __slots__ = ("image", "label")
    image: Any
    label: Any


class Storage:
    """Keeps its parts as the batches of PyTorch Geometric do, and computes something else."""

    def __init__(self, **parts: Any) -> None:
        self._parts = parts

    @property
    def label(self) -> Any:
        raise AssertionError("is computed")


class TensorLike:
    def __init__(self) -> None:
        self.image = 3

    @classmethod
    def __torch_function__(cls) -> None:
        """Has what every tensor has."""


class Network:
    def __init__(self) -> None:
        self.image = 3

    def named_parameters(self) -> None:
        """Has what every module has."""


def test_a_container_below_sixteen_others_is_a_leaf() -> None:
    nested: dict[str, Any] = {}
    for level in range(20):
        nested = {str(level): nested}

    ((key, value),) = leaves(nested)

    assert key == "19/18/17/16/15/14/13/12/11/10/9/8/7/6/5/4/3"
    assert value == {"2": {"1": {"0": {}}}}


def test_what_is_no_container_has_no_leaves() -> None:
    assert list(leaves(5)) == []


@pytest.mark.parametrize("kind", [Pair, Slotted, dict, Storage])
def test_a_batch_is_made_of_its_parts(kind: type[Any]) -> None:
    items = dict(leaves({"batch": [kind(image=1, label=(2,))]}, batch_items))

    assert {key.replace("/_parts", ""): value for key, value in items.items()} == {
        "batch/0/image": 1,
        "batch/0/label/0": 2,
    }


@pytest.mark.parametrize(
    "value", [TensorLike(), Network(), Pair, Hostile, 1, "text", Path(), ModuleType("some")]
)
def test_what_is_no_part_of_a_batch_is_a_leaf(value: Any) -> None:
    assert list(leaves({"batch": value}, batch_items)) == [("batch", value)]
