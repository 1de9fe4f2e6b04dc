"""TensorBoard event files, written message by message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
from tensorboard.util.tensor_util import make_tensor_proto

from mindsummary_lightning.fileformat.framing import frame

SECOND = 1600000000


def write_tb(directory: Path, *events: Event, second: int = SECOND) -> Path:
    """An event file of some events."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"events.out.tfevents.{second}.host"
    head = Event(wall_time=second, file_version="brain.Event:2")
    path.write_bytes(b"".join(b"".join(frame([event.SerializeToString()])) for event in (head, *events)))
    return path


def event(step: int, *values: Summary.Value, wall_time: float | None = None) -> Event:
    """An event of some values."""
    return Event(step=step, wall_time=SECOND + step if wall_time is None else wall_time, summary=Summary(value=values))


def tensor_value(tag: str, array: Any, plugin: str = "") -> Summary.Value:
    """A value as TensorFlow 2 writes it: everything is a tensor, the plugin says what it means."""
    value = Summary.Value(tag=tag, tensor=make_tensor_proto(array))
    value.metadata.plugin_data.plugin_name = plugin
    return value


def histogram_value(tag: str, limits: list[float], buckets: list[float], **fields: float) -> Summary.Value:
    """A histogram of the old style."""
    return Summary.Value(tag=tag, histo=HistogramProto(bucket_limit=limits, bucket=buckets, **fields))
