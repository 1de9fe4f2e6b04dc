"""Events as JSON values, as commands and exports print them."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from mindsummary_lightning.conversion.json_events import plain, plain_event, train_fields
from mindsummary_lightning.values import (
    DatasetGraph,
    DataType,
    EvaluationInfo,
    Event,
    Graph,
    GraphInput,
    GraphNode,
    Histogram,
    Image,
    LandscapeMetadata,
    LineageEvent,
    LossLandscape,
    Operation,
    Points,
    RunInfo,
    Tensor,
    TensorType,
    TrainInfo,
    UserDefinedInfo,
)


def _single(number: float) -> float:
    return float(np.float32(number))


def test_an_event_of_values_names_each_with_its_kind_and_content() -> None:
    histogram = Histogram(
        np.array([0.5, 1.5]), np.array([1.0, 2.0]), np.array([3, 4]), 10, 1, 2, 0, 0.5, 3.25
    )
    event = Event(
        2.5,
        3,
        (
            ("loss", _single(0.1)),
            ("nan", math.nan),
            ("i", Image(2, 5, b"12345678", 1)),
            ("t", Tensor(np.array([[0.1, np.inf, 2.0], [1, 2, 3]]))),
            ("h", histogram),
        ),
    )

    assert plain_event(event) == {
        "wall_time": 2.5,
        "step": 3,
        "values": [
            {"tag": "loss", "kind": "scalar", "value": 0.1},
            {"tag": "nan", "kind": "scalar", "value": "NaN"},
            {
                "tag": "i",
                "kind": "image",
                "value": {"height": 2, "width": 5, "colorspace": 1, "encoded_bytes": 8},
            },
            {
                "tag": "t",
                "kind": "tensor",
                "value": {
                    "dims": [2, 3],
                    "data_type": "FLOAT64",
                    "data": [0.1, "Infinity", 2.0, 1.0, 2.0, 3.0],
                },
            },
            {
                "tag": "h",
                "kind": "histogram",
                "value": {
                    "buckets": [[0.5, 1.0, 3], [1.5, 2.0, 4]],
                    "count": 10,
                    "nan_count": 1,
                    "pos_inf_count": 2,
                    "neg_inf_count": 0,
                    "min": 0.5,
                    "max": 3.25,
                    "sum": None,
                },
            },
        ],
    }


def test_a_landscape_is_given_with_its_arrays_and_without_what_it_lacks() -> None:
    points = Points(np.array([1.0, 2.0]), np.array([0.1]), np.array([[3.0, np.nan]]))
    landscape = LossLandscape(points, metadata=LandscapeMetadata("PCA", "epoch", 4))

    assert plain(landscape) == {
        "surface": {"x": [1.0, 2.0], "y": [0.1], "z": [[3.0, "NaN"]]},
        "intervals": [],
        "metadata": {"decomposition": "PCA", "unit": "epoch", "step_per_epoch": 4},
    }


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        (Event(1.5, 0, "MindSpore.Event:1"), {"step": 0, "version": "MindSpore.Event:1"}),
        (Event(1.5, 2, ()), {"step": 2, "values": []}),
        (Event(1.5, 2, None), {"step": 2, "unknown": None}),
        (
            Event(1.5, 2, Graph((GraphNode("1", "Add", inputs=(GraphInput("x", True),)),), "net")),
            {
                "step": 2,
                "graph": {
                    "nodes": [
                        {
                            "name": "1",
                            "op_type": "Add",
                            "scope": "",
                            "full_name": "",
                            "inputs": [{"name": "x", "is_control": True}],
                            "attributes": [],
                            "output_i": 0,
                            "instance_name": "",
                        }
                    ],
                    "name": "net",
                    "parameters": [],
                    "constants": [],
                    "outputs": [],
                },
            },
        ),
        (
            LineageEvent(1.5, TrainInfo(learning_rate=_single(0.1), epoch=3, optimizer="SGD")),
            {"TrainLineage": {"optimizer": "SGD", "learning_rate": 0.1, "epoch": 3}},
        ),
        (
            LineageEvent(1.5, EvaluationInfo('{"a": 1}', None, 7)),
            {"EvaluationLineage": {"metric": '{"a": 1}', "valid_dataset_size": 7}},
        ),
        (
            LineageEvent(1.5, UserDefinedInfo({"a": {"b": math.inf}})),
            {"UserDefinedInfo": {"values": {"a": {"b": "Infinity"}}}},
        ),
        (LineageEvent(1.5, RunInfo({"a": 1})), {"RunInfo": {"values": {"a": 1}}}),
        (
            LineageEvent(
                1.5, DatasetGraph({"n": 2}, sampler=Operation({"p": 0.5}, (1, 2), (0.5,)))
            ),
            {
                "DatasetGraph": {
                    "parameter": {"n": 2},
                    "operations": [],
                    "sampler": {"parameter": {"p": 0.5}, "size": [1, 2], "weights": [0.5]},
                    "children": [],
                }
            },
        ),
        (LineageEvent(1.5, None), {"unknown": None}),
    ],
    ids=lambda part: type(getattr(part, "what", None)).__name__,
)
def test_an_event_of_any_kind_is_named_as_the_file_names_it(event: Any, shown: Any) -> None:
    assert plain_event(event) == {"wall_time": 1.5, **shown}
    assert json.loads(json.dumps(plain_event(event), allow_nan=False)) == plain_event(event)


def test_a_time_that_is_no_number_has_its_name() -> None:
    assert plain_event(Event(math.nan, 1, None))["wall_time"] == "NaN"
    assert plain_event(LineageEvent(-math.inf, None))["wall_time"] == "-Infinity"


@pytest.mark.parametrize(("elements", "is_shown"), [(0, True), (1000, True), (1001, False)])
def test_the_elements_of_a_large_tensor_are_left_out(elements: int, is_shown: bool) -> None:
    shown = plain(Tensor(np.full(elements, 0.1, np.float32)))

    assert shown == {
        "dims": [elements],
        "data_type": "FLOAT32",
        **({"data": [0.1] * elements} if is_shown else {}),
    }


def test_the_known_facts_of_a_training_have_the_digits_of_the_file() -> None:
    train = TrainInfo(
        learning_rate=_single(0.3), loss=_single(0.7), epoch=0, network="", model_size=2**40
    )

    assert train_fields(train) == {
        "learning_rate": 0.3,
        "epoch": 0,
        "network": "",
        "loss": 0.7,
        "model_size": 2**40,
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (np.array([0.1, 0.2]), [0.1, 0.2]),
        (np.array([[_single(0.1)]], np.float32), [[0.1]]),
        (np.float32(0.1), 0.1),
        (np.array(3), 3),
        (np.array([-np.inf, 1.0]), ["-Infinity", 1.0]),
        (DataType.INT8, "INT8"),
        (TensorType(DataType.FLOAT16, (2, -1)), {"elem_type": "FLOAT16", "shape": [2, -1]}),
        ({1: (math.nan,)}, {"1": ["NaN"]}),
        (None, None),
        (True, True),
        ("nan", "nan"),
    ],
    ids=repr,
)
def test_numbers_arrays_and_names_are_plain(value: Any, shown: Any) -> None:
    assert plain(value) == shown
    assert type(plain(value)) is type(shown)
