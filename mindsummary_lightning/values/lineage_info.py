"""Frozen dataclasses of lineage: facts of trainings, evaluations and data sets.

They can hold everything that a lineage file can contain.

Fewer values may be written; see ``values/validation.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias, cast

from mindsummary_lightning.values.limits import MAX_METRIC
from mindsummary_lightning.values.text import utf8_json, utf8_text

INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)
INT64_MAX = 2**63 - 1
EXACT_MAX = 2**53
"""Greatest int up to which a 64-bit float represents every int exactly.

JSON in a browser and TensorBoard have 64-bit floats.
"""

_MAX_INT_BITS = 10_000  # of custom data; Python refuses to write out ints of more than 4,300 digits


@dataclass(frozen=True, slots=True)
class TrainInfo:
    """Settings and results of a training, for MindInsight's lineage page.

    ``None`` means "not known" and stays out of the file.

    Attributes:
        optimizer: class name of the optimizer.
        learning_rate: learning rate of the optimizer's first parameter group.
        loss_function: name of the loss function.
        epoch: number of epochs.
        parallel_mode: how devices share the work (MindSpore writes ``stand_alone`` for a single
            device).
        device_num: number of devices.
        batch_size: samples in a batch.
        train_dataset_path: path of the training data.
        train_dataset_size: number of training samples.
        network: class name of the network.
        loss: last training loss.
        model_path: JSON text ``{"ckpt": path or null}``.
        model_size: size of the checkpoint in bytes.
    """

    optimizer: str | None = None
    learning_rate: float | None = None
    loss_function: str | None = None
    epoch: int | None = None
    parallel_mode: str | None = None
    device_num: int | None = None
    batch_size: int | None = None
    train_dataset_path: str | None = None
    train_dataset_size: int | None = None
    network: str | None = None
    loss: float | None = None
    model_path: str | None = None
    model_size: int | None = None

    def __post_init__(self) -> None:
        _make_texts_utf8(self)


@dataclass(frozen=True, slots=True)
class EvaluationInfo:
    """Metrics and data set of an evaluation, for MindInsight's lineage page.

    Attributes:
        metric: metrics as the JSON text of an object; ``None`` if the file contains no metrics.
        valid_dataset_path: path of the evaluation data.
        valid_dataset_size: number of evaluation samples.
    """

    metric: str | None = "{}"
    valid_dataset_path: str | None = None
    valid_dataset_size: int | None = None

    def __post_init__(self) -> None:
        _make_texts_utf8(self)


@dataclass(frozen=True, slots=True)
class AddedEvaluation(EvaluationInfo):
    """An evaluation whose metrics are added to the run's earlier metrics.

    A recorder writes an :class:`EvaluationInfo` with the metrics of all evaluations of the run. If
    a name occurs several times, the newest metric counts.

    Attributes:
        metric: as in :class:`EvaluationInfo`, like the other attributes.
    """


def parsed_metric(
    text: str, parse_constant: Callable[[str], object] | None = None
) -> dict[str, Any]:
    """Parse the JSON text that holds the metrics of an evaluation.

    ``parse_constant`` is called with ``NaN``, ``Infinity`` or ``-Infinity``; ``None`` converts it
    to a float.

    Raises:
        ValueError: the text is not the JSON of an object of at most 100 levels.
    """
    try:
        metric = json.loads(text, parse_constant=parse_constant)
    except (json.JSONDecodeError, RecursionError):
        metric = None
    # counted first: few metrics hold more than numbers
    may_be_deep = text.count("{") + text.count("[") > MAX_METRIC
    if not isinstance(metric, dict) or (may_be_deep and _is_deeper(metric, MAX_METRIC)):
        raise ValueError(
            f"metric of EvaluationInfo must be the JSON text of an object of at most {MAX_METRIC} "
            f"levels, not {text[:80]!r}"
        )
    if "\\u" in text:
        return cast("dict[str, Any]", utf8_json(metric))
    return metric


def _is_deeper(value: Any, levels: int) -> bool:
    elements = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    )
    return elements is not None and (
        not levels or any(_is_deeper(element, levels - 1) for element in elements)
    )


def _make_texts_utf8(value: TrainInfo | EvaluationInfo) -> None:
    # os.fsdecode turns bytes of a path that are not UTF-8 into lone surrogates.
    # the fields, and fields() would take as long as decoding them
    for name in type(value).__slots__:
        text = getattr(value, name)
        if isinstance(text, str) and not text.isascii():
            object.__setattr__(value, name, utf8_text(text))


CustomValue: TypeAlias = "int | float | str | Mapping[str, CustomValue]"


@dataclass(frozen=True, slots=True)
class UserDefinedInfo:
    """Custom lineage data: names with numbers, texts or nested mappings, in order.

    Attributes:
        values: str keys; values are int (a bool counts as an int), float, str, or a mapping of the
            same kind (shown as an object, not filterable). MindInsight has only ints of 32 bits. It
            shows a larger int as a float, and beyond 2**53 as text; in this package it stays an
            int.
    """

    values: Mapping[str, CustomValue]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _checked(self.values))


@dataclass(frozen=True, slots=True)
class RunInfo(UserDefinedInfo):
    """Custom lineage data that MindInsight does not show.

    MindInsight's tables have no column for these data. The readers of this package return them.

    Attributes:
        values: as in :class:`UserDefinedInfo`.
    """


def repeated_fields(custom: Mapping[str, CustomValue], train: TrainInfo) -> dict[str, CustomValue]:
    """Return the custom lineage data that repeat a field of ``TrainInfo``.

    MindInsight would show two columns with the same value.
    """
    known = {field_.name: getattr(train, field_.name) for field_ in fields(train)}
    return {name: entry for name, entry in custom.items() if name in known and entry == known[name]}


def _checked(values: Any) -> Mapping[str, CustomValue]:
    if not isinstance(values, Mapping):
        raise TypeError(f"values of UserDefinedInfo must be a dict, not {values!r}")
    for key in values:
        if not isinstance(key, str):
            raise TypeError(f"keys of UserDefinedInfo must be str, not {key!r}")
    return {utf8_text(key): _checked_entry(key, value) for key, value in values.items()}


def _checked_entry(key: str, value: Any) -> CustomValue:
    if isinstance(value, Mapping):
        return _checked(value)
    if isinstance(value, int):  # a bool too
        if value.bit_length() > _MAX_INT_BITS:
            limit = f"an int of at most {_MAX_INT_BITS} bits"
            raise ValueError(
                f"{key} of UserDefinedInfo must be {limit}, got {value.bit_length()} bits"
            )
        return int(value)
    if isinstance(value, float):
        return value
    if isinstance(value, str):
        return utf8_text(value)
    raise TypeError(
        f"{key} of UserDefinedInfo must be int, float, str or a mapping of these, not {value!r}"
    )


ParameterValue: TypeAlias = "bool | int | float | str | tuple[str, ...]"


@dataclass(frozen=True, slots=True)
class Operation:
    """A transform in a ``Map`` stage of a data pipeline, or a sampler.

    Attributes:
        parameter: name -> bool, int (32 bits), float, str or tuple of str.
        size: ints shown under ``size``.
        weights: floats shown under ``weights``.
    """

    parameter: Mapping[str, ParameterValue] = field(default_factory=dict)
    size: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class DatasetGraph:
    """A stage of a data pipeline; its children are the stages before it.

    The root is the last stage, and its children lead to the source.

    Attributes:
        parameter: name -> bool, int (32 bits), float, str or tuple of str; MindInsight's pages
            require ``op_type``.
        operations: transforms of a ``MapDataset`` stage.
        sampler: the sampler of a source, or ``None``.
        children: the stages before this stage.
    """

    parameter: Mapping[str, ParameterValue] = field(default_factory=dict)
    operations: tuple[Operation, ...] = ()
    sampler: Operation | None = None
    children: tuple[DatasetGraph, ...] = ()
