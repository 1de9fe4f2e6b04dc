"""Events as JSON values: text, numbers, lists and objects."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

import numpy as np

from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    Event,
    Histogram,
    Image,
    LineageEvent,
    RunInfo,
    SummaryValue,
    Tensor,
    TrainInfo,
    UserDefinedInfo,
    kind_of,
)
from mindsummary_lightning.values.text import finite_or_named, shortest_float32

# The format's names of the lineage messages.
_LINEAGE_NAMES = {
    TrainInfo: "TrainLineage",
    EvaluationInfo: "EvaluationLineage",
    DatasetGraph: "DatasetGraph",
    UserDefinedInfo: "UserDefinedInfo",
    RunInfo: "RunInfo",
}
_MAX_ELEMENTS = 1000  # of a tensor; a line should stay readable


def plain_event(event: Event | LineageEvent) -> dict[str, Any]:
    """An event as a JSON object; numbers that are not finite become their names."""
    if isinstance(event, LineageEvent):
        name = _LINEAGE_NAMES[type(event.what)] if event.what is not None else "unknown"
        return {"wall_time": plain(event.wall_time), name: plain(event.what)}
    line = {"wall_time": plain(event.wall_time), "step": event.step}
    if isinstance(event.what, str):
        return {**line, "version": event.what}
    if isinstance(event.what, tuple):
        values = [
            {"tag": tag, "kind": kind_of(value), "value": _plain_value(value)}
            for tag, value in event.what
        ]
        return {**line, "values": values}
    return (
        {**line, "graph": plain(event.what)}
        if event.what is not None
        else {**line, "unknown": None}
    )


def _plain_value(value: SummaryValue) -> Any:
    return plain(shortest_float32(value) if isinstance(value, float) else value)


def train_fields(train: TrainInfo) -> dict[str, Any]:
    """What is known of a training job by field, with the digits of the numbers that are float32 in the file."""
    known = {field.name: getattr(train, field.name) for field in dataclasses.fields(train)}
    digits = {
        name: shortest_float32(known[name])
        for name in ("learning_rate", "loss")
        if known[name] is not None
    }
    return {name: part for name, part in {**known, **digits}.items() if part is not None}


def plain(value: Any) -> Any:
    """A value of ``mindsummary_lightning.values`` as a JSON value.

    Images are described, not printed; of a tensor of more than 1,000 elements only shape and type
    are kept.
    """
    if isinstance(value, float):
        return finite_or_named(value)
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (np.ndarray, np.generic)):
        elements = (
            map(shortest_float32, value.ravel().tolist())
            if value.dtype == np.float32
            else value.ravel().tolist()
        )
        return plain(np.array(list(elements), object).reshape(value.shape).tolist())
    if isinstance(value, TrainInfo):
        return {name: plain(part) for name, part in train_fields(value).items()}
    if isinstance(value, Image):
        size = {"height": value.height, "width": value.width, "colorspace": value.colorspace}
        return {**size, "encoded_bytes": len(value.encoded)}
    if isinstance(value, Tensor):
        head = {"dims": list(value.data.shape), "data_type": value.data_type.name}
        return (
            {**head, "data": plain(value.data.reshape(-1))}
            if value.data.size <= _MAX_ELEMENTS
            else head
        )
    if isinstance(value, Histogram):
        rest = {
            field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)[3:]
        }
        buckets = zip(
            value.lefts.tolist(), value.widths.tolist(), value.counts.tolist(), strict=True
        )
        return {"buckets": [plain(list(bucket)) for bucket in buckets], **rest}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {name: plain(part) for name, part in fields if part is not None}
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value
