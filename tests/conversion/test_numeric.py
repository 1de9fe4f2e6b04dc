from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mindsummary_lightning.conversion.numeric import finite_metrics, metric_json


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


def test_nested_metrics_become_flat_names() -> None:
    assert finite_metrics({"val": {"acc": 1.0, "deep": {"x": 2}}, 3: 4}) == {
        "val/acc": 1.0,
        "val/deep/x": 2.0,
        "3": 4.0,
    }


def test_tensors_of_one_element_are_numbers_and_those_without_data_are_skipped() -> None:
    torch = pytest.importorskip("torch")

    assert finite_metrics({"a": torch.tensor([2.0]), "b": torch.ones((), device="meta")}) == {"a": 2.0}


def test_metrics_that_hold_themselves_end() -> None:
    metrics: dict[str, Any] = {"a": 1.0}
    metrics["inner"] = {"b": 2.0, "again": metrics, "twice": metrics}

    assert finite_metrics(metrics) == {"a": 1.0, "inner/b": 2.0}


def test_a_name_is_what_utf8_holds() -> None:
    assert finite_metrics({"a\ud800": 1.0}) == {"a\\ud800": 1.0}


def test_the_text_is_json_of_an_object() -> None:
    assert json.loads(metric_json({"acc": 0.1, "ü": 2.0})) == {"acc": 0.1, "ü": 2.0}


def test_a_number_that_is_not_json_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        metric_json({"a": float("nan")})
