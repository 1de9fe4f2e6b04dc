from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindsummary_lightning import SummaryReader, SummaryRecord
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    LossLandscape,
    Operation,
    Points,
    RunInfo,
    Tensor,
    TrainInfo,
    UserDefinedInfo,
    check_recordable,
)
from mindsummary_lightning.values.lineage_info import AddedEvaluation
from mindsummary_lightning.values.validation import check_evaluation

GOOD = [
    1.0,
    Tensor(np.array([np.nan])),
    TrainInfo(),
    TrainInfo(epoch=0, device_num=0, batch_size=0, train_dataset_size=0, model_size=0),
    TrainInfo(epoch=2**31 - 1, learning_rate=1, loss=0.5, model_size=2**63 - 1, network="Net"),
    EvaluationInfo('{"acc": 1.0, "nested": {"a": 1}}', "/data", 0),
    UserDefinedInfo({"a": 1, "b": {"c": 2.0}, "d": 1e39, "e": 1.7e308}),
    TrainInfo(loss=3.4028234663852886e38, learning_rate=-3.4e38),
    EvaluationInfo('{"acc": 1e300, "of many": [1, true, null, "x", 2.5]}'),
    DatasetGraph(
        {"op_type": "BatchDataset", "n": 3}, (Operation({"p": 0.5}, (1,), (0.5,)),), Operation()
    ),
    DatasetGraph(
        {"n": 2**31 - 1, "m": -(2**31), "flag": True, "x": 1e308, "names": ("a",)},
        (Operation(size=(-(2**31), 2**31 - 1), weights=(3.4e38, -3.4e38, 1)),),
    ),
    EvaluationInfo("{}", None, 2**31 - 1),
    RunInfo({"a": -1.5, "b": "text", "c": {"d": "", "e": 2**9000}}),
    LossLandscape(
        Points(*(np.ones(n) for n in (2, 3)), np.ones((3, 2))),
        (0, 2**31 - 1),
        Points(*(np.ones(2),) * 3),
        (3.4e38, -3.4e38, 0.0),
    ),
]


@pytest.mark.parametrize("value", GOOD, ids=lambda value: type(value).__name__)
def test_what_mindinsight_shows_is_recordable(value: object) -> None:
    check_recordable(value)


NOT_FINITE = (float("nan"), float("inf"), float("-inf"))


@pytest.mark.parametrize("number", NOT_FINITE)
@pytest.mark.parametrize("name", ["learning_rate", "loss"])
def test_numbers_of_training_lineage_are_finite(name: str, number: float) -> None:
    with pytest.raises(ValueError, match=f"{name} of TrainInfo must be finite"):
        check_recordable(TrainInfo(**{name: number}))  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [-1, 2**63])
def test_the_size_of_a_model_fits_64_bits(number: int) -> None:
    with pytest.raises(ValueError, match=r"model_size of TrainInfo must be in 0\.\.92233720368547"):
        check_recordable(TrainInfo(model_size=number))


@pytest.mark.parametrize("number", [-1, 2**31])
def test_the_size_of_a_data_set_of_an_evaluation_fits_32_bits(number: int) -> None:
    with pytest.raises(
        ValueError, match=r"valid_dataset_size of EvaluationInfo must be in 0\.\.2147483647, not"
    ):
        check_recordable(EvaluationInfo("{}", None, number))


def test_an_evaluation_that_is_added_is_checked_like_any_other() -> None:
    check_recordable(AddedEvaluation('{"a": 1.0}', "/data", 0))
    with pytest.raises(ValueError, match="metric of EvaluationInfo must not hold NaN"):
        check_recordable(AddedEvaluation('{"a": NaN}'))
    with pytest.raises(TypeError, match="valid_dataset_path of EvaluationInfo must be a str"):
        check_recordable(AddedEvaluation("{}", 3))  # type: ignore[arg-type]


def test_whole_numbers_of_a_metric_may_have_a_limit_of_their_own() -> None:
    check_evaluation(EvaluationInfo('{"a": [true, {"b": -9}], "c": 9.0}'), 9)
    check_evaluation(EvaluationInfo('{"a": 1e308}'))
    for metric in ('{"a": [1, {"b": 10}]}', '{"b": -9.5}'):
        with pytest.raises(ValueError, match=r"a number in the metric .* at most 9.0e\+00 in"):
            check_evaluation(EvaluationInfo(metric), 9)


