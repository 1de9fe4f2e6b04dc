"""Encode and decode lineage events, the records of a lineage file.

Encoders precede their decoders. A table lists both for every kind of value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from google.protobuf.message import DecodeError

from mindsummary_lightning.fileformat._proto import lineage_pb2
from mindsummary_lightning.fileformat.wire import text, varint
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    LineageEvent,
    Operation,
    RunInfo,
    TrainInfo,
    UserDefinedInfo,
)
from mindsummary_lightning.values.lineage_info import (
    EXACT_MAX,
    INT32_MAX,
    INT32_MIN,
    CustomValue,
    ParameterValue,
)

_FILLER = varint(1001 << 3 | 2)  # the key of a field of bytes, of ours alone as ``run_info`` is
# a message's fields, each with its layout if it is one
_Layout: TypeAlias = "tuple[tuple[str, _Layout | None], ...]"


def encode_lineage_event(event: LineageEvent, filler: int = 0) -> bytes:
    """Encode a lineage event as the payload of a record.

    With ``filler``, the payload is at least this many bytes longer, in a field that no reader
    knows.

    Raises:
        TypeError: ``event.what`` is not a lineage value.
    """
    message = lineage_pb2.LineageEvent(wall_time=event.wall_time)
    try:
        field, fill, *_ = _KINDS[type(event.what)]
    except KeyError:
        raise TypeError(
            f"event.what must be a lineage value such as a TrainInfo, not {event.what!r}"
        ) from None
    part = getattr(message, field)
    part.SetInParent()
    fill(part, event.what)
    # maps in one order: equal lineage, equal bytes
    payload: bytes = message.SerializeToString(deterministic=True)
    if filler:
        size = max(0, filler - len(_FILLER) - 1)
        payload += _FILLER + varint(size) + bytes(size)
    return payload


def decode_lineage_event(payload: bytes) -> LineageEvent:
    """Decode the payload of a record of a lineage file.

    ``what`` of the event is ``None`` for a kind that this package does not know.

    Raises:
        ValueError: the payload is not a lineage event.
    """
    message = _parsed(payload)
    field = message.WhichOneof("what")
    decoder = _DECODERS.get(field)
    if decoder is None:
        return LineageEvent(message.wall_time, None)
    read, build = decoder
    return LineageEvent(message.wall_time, build(read(getattr(message, field))))


def decode_lineage_content(payload: bytes) -> tuple[str | None, Any]:
    """Decode a lineage event to its name in the file and a dict of its fields.

    For a data pipeline, the dict is replaced by a ``DatasetGraph``.

    No value is made of the fields and checked, because a lineage page of ten thousand runs decodes
    a million fields.

    Raises:
        ValueError: the payload is not a lineage event.
    """
    message = _parsed(payload)
    field = message.WhichOneof("what")
    decoder = _DECODERS.get(field)
    return field, None if decoder is None else decoder[0](getattr(message, field))


def _parsed(payload: bytes) -> Any:
    try:
        return lineage_pb2.LineageEvent.FromString(payload)
    except DecodeError as error:
        raise ValueError(
            f"payload of {len(payload)} bytes is not a lineage event: {error}"
        ) from error


# Of each attribute the sub-message, or "" for the message itself, and the field in it.
FIELDS: dict[type, dict[str, tuple[str, str]]] = {
    TrainInfo: {
        "optimizer": ("hyper_parameters", "optimizer"),
        "learning_rate": ("hyper_parameters", "learning_rate"),
        "loss_function": ("hyper_parameters", "loss_function"),
        "epoch": ("hyper_parameters", "epoch"),
        "parallel_mode": ("hyper_parameters", "parallel_mode"),
        "device_num": ("hyper_parameters", "device_num"),
        "batch_size": ("hyper_parameters", "batch_size"),
        "network": ("algorithm", "network"),
        "loss": ("algorithm", "loss"),
        "train_dataset_path": ("train_dataset", "train_dataset_path"),
        "train_dataset_size": ("train_dataset", "train_dataset_size"),
        "model_path": ("model", "path"),
        "model_size": ("model", "size"),
    },
    EvaluationInfo: {
        "metric": ("", "metric"),
        "valid_dataset_path": ("valid_dataset", "valid_dataset_path"),
        "valid_dataset_size": ("valid_dataset", "valid_dataset_size"),
    },
}


def _fill_fields(message: Any, value: TrainInfo | EvaluationInfo) -> None:
    for attribute, (part, field) in FIELDS[type(value)].items():
        content = getattr(value, attribute)
        if content is not None:
            setattr(getattr(message, part) if part else message, field, content)


def _layout(descriptor: Any) -> _Layout:
    """Return the names of a message's fields, in the order of their numbers.

    A field that is a message is given with its own fields.
    """
    fields = sorted(descriptor.fields, key=lambda field: field.number)
    return tuple(
        (field.name, field.message_type and _layout(field.message_type)) for field in fields
    )


def _nested(layout: _Layout, message: Any) -> dict[str, Any]:
    # Asked field by field: ListFields describes what it lists, which takes three times as long.
    is_set, nested = message.HasField, {}
    for name, inner in layout:
        value = getattr(message, name)
        if inner is None:
            if value or is_set(name):
                nested[name] = text(value)
        elif is_set(name):
            nested[name] = _nested(inner, value)
    return nested


def _from_nested(kind: type, nested: dict[str, Any]) -> Any:
    contents = {}
    for attribute, (part, field) in FIELDS[kind].items():
        contents[attribute] = (nested.get(part, {}) if part else nested).get(field)
    return kind(**contents)


def _fill_custom(message: lineage_pb2.UserDefinedInfo, value: UserDefinedInfo) -> None:
    _fill_entries(message, value.values)


def _fill_entries(message: lineage_pb2.UserDefinedInfo, values: Mapping[str, CustomValue]) -> None:
    # One element per key: the reader keeps a single key of an element that has several.
    for key, value in values.items():
        entry = message.user_info.add()
        if isinstance(value, Mapping):
            _fill_entries(entry.map_dict[key], value)
        elif isinstance(value, str):
            entry.map_str[key] = value
        elif isinstance(value, float):
            entry.map_double[key] = value
        elif INT32_MIN <= value <= INT32_MAX:
            entry.map_int32[key] = value
        else:
            _fill_int(entry, key, value)


def _fill_int(entry: lineage_pb2.UserDefinedInfo, key: str, value: int) -> None:
    """Store an int beyond 32 bits so that MindInsight can show it.

    It is stored as a float if the float is exact, else as text.
    """
    entry.is_int = True
    if abs(value) <= EXACT_MAX:
        entry.map_double[key] = value
    else:
        entry.map_str[key] = str(value)


def _entries(message: lineage_pb2.UserDefinedInfo) -> dict[str, CustomValue]:
    values: dict[str, CustomValue] = {}
    for entry in message.user_info:
        if entry.is_int:
            _add_ints(values, entry)
        else:
            _add_plain(values, entry.map_int32, entry.map_str, entry.map_double)
        parts = entry.map_dict
        for key in parts:
            values[text(key)] = _entries(parts[key])
    return values


def _add_ints(values: dict[str, CustomValue], entry: lineage_pb2.UserDefinedInfo) -> None:
    plain: dict[str, Any] = {}
    _add_plain(plain, entry.map_int32, entry.map_str, entry.map_double)
    for key, value in plain.items():
        try:
            values[key] = int(value)
        except (ValueError, OverflowError):  # another program's mark on what is no int
            values[key] = value


def _add_plain(values: dict[str, Any], *contents: Any) -> None:
    for content in contents:
        for key in content:
            values[text(key)] = text(content[key])


def _fill_dataset(message: lineage_pb2.DatasetGraph, value: DatasetGraph) -> None:
    _fill_parameter(message.parameter, value.parameter)
    for operation in value.operations:
        _fill_operation(message.operations.add(), operation)
    if value.sampler is not None:
        _fill_operation(message.sampler, value.sampler)
    for child in value.children:
        _fill_dataset(message.children.add(), child)


def _dataset(message: lineage_pb2.DatasetGraph) -> DatasetGraph:
    return DatasetGraph(
        parameter=_parameter(message.parameter),
        operations=tuple(_operation(operation) for operation in message.operations),
        sampler=_operation(message.sampler) if message.HasField("sampler") else None,
        children=tuple(_dataset(child) for child in message.children),
    )


def _fill_operation(message: lineage_pb2.Operation, value: Operation) -> None:
    message.SetInParent()
    _fill_parameter(message.operationParam, value.parameter)
    message.size.extend(value.size)
    message.weights.extend(value.weights)


def _operation(message: lineage_pb2.Operation) -> Operation:
    return Operation(
        _parameter(message.operationParam), tuple(message.size), tuple(message.weights)
    )


def _fill_parameter(
    message: lineage_pb2.OperationParameter, values: Mapping[str, ParameterValue]
) -> None:
    for key, value in values.items():
        if isinstance(value, bool):
            message.mapBool[key] = value
        elif isinstance(value, int):
            message.mapInt[key] = value
        elif isinstance(value, float):
            message.mapDouble[key] = value
        elif isinstance(value, str):
            message.mapStr[key] = value
        else:
            message.mapStrList[key].strValue.extend(value)


def _parameter(message: lineage_pb2.OperationParameter) -> dict[str, ParameterValue]:
    values: dict[str, ParameterValue] = {}
    _add_plain(values, message.mapStr, message.mapBool, message.mapInt, message.mapDouble)
    for key in message.mapStrList:
        values[text(key)] = tuple(map(text, message.mapStrList[key].strValue))
    return values


class _Kind(NamedTuple):
    field: str  # in the file
    fill: Callable[[Any, Any], None]
    read: Callable[[Any], Any]
    build: Callable[[Any], Any]  # the value, of what was read


_KINDS: dict[type, _Kind] = {
    TrainInfo: _Kind(
        "train_lineage",
        _fill_fields,
        partial(_nested, _layout(lineage_pb2.TrainLineage.DESCRIPTOR)),
        partial(_from_nested, TrainInfo),
    ),
    EvaluationInfo: _Kind(
        "evaluation_lineage",
        _fill_fields,
        partial(_nested, _layout(lineage_pb2.EvaluationLineage.DESCRIPTOR)),
        partial(_from_nested, EvaluationInfo),
    ),
    DatasetGraph: _Kind("dataset_graph", _fill_dataset, _dataset, lambda graph: graph),
    UserDefinedInfo: _Kind("user_defined_info", _fill_custom, _entries, UserDefinedInfo),
    RunInfo: _Kind("run_info", _fill_custom, _entries, RunInfo),
}
_DECODERS = {kind.field: (kind.read, kind.build) for kind in _KINDS.values()}
