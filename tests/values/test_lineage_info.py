"""Metrics as JSON text, custom data, and what custom data repeat."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from mindsummary_lightning.values import RunInfo, TrainInfo, UserDefinedInfo
from mindsummary_lightning.values.lineage_info import parsed_metric, repeated_fields


def _nested(levels: int, kind: str) -> str:
    """An object with so many levels in all, of objects or of lists."""
    inside = levels - 1
    if kind == "objects":
        return '{"a": ' + '{"b": ' * inside + "1" + "}" * levels
    return '{"first": [1], "a": ' + "[" * inside + "1" + "]" * inside + "}"


@pytest.mark.parametrize("kind", ["objects", "lists"])
def test_a_metric_may_have_a_hundred_levels(kind: str) -> None:
    assert parsed_metric(_nested(100, kind)) == json.loads(_nested(100, kind))
    for levels in (101, 5000):
        with pytest.raises(ValueError, match="must be the JSON text of an object of at most 100"):
            parsed_metric(_nested(levels, kind))


def test_a_metric_may_have_any_number_of_flat_entries() -> None:
    text = '{"a": [' + "[1], {}, " * 200 + "2]}"

    assert parsed_metric(text) == json.loads(text)


@pytest.mark.parametrize("text", ["", "[]", "1", "null", '"a"', "{", "nothing", '{"a": 1'])
def test_a_text_that_is_no_object_is_refused_and_shown(text: str) -> None:
    with pytest.raises(ValueError) as refusal:
        parsed_metric(text)

    assert str(refusal.value) == (
        "metric of EvaluationInfo must be the JSON text of an object of at most 100 levels, "
        f"not {text!r}"
    )
    with pytest.raises(ValueError, match=f"not '{'x' * 80}'$"):
        parsed_metric("x" * 81)


def test_numbers_that_are_not_finite_are_floats_or_what_the_caller_makes_of_them() -> None:
    text = '{"a": NaN, "b": [Infinity, -Infinity]}'

    found = parsed_metric(text)
    assert math.isnan(found["a"])
    assert found["b"] == [math.inf, -math.inf]
    assert parsed_metric(text, str.lower) == {"a": "nan", "b": ["infinity", "-infinity"]}


def test_a_name_that_utf8_cannot_hold_is_escaped() -> None:
    assert parsed_metric(r'{"a\ud800": {"b": "\udfff"}, "\u00e9": 1}') == {
        "a\\ud800": {"b": "\\udfff"},
        "é": 1,
    }


def test_custom_data_that_repeat_a_fact_of_the_training_are_named() -> None:
    custom = {"epoch": 3, "batch_size": 64, "lr": 0.5, "optimizer": "SGD", "network": "Net"}
    train = TrainInfo(epoch=3, batch_size=32, optimizer="SGD")

    assert repeated_fields(custom, train) == {"epoch": 3, "optimizer": "SGD"}


@pytest.mark.parametrize("kind", [UserDefinedInfo, RunInfo])
def test_custom_data_are_checked_at_every_level(kind: type[UserDefinedInfo]) -> None:
    assert kind({"b": {"a\ud800": True}, "a": 2**10_000 - 1}).values == {
        "b": {"a\\ud800": 1},
        "a": 2**10_000 - 1,
    }
    assert [*kind({"b": 1, "a": 2}).values] == ["b", "a"]
    wrong: list[tuple[Any, str]] = [
        (3, "values of UserDefinedInfo must be a dict, not 3"),
        ({"a": {1: 2}}, "keys of UserDefinedInfo must be str, not 1"),
        ({"a": {"b": None}}, "b of UserDefinedInfo must be int, float, str or a mapping"),
    ]
    for values, message in wrong:
        with pytest.raises(TypeError, match=message):
            kind(values)
    with pytest.raises(ValueError, match="b of UserDefinedInfo must be an int of at most 10000"):
        kind({"a": {"b": -(2**10_000)}})
