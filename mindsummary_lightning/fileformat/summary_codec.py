"""Encode and decode summary events, the records of a summary file.

Encoders precede their decoders. A table lists both for every kind of value.

Encoders return a payload in chunks, so that a large tensor or image reaches the file without being
copied.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from mindsummary_lightning.fileformat._proto import anf_ir_pb2, summary_pb2
from mindsummary_lightning.fileformat.event_outline import outline_event
from mindsummary_lightning.fileformat.framing import Buffer, total_length
from mindsummary_lightning.fileformat.graph_codec import decode_graph, encode_graph, parsed
from mindsummary_lightning.fileformat.scalar_codec import encode_scalars, event_head
from mindsummary_lightning.fileformat.wire import length_delimited, text, varint
from mindsummary_lightning.values import (
    DataType,
    Event,
    Graph,
    Histogram,
    Image,
    LandscapeMetadata,
    LossLandscape,
    Points,
    SummaryValue,
    Tensor,
)

_Pairs: TypeAlias = Sequence[tuple[str, SummaryValue]]

VERSION = "MindSpore.Event:1"

# Field numbers of summary.proto.
_EVENT_VERSION, _EVENT_GRAPH, _EVENT_SUMMARY = 3, 4, 5
_SUMMARY_VALUE, _VALUE_TAG = 1, 1
_IMAGE, _TENSOR, _HISTOGRAM, _LANDSCAPE = 4, 8, 9, 10

_DIMS, _DATA_TYPE, _FLOAT_DATA = 1, 2, 3
_LITTLE_FLOAT32 = np.dtype("<f4")
# ours first
_TENSOR_FIELDS = ("float_data", "double_data", "int64_data", "int32_data", "uint64_data")
_OPTIONAL_OF_HISTOGRAM = ("nan_count", "pos_inf_count", "neg_inf_count", "min", "max", "sum")


def encode_event(event: Event) -> list[Buffer]:
    """Encode a summary event as the payload of a record, in chunks.

    Raises:
        TypeError: an event cannot contain ``event.what``.
    """
    what = event.what
    if isinstance(what, tuple):
        return _encode_values(event.wall_time, event.step, what)
    head = event_head(event.wall_time, event.step)
    if isinstance(what, str):
        return [head + _text(_EVENT_VERSION, what)]
    if isinstance(what, Graph):
        body = encode_graph(what)
        return [head + length_delimited(_EVENT_GRAPH, len(body)), body]
    raise TypeError(f"event.what must be a version, a graph or (tag, value) pairs, not {what!r}")


def encode_step(wall_time: float, step: int, pairs: _Pairs) -> list[list[Buffer]]:
    """Encode the values of a step as the payloads of events.

    Scalars, images and histograms share a payload; a tensor or landscape has its own.

    A viewer with NumPy 2 drops every event that contains a tensor or a landscape, so these values
    get separate events.
    """
    try:
        scalars = encode_scalars(pairs)  # type: ignore[arg-type]  # few steps hold anything else
        return [
            [event_head(wall_time, step) + length_delimited(_EVENT_SUMMARY, len(scalars)) + scalars]
        ]
    except struct.error:
        alone = [[pair] for pair in pairs if isinstance(pair[1], (Tensor, LossLandscape))]
        together = [pair for pair in pairs if not isinstance(pair[1], (Tensor, LossLandscape))]
        return [_encode_values(wall_time, step, event) for event in [together, *alone] if event]


def _encode_values(wall_time: float, step: int, pairs: _Pairs) -> list[Buffer]:
    chunks = [chunk for tag, value in pairs for chunk in _encode_value(tag, value)]
    return [
        event_head(wall_time, step) + length_delimited(_EVENT_SUMMARY, total_length(chunks)),
        *chunks,
    ]


def _encode_value(tag: str, value: SummaryValue) -> list[Buffer]:
    if isinstance(value, float):
        return [encode_scalars([(tag, value)])]
    field, encode = _ENCODERS[type(value)]
    body = encode(value)
    length = total_length(body)
    head = _text(_VALUE_TAG, tag) + length_delimited(field, length)
    return [length_delimited(_SUMMARY_VALUE, len(head) + length) + head, *body]


def decode_event(payload: bytes) -> Event:
    """Decode the payload of a record of a summary file.

    ``what`` of the event is ``None`` for a kind that this package does not know.

    Raises:
        ValueError: the payload is not an event, or a value in it is inconsistent.
    """
    message = parsed(summary_pb2.Event, payload, "summary event")
    kind = message.WhichOneof("what")
    what: Any = None
    if kind == "summary":
        what = tuple(
            pair for pair in map(_decoded_value, message.summary.value) if pair is not None
        )
    elif kind == "version":
        what = text(message.version)
    elif kind == "graph_def":
        what = decode_graph(message.graph_def)
    return Event(message.wall_time, message.step, what)


def checked_event(payload: bytes) -> Event:
    """Decode an event after a check that ``outline_event`` can read it too.

    Some readers outline events and others decode them; a payload on which either fails is damaged.

    Raises the errors of :func:`decode_event`.
    """
    outline_event(payload)
    return decode_event(payload)


def decode_value(message: bytes) -> SummaryValue:
    """Decode the bytes of a single value of an event.

    Raises:
        ValueError: the bytes are not a value of a known kind, or the value is inconsistent.
    """
    pair = _decoded_value(parsed(summary_pb2.Summary.Value, message, "summary value"))
    if pair is None:
        raise ValueError(
            f"the message of {len(message)} bytes holds no summary value of a known kind"
        )
    return pair[1]


def _decoded_value(message: summary_pb2.Summary.Value) -> tuple[str, SummaryValue] | None:
    """Return tag and value of a message; ``None`` if its kind is unknown."""
    field = message.WhichOneof("value")
    if field in _DECODERS:
        return (text(message.tag), _DECODERS[field](getattr(message, field)))
    return None


def _text(field: int, text: str) -> bytes:
    encoded = text.encode()
    return length_delimited(field, len(encoded)) + encoded


def _encode_image(image: Image) -> list[Buffer]:
    head = b"".join(
        varint(field << 3) + varint(number)
        for field, number in enumerate((image.height, image.width, image.colorspace), start=1)
    )
    return [head + length_delimited(4, len(image.encoded)), image.encoded]


def _decode_image(message: summary_pb2.Summary.Image) -> Image:
    return Image(message.height, message.width, message.encoded_image, message.colorspace)


def _encode_tensor(tensor: Tensor) -> list[Buffer]:
    """Encode a tensor as a ``TensorProto``, in chunks.

    The elements are float32 whatever their dtype was, because MindInsight ignores other fields.

    They are a view of the tensor's memory, not a copy.
    """
    head = b"".join(varint(_DIMS << 3) + varint(length) for length in tensor.data.shape)
    head += varint(_DATA_TYPE << 3) + varint(tensor.data_type)
    if not tensor.data.size:
        return [head]
    elements = tensor.data.astype(_LITTLE_FLOAT32, copy=False).reshape(-1).view(np.uint8).data
    return [head + length_delimited(_FLOAT_DATA, len(elements)), elements]


def _decode_tensor(message: anf_ir_pb2.TensorProto) -> Tensor:
    elements = np.empty(0, np.float32)
    for field in _TENSOR_FIELDS:
        stored = getattr(message, field)
        if len(stored):
            elements = np.array(stored, dtype=np.float32)
            break
    shape = tuple(message.dims)
    if int(np.prod(shape, dtype=object)) != elements.size:
        raise ValueError(f"a tensor of shape {shape} cannot have {elements.size} elements")
    return Tensor(elements.reshape(shape), DataType(message.data_type))


def _encode_histogram(histogram: Histogram) -> list[Buffer]:
    numbers = {name: getattr(histogram, name) for name in _OPTIONAL_OF_HISTOGRAM}
    message = summary_pb2.Summary.Histogram(count=histogram.count, **numbers)
    buckets = (histogram.lefts.tolist(), histogram.widths.tolist(), histogram.counts.tolist())
    for left, width, count in zip(*buckets, strict=True):
        message.buckets.add(left=left, width=width, count=count)
    return [message.SerializeToString()]


def _decode_histogram(message: summary_pb2.Summary.Histogram) -> Histogram:
    return Histogram(
        lefts=np.array([bucket.left for bucket in message.buckets], np.float64),
        widths=np.array([bucket.width for bucket in message.buckets], np.float64),
        counts=np.array([bucket.count for bucket in message.buckets], np.int64),
        count=message.count,
        **{
            name: getattr(message, name)
            for name in _OPTIONAL_OF_HISTOGRAM
            if message.HasField(name)
        },
    )


def _encode_landscape(landscape: LossLandscape) -> list[Buffer]:
    message = summary_pb2.LossLandscape()
    _fill_points(message.landscape, landscape.surface)
    if landscape.path is not None:
        message.loss_path.intervals.extend(landscape.intervals)
        _fill_points(message.loss_path.points, landscape.path)
    message.metadata.decomposition = landscape.metadata.decomposition
    message.metadata.unit = landscape.metadata.unit
    message.metadata.step_per_epoch = landscape.metadata.step_per_epoch
    if landscape.convergence_point is not None:
        x, y, z = landscape.convergence_point
        end = Points(np.array([x]), np.array([y]), np.array([z]))
        _fill_points(message.convergence_point, end)
    return [message.SerializeToString()]


def _fill_points(message: summary_pb2.LossLandscape.Point, points: Points) -> None:
    for axis in ("x", "y", "z"):
        getattr(message, axis).MergeFromString(
            b"".join(_encode_tensor(Tensor(getattr(points, axis))))
        )


def _decode_landscape(message: summary_pb2.LossLandscape) -> LossLandscape:
    intervals = tuple(message.loss_path.intervals)
    convergence: Any = None
    if message.HasField("convergence_point"):
        points = _points(message.convergence_point)
        # the first of each; nested lists of more dimensions
        if points.x.size and points.y.size and points.z.size:
            convergence = tuple(
                np.atleast_1d(axis)[0].tolist() for axis in (points.x, points.y, points.z)
            )
    metadata = message.metadata
    return LossLandscape(
        surface=_points(message.landscape),
        intervals=intervals,
        path=_points(message.loss_path.points) if intervals else None,
        convergence_point=convergence,
        metadata=LandscapeMetadata(
            text(metadata.decomposition), text(metadata.unit), metadata.step_per_epoch
        ),
    )


def _points(message: summary_pb2.LossLandscape.Point) -> Points:
    return Points(*(_decode_tensor(getattr(message, axis)).data for axis in ("x", "y", "z")))


_ENCODERS: dict[type, tuple[int, Callable[[Any], list[Buffer]]]] = {
    Image: (_IMAGE, _encode_image),
    Tensor: (_TENSOR, _encode_tensor),
    Histogram: (_HISTOGRAM, _encode_histogram),
    LossLandscape: (_LANDSCAPE, _encode_landscape),
}

_DECODERS: dict[str, Callable[[Any], SummaryValue]] = {
    "scalar_value": float,
    "image": _decode_image,
    "tensor": _decode_tensor,
    "histogram": _decode_histogram,
    "loss_landscape": _decode_landscape,
}
