from __future__ import annotations

import argparse
import dataclasses
import enum
import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindsummary_lightning.conversion.hyperparameters import MAX_PARAMETERS, flatten
from mindsummary_lightning.values import UserDefinedInfo, check_recordable


class Colour(enum.Enum):
    RED = "the red one"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Options:
    lr: float = 0.5
    inner: Any = None


class Hostile:
    """Raises at whatever is done to it."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no attributes")


class HostileText(str):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class HostileMapping(dict[str, Any]):
    def __iter__(self) -> Any:
        raise RuntimeError("no keys")


class HostileKey:
    def __str__(self) -> str:
        raise RuntimeError("no key")


class Plain:
    """An object with the default repr, which holds its address."""


class Shaped:
    shape = (2, 3)

    def __repr__(self) -> str:
        return "a shape"


class Typed:
    dtype = "int8"

    def __repr__(self) -> str:
        return "a dtype"


class Text:
    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _nested(levels: int) -> list[Any]:
    """A list within so many lists."""
    outer: list[Any] = []
    for _ in range(levels):
        outer = [outer]
    return outer


def called_never() -> None:
    raise AssertionError("a hyper-parameter was called")


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (1, 1),
        (True, 1),
        (0.5, 0.5),
        ("text", "text"),
        ("", ""),
        (None, "None"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (2**70, 2**70),
        (10**5000, "an int of 16610 bits"),
        (np.float32(0.25), 0.25),
        (np.int64(7), 7),
        (np.bool_(True), 1),
        (np.float64("nan"), "nan"),
        (np.array([2.5]), 2.5),
        (np.zeros((2, 3)), "ndarray(shape=(2, 3), dtype=float64)"),
        (Path("/data/x"), "/data/x"),
        (Colour.RED, "RED"),
        (Level.HIGH, "HIGH"),
        ([1, 2.5, "x", None], "[1, 2.5, 'x', 'None']"),
        ((1, (2, [3])), "[1, [2, [3]]]"),
        ({"only"}, "['only']"),
        ([], "[]"),
        ({}, "{}"),
        ({"_hidden": 1}, "{}"),
        (called_never, "called_never"),
        (functools.partial(called_never, 1), "partial(called_never)"),
        (Options, "Options"),
        (Plain(), "Plain"),
        (np.random.default_rng(0), "Generator"),  # a repr of its own, with an address in it
        (Hostile(), "Hostile"),
        (HostileText("x"), "HostileText"),
        (HostileMapping(a=1), "HostileMapping"),
        ("a\ud800", "a\\ud800"),
        ("<b>\0\n../ \u202e", "<b>\0\n../ \u202e"),
        (slice(1, 2), "slice(1, 2, None)"),
        (2**1000 - 1, 2**1000 - 1),
        (-(2**1000), "an int of 1001 bits"),
        (np.zeros((1, 1)), 0.0),
        (np.zeros(0), "ndarray(shape=(0,), dtype=float64)"),
        (Shaped(), "a shape"),
        (Typed(), "a dtype"),
        (frozenset({2}), "[2]"),
        (_nested(16), "[" * 17 + "]" * 17),
        (_nested(17), "[" * 17 + "[…]" + "]" * 17),
        (["x" * 997], f"['{'x' * 997}'…"),
        ([Options], "['Options']"),
        (Text("x" * 1000), "x" * 1000),
        (Text("x" * 1001), "x" * 1000 + "…"),
        (Text("\ud800"), "\\ud800"),
        (b"bytes", "b'bytes'"),
        (1 + 2j, "(1+2j)"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_leaf_becomes_a_plain_value(value: Any, kept: Any) -> None:
    assert flatten({"key": value}) == {"key": kept}
    assert type(flatten({"key": value})["key"]) is type(kept)


@pytest.mark.parametrize(
    "container",
    [
        {"lr": 0.5, "inner": {"a": 1, "_b": 2}},
        argparse.Namespace(lr=0.5, inner=argparse.Namespace(a=1, _b=2)),
        Options(0.5, {"a": 1, "_b": 2}),
        {"lr": 0.5, "inner": {"a": 1}, "_instantiator": "cli"},
    ],
    ids=lambda part: type(part).__name__,
)
def test_nested_containers_become_flat_keys_without_hidden_ones(container: Any) -> None:
    assert flatten(container) == {"lr": 0.5, "inner/a": 1}


def test_a_list_of_containers_is_numbered() -> None:
    assert flatten({"layers": [{"n": 1}, {"n": 2}, 3]}) == {
        "layers/0/n": 1,
        "layers/1/n": 2,
        "layers/2": 3,
    }
    pair = (argparse.Namespace(n=1), Options(lr=2))
    assert flatten({"both": pair}) == {"both/0/n": 1, "both/1/lr": 2, "both/1/inner": "None"}
    for part in pair:
        assert next(iter(flatten({"one": [1, part]}))) == "one/0"
    assert flatten({"kinds": [Options, Plain]}) == {"kinds": "['Options', 'Plain']"}


def test_keys_that_are_not_text_become_text() -> None:
    flat = flatten({1: "a", None: "b", (2, 3): "c", HostileKey(): "d"})

    assert flat == {"1": "a", "None": "b", "(2, 3)": "c", "HostileKey": "d"}


def test_omegaconf_is_unfolded_with_its_interpolations() -> None:
    omegaconf = pytest.importorskip("omegaconf")
    config = omegaconf.OmegaConf.create({"a": 1, "b": {"c": "${a}"}, "l": [{"d": 2}], "p": [1, 2]})

    assert flatten(config) == {"a": 1, "b/c": 1, "l/0/d": 2, "p": "[1, 2]"}


def test_an_omegaconf_value_that_cannot_be_had_is_named_by_its_error() -> None:
    omegaconf = pytest.importorskip("omegaconf")
    config = omegaconf.OmegaConf.create({"missing": "???", "broken": "${nowhere}", "a": 1})

    flat = flatten(config)
    assert flat["a"] == 1
    assert flat["broken"] == "<InterpolationKeyError>"
    assert flat.keys() == {"missing", "broken", "a"}


def test_a_module_is_named_with_its_size() -> None:
    torch = pytest.importorskip("torch")

    assert flatten({"net": torch.nn.Linear(2, 3), "class": torch.nn.Linear}) == {
        "net": "Linear (9 parameters)",
        "class": "Linear",
    }


def test_a_lazy_module_and_a_tensor_without_data_are_named() -> None:
    torch = pytest.importorskip("torch")
    flat = flatten(
        {
            "lazy": torch.nn.LazyLinear(2),
            "meta": torch.ones((), device="meta"),
            "one": torch.ones(1),
            "dtype": torch.half,
        }
    )

    assert flat == {"lazy": "LazyLinear", "meta": "Tensor", "one": 1.0, "dtype": "torch.float16"}


def test_what_is_long_is_cut_and_texts_are_not() -> None:
    flat = flatten({"list": list(range(10**6)), "text": "x" * 5000, "longest": ["x" * 996]})

    assert flat["list"] == str(list(range(1000)))[:1000] + "…"
    assert flat["text"] == "x" * 5000
    assert flat["longest"] == f"['{'x' * 996}']"


def test_a_container_that_holds_itself_ends() -> None:
    mapping: dict[str, Any] = {"a": 1}
    mapping["again"] = mapping
    items: list[Any] = []
    items += [items, items]

    assert flatten(mapping) == {"a": 1, "again": "dict"}
    assert str(flatten({"items": items})["items"]).startswith("[[[[")


def test_containers_that_share_parts_do_not_unfold_without_end() -> None:
    mapping: dict[str, Any] = {}
    items: list[Any] = []
    for _ in range(100):
        mapping, items = {"left": mapping, "right": mapping}, [items] * 10

    assert len(flatten({"mapping": mapping, "items": items})) == MAX_PARAMETERS == 10_000
    assert str(flatten({"items": items})["items"]).startswith("[[[[")


@pytest.mark.parametrize("params", [None, 3, "text", [], SimpleNamespace(a=1)], ids=str)
def test_what_has_no_keys_gives_nothing(params: Any) -> None:
    assert flatten(params) == {}


anything: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(), anything, max_size=4))
def test_whatever_is_flattened_may_be_recorded(params: dict[str, Any]) -> None:
    flat = flatten(params)
    if flat:
        check_recordable(UserDefinedInfo(flat))


def test_more_than_ten_thousand_parameters_are_cut_with_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def said() -> list[str]:
        # other tests' records too say what they have lost
        return [message for message in caplog.messages if "hyper-parameters" in message]

    assert len(flatten({f"p{number}": number for number in range(10_000)})) == 10_000
    assert said() == []
    assert [*flatten({f"p{number}": number for number in range(10_001)})][-1] == "p9999"
    assert said() == ["only the first 10000 hyper-parameters are recorded"]
