"""Check that MindInsight can show a value, before the value is written.

A file may contain other values (such as a NaN loss that MindSpore wrote); this package never writes
them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from mindsummary_lightning.values.limits import FLOAT32_MAX, FLOAT64_MAX
from mindsummary_lightning.values.lineage_info import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    AddedEvaluation,
    DatasetGraph,
    EvaluationInfo,
    Operation,
    RunInfo,
    TrainInfo,
    UserDefinedInfo,
    parsed_metric,
)
from mindsummary_lightning.values.summary_values import LossLandscape, check_landscape_shapes

_LONGEST_SHOWN = 128  # bits of an int that a message shows


def check_recordable(value: object) -> None:
    """Refuse a lineage or landscape value that would break a page of MindInsight.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a number is not finite or does not fit, a metric is not a JSON object, custom
            data is empty.
    """
    check = _CHECKS.get(type(value))
    if check is not None:
        check(value)


def _integer(where: str, value: Any, smallest: int, largest: int) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{where} must be an int, not {value!r}")
    if not smallest <= value <= largest:
        raise ValueError(f"{where} must be in {smallest}..{largest}, not {_shown(value)}")


def _real(where: str, value: Any, largest: float) -> None:
    if value is None:
        return
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{where} must be a float, not {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} must be finite, not {value}; omit it instead")
    if abs(value) > largest:
        raise ValueError(
            f"{where} must be at most {largest:.1e} in magnitude, the limit of the file format, "
            f"not {_shown(value)}; omit it instead"
        )


def _shown(value: float) -> str:
    """Return a number as text; for a huge int, return its size in bits.

    Python may refuse to print an int of hundreds of digits.
    """
    if isinstance(value, int) and value.bit_length() > _LONGEST_SHOWN:
        return f"an int of {value.bit_length()} bits"
    return str(value)


def _text(where: str, value: Any) -> None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{where} must be a str, not {value!r}")


def _check_train(value: TrainInfo) -> None:
    for name in ("epoch", "device_num", "batch_size", "train_dataset_size"):
        _integer(f"{name} of TrainInfo", getattr(value, name), 0, INT32_MAX)
    _integer("model_size of TrainInfo", value.model_size, 0, INT64_MAX)
    for name in ("learning_rate", "loss"):
        _real(f"{name} of TrainInfo", getattr(value, name), FLOAT32_MAX)
    for name in (
        "optimizer",
        "loss_function",
        "parallel_mode",
        "train_dataset_path",
        "network",
        "model_path",
    ):
        _text(f"{name} of TrainInfo", getattr(value, name))


def check_evaluation(value: EvaluationInfo, largest: float = FLOAT64_MAX) -> None:
    """Refuse an evaluation that would break a page of MindInsight.

    Args:
        value: the evaluation.
        largest: greatest magnitude of a whole number in the metric; MindInsight shows whole numbers
            of any size.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a number is not finite or does not fit, or the metric is not a JSON object.
    """
    _text("valid_dataset_path of EvaluationInfo", value.valid_dataset_path)
    _integer("valid_dataset_size of EvaluationInfo", value.valid_dataset_size, 0, INT32_MAX)
    # Every evaluation event needs its metric: a later one without it ends MindInsight's pass over
    # all older runs.
    if not isinstance(value.metric, str):
        raise TypeError(f"metric of EvaluationInfo must be a str, not {value.metric!r}")
    _check_metric(parsed_metric(value.metric, _refuse_constant), largest)


def _check_metric(metric: Any, largest: float) -> None:
    elements = (
        metric.values() if isinstance(metric, dict) else metric if isinstance(metric, list) else ()
    )
    for element in elements:
        if isinstance(element, (int, float)) and not isinstance(element, bool):
            _real("a number in the metric of EvaluationInfo", element, largest)
        else:
            _check_metric(element, largest)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"metric of EvaluationInfo must not hold {name}: a browser cannot parse it")


def _check_entries(values: Mapping[str, Any]) -> None:
    if not values:
        raise ValueError(
            "UserDefinedInfo needs at least one entry: MindInsight fails on an empty one"
        )
    for key, entry in values.items():
        if isinstance(entry, Mapping):
            _check_entries(entry)
        elif isinstance(entry, float):
            _real(f"{key!r} of UserDefinedInfo", entry, FLOAT64_MAX)


def _check_dataset(value: DatasetGraph) -> None:
    _check_parameters(value.parameter)
    for operation in (*value.operations, *([value.sampler] if value.sampler else [])):
        _check_operation(operation)
    for child in value.children:
        _check_dataset(child)


def _check_operation(operation: Operation) -> None:
    _check_parameters(operation.parameter)
    for size in operation.size:
        _integer("size of an operation", size, INT32_MIN, INT32_MAX)
    for weight in operation.weights:
        _real("weights of an operation", weight, FLOAT32_MAX)


def _check_parameters(values: Mapping[str, Any]) -> None:
    for key, entry in values.items():
        if isinstance(entry, int) and not isinstance(entry, bool):
            _integer(f"{key!r} of a dataset graph", entry, INT32_MIN, INT32_MAX)
        elif isinstance(entry, float):
            _real(f"{key!r} of a dataset graph", entry, FLOAT64_MAX)


def _check_landscape(value: LossLandscape) -> None:
    check_landscape_shapes(value.surface, value.intervals, value.path, value.convergence_point)
    for part, points in (("surface", value.surface), ("path", value.path)):
        for axis in ("x", "y", "z") if points is not None else ():
            if not np.isfinite(getattr(points, axis)).all():
                raise ValueError(
                    f"{axis} of a landscape's {part} must be finite: a browser cannot parse NaN"
                )
    if value.convergence_point is not None:
        for coordinate in np.asarray(value.convergence_point, np.float64).tolist():
            _real("convergence_point", coordinate, FLOAT32_MAX)
    for number in value.intervals:
        _integer("intervals of a landscape", number, 0, INT32_MAX)


_CHECKS: dict[type, Any] = {
    TrainInfo: _check_train,
    EvaluationInfo: check_evaluation,
    AddedEvaluation: check_evaluation,
    UserDefinedInfo: lambda value: _check_entries(value.values),
    RunInfo: lambda value: _check_entries(value.values),
    DatasetGraph: _check_dataset,
    LossLandscape: _check_landscape,
}