@pytest.mark.parametrize("name", ["epoch", "device_num", "batch_size", "train_dataset_size"])
@pytest.mark.parametrize("number", [-1, 2**31])
def test_counts_of_training_lineage_fit_32_bits(name: str, number: int) -> None:
    with pytest.raises(ValueError, match=rf"{name} of TrainInfo must be in 0\.\.2147483647"):
        check_recordable(TrainInfo(**{name: number}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "facts",
    [
        {"epoch": 1.0},
        {"epoch": True},
        {"loss": "low"},
        {"loss": True},
        {"learning_rate": "high"},
        {"model_size": 1.5},
        *[
            {name: 3}
            for name in ("optimizer", "loss_function", "parallel_mode", "train_dataset_path",
                         "network", "model_path")
        ],
        {"model_path": b"x"},
    ],
    ids=str,
)  # fmt: skip
def test_facts_of_the_wrong_type_are_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=f"{next(iter(facts))} of TrainInfo must be"):
        check_recordable(TrainInfo(**facts))


@pytest.mark.parametrize(
    "metric", ["[1]", "3", "null", '"text"', "{", "", '{"a": NaN}', '{"a": -Infinity}']
)
def test_a_metric_is_the_json_text_of_an_object_of_finite_numbers(metric: str) -> None:
    with pytest.raises(ValueError):
        check_recordable(EvaluationInfo(metric))


def test_an_evaluation_without_its_metric_is_refused() -> None:
    with pytest.raises(TypeError, match="metric of EvaluationInfo must be a str, not None"):
        check_recordable(EvaluationInfo(None))


@pytest.mark.parametrize("values", [{}, {"a": {}}], ids=str)
def test_empty_custom_data_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least one entry"):
        check_recordable(UserDefinedInfo(values))


def test_custom_numbers_are_finite_at_every_level() -> None:
    with pytest.raises(ValueError, match="'b' of UserDefinedInfo must be finite"):
        check_recordable(UserDefinedInfo({"a": {"b": float("inf")}}))


@pytest.mark.parametrize(
    "graph",
    [
        DatasetGraph({"n": 2**31}),
        DatasetGraph({"x": float("nan")}),
        DatasetGraph(children=(DatasetGraph({"n": -(2**31) - 1}),)),
        DatasetGraph(operations=(Operation({"n": 2**31}),)),
        DatasetGraph(sampler=Operation(weights=(float("inf"),))),
        DatasetGraph(operations=(Operation(size=(2**31,)),)),
        DatasetGraph({"a": 1, "n": -(2**31) - 1}),
        DatasetGraph(operations=(Operation(), Operation(size=(1, -(2**31) - 1)))),
        DatasetGraph(operations=(Operation(weights=(0.5, float("nan"))),)),
        DatasetGraph(sampler=Operation({"n": 2**31})),
        DatasetGraph(children=(DatasetGraph(), DatasetGraph(sampler=Operation(size=(2**31,))))),
    ],
    ids=str,
)
def test_numbers_of_a_dataset_graph_fit_its_fields(graph: DatasetGraph) -> None:
    with pytest.raises(ValueError, match=r"must be (in|finite)"):
        check_recordable(graph)


def _points(value: float, *shapes: int | tuple[int, int], last: float | None = None) -> Points:
    axes = [np.full(shape, value, np.float32) for shape in shapes]
    for axis in axes:
        axis.flat[-1] = value if last is None else last
    return Points(*axes)


@pytest.mark.parametrize("number", NOT_FINITE)
def test_coordinates_of_a_landscape_are_finite(number: float) -> None:
    flat, odd = _points(1, 2, 3, (3, 2)), _points(1, 2, 3, (3, 2), last=number)

    with pytest.raises(ValueError, match="landscape's surface must be finite"):
        check_recordable(LossLandscape(odd))
    for axis in ("x", "y", "z"):
        one_odd = Points(*(getattr(odd if axis == each else flat, each) for each in "xyz"))
        with pytest.raises(ValueError, match=f"{axis} of a landscape's surface must be finite"):
            check_recordable(LossLandscape(one_odd))
    with pytest.raises(ValueError, match="landscape's path must be finite"):
        check_recordable(LossLandscape(flat, (1, 1), _points(1, 2, 2, 2, last=number)))
    with pytest.raises(ValueError, match="convergence_point must be finite"):
        check_recordable(LossLandscape(flat, convergence_point=(0, number, 0)))


