from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mindsummary_lightning.conversion.numeric import finite_metrics, metric_json, to_scalar


class HostileKey:
    def __str__(self) -> str:
        raise RuntimeError("no key")


class HostileNumber:
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no number")


def test_numbers_are_kept_and_all_else_is_skipped() -> None:
    metrics = {
        "float": 0.5,
        "int": 2,
        "array": np.array([[1.5]]),
        "nan": float("nan"),
        "inf": np.inf,
        "none": None,
        "text": "x",
        "two": [1, 2],
        "hostile": HostileNumber(),
        HostileKey(): 1.0,
    }

    assert finite_metrics(metrics) == {"float": 0.5, "int": 2.0, "array": 1.5, "HostileKey": 1.0}
    assert finite_metrics({"a": {"b": 1, "c": {"d": True, "e": None}}, "f": {}}) == {
        "a/b": 1.0,
        "a/c/d": 1.0,
    }


def test_a_name_is_what_utf8_holds() -> None:
    assert finite_metrics({"a\ud800": 1.0}) == {"a\\ud800": 1.0}


def test_the_text_is_json_of_an_object() -> None:
    assert json.loads(metric_json({"acc": 0.1, "ü": 2.0})) == {"acc": 0.1, "ü": 2.0}


def test_a_number_that_is_not_json_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        metric_json({"a": float("nan")})


@pytest.mark.parametrize(
    "value", [2**70, -(2**70), [2**70], np.array([2**70], dtype=object)], ids=repr
)
def test_an_int_beyond_64_bits_is_the_nearest_float(value: Any) -> None:
    assert abs(to_scalar(value)) == 2.0**70
    assert to_scalar(10**300) == 1e300


def test_an_int_beyond_every_float_is_refused_as_what_it_is() -> None:
    with pytest.raises(ValueError, match="an int of 1329 bits is too large for a float"):
        to_scalar(10**400)
    with pytest.raises(TypeError, match="found a list"):
        to_scalar([10**400])
