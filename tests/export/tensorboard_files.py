"""TensorBoard event files, written message by message."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.util.tensor_util import make_tensor_proto

from mindsummary_lightning.fileformat.framing import frame

SECOND = 1600000000


def write_tb(directory: Path, *events: Event, second: int = SECOND) -> Path:
    """An event file of some events."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"events.out.tfevents.{second}.host"
    head = Event(wall_time=second, file_version="brain.Event:2")
    path.write_bytes(
        b"".join(b"".join(frame([event.SerializeToString()])) for event in (head, *events))
    )
    return path


def event(step: int, *values: Summary.Value, wall_time: float | None = None) -> Event:
    """An event of some values."""
    return Event(
        step=step,
        wall_time=SECOND + step if wall_time is None else wall_time,
        summary=Summary(value=values),
    )


def tensor_value(tag: str, array: Any, plugin: str = "") -> Summary.Value:
    """A value as TensorFlow 2 writes it: everything is a tensor, the plugin says what it means."""
    value = Summary.Value(tag=tag, tensor=make_tensor_proto(array))
    value.metadata.plugin_data.plugin_name = plugin
    return value


def histogram_value(
    tag: str, limits: list[float], buckets: list[float], **fields: float
) -> Summary.Value:
    """A histogram of the old style."""
    return Summary.Value(
        tag=tag, histo=HistogramProto(bucket_limit=limits, bucket=buckets, **fields)
    )


def settings_value(values: Mapping[str, bool | float | str]) -> Summary.Value:
    """Hyper-parameters as ``add_hparams`` writes them."""
    content = HParamsPluginData()
    for name, value in values.items():
        kind = {bool: "bool_value", str: "string_value"}.get(type(value), "number_value")
        setattr(content.session_start_info.hparams[name], kind, value)
    message = Summary.Value(tag="_hparams_/session_start_info")
    message.metadata.plugin_data.plugin_name = "hparams"
    message.metadata.plugin_data.content = content.SerializeToString()
    return message