@pytest.mark.parametrize(
    ("landscape", "error"),
    [
        (
            LossLandscape(_points(1, 2, 3, (2, 3))),
            r"surface needs x \(n,\), y \(m,\) and z \(m, n\)",
        ),
        (LossLandscape(_points(1, (1, 1), 1, (1, 1))), "surface needs"),
        (
            LossLandscape(_points(1, 1, 1, (1, 1)), (1, 2), _points(1, 1, 1, 1)),
            r"one point per interval, shape \(2,\)",
        ),
        (
            LossLandscape(_points(1, 1, 1, (1, 1)), (1,), _points(1, 1, 1, (1, 1))),
            "one point per interval",
        ),
        (LossLandscape(_points(1, 1, 1, (1, 1)), (1,)), "one point per interval"),
        (LossLandscape(_points(1, 1, 1, (1, 1)), convergence_point=(0, 0)), "three numbers"),  # type: ignore[arg-type]
    ],
)
def test_a_landscape_has_a_height_for_each_point_and_a_point_for_each_interval(
    landscape: LossLandscape, error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        check_recordable(landscape)


def test_intervals_of_a_landscape_fit_their_field() -> None:
    for intervals in ((1, 2**31), (-1, 2)):
        with pytest.raises(ValueError, match="intervals of a landscape must be in 0"):
            check_recordable(
                LossLandscape(_points(1, 1, 1, (1, 1)), intervals, _points(1, 2, 2, 2))
            )


@pytest.mark.parametrize(
    "surface", [None, "a surface", np.ones((2, 2))], ids=lambda wrong: type(wrong).__name__
)
def test_what_is_no_points_is_refused_where_a_landscape_is_made(surface: Any) -> None:
    with pytest.raises(TypeError, match="must be Points, not"):
        LossLandscape(surface)
    with pytest.raises(TypeError, match="must be Points, not Points and str"):
        LossLandscape(_points(1, 1, 1, (1, 1)), (), "a path")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "number",
    [1e39, -1e39, 3.41e38, 10**39, 10**400, -(10**5000)],
    ids=["1e39", "-1e39", "3.41e38", "10**39", "10**400", "-(10**5000)"],
)
@pytest.mark.parametrize("name", ["learning_rate", "loss"])
def test_a_number_of_training_lineage_fits_the_32_bits_of_its_field(
    name: str, number: float
) -> None:
    with pytest.raises(
        ValueError, match=rf"{name} of TrainInfo must be at most 3\.4e\+38 in magnitude"
    ):
        check_recordable(TrainInfo(**{name: number}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [
        DatasetGraph(operations=(Operation(weights=(0.5, 1e39)),)),
        DatasetGraph(operations=(Operation(weights=(10**400,)),)),
        LossLandscape(
            Points(*(np.ones(1),) * 2, np.ones((1, 1))), convergence_point=(0.0, 1e39, 0.0)
        ),
        EvaluationInfo('{"a": {"b": [1e400]}}'),
        EvaluationInfo(f'{{"a": {10**400}}}'),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_number_that_the_file_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"must be (at most .* in magnitude|finite)"):
        check_recordable(value)


def test_what_is_checked_is_what_a_reader_gets(tmp_path: Path) -> None:
    train = TrainInfo(loss=3.4028234663852886e38, learning_rate=-3.4e38)
    with SummaryRecord(tmp_path) as record:
        record.add_value("train_lineage", "t", train)
        record.record(1)

    read = SummaryReader(tmp_path).lineage().train
    assert read is not None
    assert read.loss == train.loss
    assert read.learning_rate == np.float32(-3.4e38)


def test_a_count_of_hundreds_of_digits_is_refused_without_printing_it() -> None:
    with pytest.raises(ValueError, match="not an int of 16610 bits"):
        check_recordable(TrainInfo(epoch=10**5000))
    with pytest.raises(ValueError, match=f"not {2**128 - 1}$"):
        check_recordable(TrainInfo(epoch=2**128 - 1))
    with pytest.raises(ValueError, match="not an int of 129 bits"):
        check_recordable(TrainInfo(epoch=2**128))
