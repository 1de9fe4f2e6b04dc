"""Convert events to JSON values: texts, numbers, lists and dicts."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
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
    """Convert an event to a dict for JSON; NaN and infinity become their names."""
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
    if event.what is not None:
        return {**line, "graph": plain(event.what)}
    return {**line, "unknown": None}


def _plain_value(value: SummaryValue) -> Any:
    return plain(shortest_float32(value) if isinstance(value, float) else value)


def train_fields(train: TrainInfo) -> dict[str, Any]:
    """Return the known fields of a training's lineage, by name.

    Numbers that are float32 in the file have the digits of a float32.
    """
    known: dict[str, Any] = {}
    for field in dataclasses.fields(train):
        value = getattr(train, field.name)
        if value is not None:
            is_float32 = field.name in ("learning_rate", "loss")
            known[field.name] = shortest_float32(value) if is_float32 else value
    return known


def plain(value: Any) -> Any:
    """Convert a value of ``mindsummary_lightning.values`` to a JSON value.

    Images are described and not printed. For a tensor of more than 1,000 elements, only shape and
    type are kept.
    """
    for kinds, convert in _CONVERSIONS:
        if isinstance(value, kinds):
            return convert(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain_fields(value)
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value


def _plain_array(array: np.ndarray[Any, Any] | np.generic) -> Any:
    """Convert an array to nested lists; float32 elements get the fewest digits."""
    elements = array.ravel().tolist()
    if array.dtype == np.float32:
        elements = list(map(shortest_float32, elements))
    return plain(np.array(elements, object).reshape(array.shape).tolist())


def _plain_histogram(histogram: Histogram) -> dict[str, Any]:
    lefts, widths = histogram.lefts.tolist(), histogram.widths.tolist()
    buckets = zip(lefts, widths, histogram.counts.tolist(), strict=True)
    shown: dict[str, Any] = {"buckets": [plain(list(bucket)) for bucket in buckets]}
    for field in dataclasses.fields(histogram)[3:]:  # after lefts, widths and counts
        shown[field.name] = plain(getattr(histogram, field.name))
    return shown


def _plain_fields(value: Any) -> dict[str, Any]:
    """Convert the fields of a dataclass that are not ``None``."""
    shown = {}
    for field in dataclasses.fields(value):
        part = getattr(value, field.name)
        if part is not None:
            shown[field.name] = plain(part)
    return shown


def _plain_image(image: Image) -> dict[str, int]:
    size = {"height": image.height, "width": image.width, "colorspace": image.colorspace}
    return {**size, "encoded_bytes": len(image.encoded)}


def _plain_tensor(tensor: Tensor) -> dict[str, Any]:
    shown = {"dims": list(tensor.data.shape), "data_type": tensor.data_type.name}
    if tensor.data.size <= _MAX_ELEMENTS:
        shown["data"] = plain(tensor.data.reshape(-1))
    return shown


def _plain_train(train: TrainInfo) -> dict[str, Any]:
    return {name: plain(part) for name, part in train_fields(train).items()}


# the first kinds that a value has count
_CONVERSIONS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (float, finite_or_named),
    (enum.Enum, lambda member: member.name),
    ((np.ndarray, np.generic), _plain_array),
    (TrainInfo, _plain_train),
    (Image, _plain_image),
    (Tensor, _plain_tensor),
    (Histogram, _plain_histogram),
)
