"""Find the kind, tag and byte position of every value in a summary record.

No protobuf objects are created.

A reader that looks for one tag learns which bytes of which record it must decode. So a file full of
images takes one pass over its bytes and almost no memory. ``summary_codec`` decodes the value at
such a position.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_DOUBLE = struct.Struct("<d")
_FLOAT32 = struct.Struct("<f")
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_WALL_TIME, _STEP = 1, 2
_HOLDS = {3: "version", 4: "graph", 5: "values"}
_SUMMARY = 5
_KINDS = {3: "scalar", 4: "image", 8: "tensor", 9: "histogram", 10: "loss_landscape"}
_VALUE, _TAG, _SCALAR, _IMAGE = 1, 1, 3, 4
_VALUE_KEY = _TAG_KEY = 0x0A
_new = tuple.__new__  # half the time of a named tuple's own
_IMAGE_HEIGHT, _IMAGE_WIDTH = 1, 2
_MANY = 16  # histograms of an event that are located as columns


class ValueLocation(NamedTuple):
    """Kind, tag and byte position of a recorded value in the payload of its record.

    Attributes:
        tag: its tag, without MindInsight's plugin suffix.
        kind: scalar, image, tensor, histogram or loss_landscape.
        start: byte offset of the value's message in the payload.
        end: byte offset after the message.
        scalar: the value of a scalar; 0.0 for other kinds.
        width: columns of an image in pixels; 0 for other kinds.
        height: rows of an image in pixels; 0 for other kinds.
    """

    tag: str
    kind: str
    start: int
    end: int
    scalar: float = 0.0
    width: int = 0
    height: int = 0


class HistogramColumns(NamedTuple):
    """Tags and byte positions of an event's histograms, as NumPy arrays.

    An event gets these columns if it has 16 histograms or more.

    Attributes:
        tags: tags of the ``n`` histograms, in file order.
        starts: byte offsets of their messages in the payload; int64, shape ``(n,)``.
        ends: byte offsets after their messages; int64, shape ``(n,)``.
        places: indices of the histograms among the event's values; shape ``(n,)``.
        others: indices of the values of other kinds.
        heads: first bytes of every message, up to the length of the histogram, concatenated; uint8,
            shape ``(m,)``.
        sizes: number of these bytes for every message; shape ``(n,)``.
        offsets: position of every byte in its message; shape ``(m,)``.
    """

    tags: tuple[str, ...]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    places: NDArray[np.intp]
    others: tuple[int, ...]
    heads: NDArray[np.uint8]
    sizes: NDArray[np.intp]
    offsets: NDArray[np.intp]


class EventOutline(NamedTuple):
    """Time and step of an event, and the positions of its values.

    Attributes:
        wall_time: Unix time in seconds.
        step: the step of the event's values.
        holds: ``version``, ``graph``, ``values``, or ``None`` for a kind that this package does not
            know.
        values: positions of the values, in file order; values of unknown kinds are skipped.
        histograms: the event's histograms if there are many; then they are not in ``values``.
    """

    wall_time: float
    step: int
    holds: str | None
    values: tuple[ValueLocation, ...]
    histograms: HistogramColumns | None = None

    @property
    def tags(self) -> list[tuple[str, str]]:
        """Return the kind and tag of every value in the event."""
        many = self.histograms.tags if self.histograms else ()
        return [(value.kind, value.tag) for value in self.values] + [
            ("histogram", tag) for tag in many
        ]


def outline_event(payload: bytes, like: EventOutline | None = None) -> EventOutline:
    """Return the time, step and value positions of an encoded event.

    The function is quicker if the event has the same tags as ``like``, the outline of an earlier
    event.

    Raises:
        ValueError: the bytes are not an event.
    """
    wall_time, step, holds, histograms = 0.0, 0, None, None
    values: list[ValueLocation] = []
    try:
        for field, wire, number, start, end in _fields(payload, 0, len(payload)):
            if field == _STEP and wire == _VARINT:
                step = number - ((number >> 63) << 64)  # two's complement
            elif field == _WALL_TIME and wire == _FIXED64:
                (wall_time,) = _DOUBLE.unpack_from(payload, start)
            elif field in _HOLDS and wire == _DELIMITED:
                # a oneof: the field that comes last is the one that counts
                if holds != _HOLDS[field]:
                    values.clear()
                holds = _HOLDS[field]
                if field == _SUMMARY:
                    histograms = _outline_summary(payload, start, end, values, like)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise ValueError(
            f"payload of {len(payload)} bytes is not a summary event: {error}"
        ) from error
    return EventOutline(wall_time, step, holds, tuple(values), histograms)


def _outline_summary(
    payload: bytes, at: int, end: int, values: list[ValueLocation], like: EventOutline | None
) -> HistogramColumns | None:
    """Find the values of a summary; reuse known histograms if the tags are equal."""
    if values or end != len(payload):
        _outline_values(payload, at, end, values)
        return None
    if like is not None and like.histograms is not None:
        histograms = _like(like.histograms, payload, at, end, values)
        if histograms is not None:
            return histograms
    _outline_values(payload, at, end, values)
    return _together(payload, at, end, values)


def _together(
    payload: bytes, at: int, end: int, values: list[ValueLocation]
) -> HistogramColumns | None:
    """Move the histograms of a summary from ``values`` into arrays.

    The result is ``None`` if there are few histograms, or if a histogram does not begin with its
    tag and key.
    """
    places = [place for place, value in enumerate(values) if value.kind == "histogram"]
    if len(places) < _MANY or len(_bounds(payload, at, end)) != len(values) + 1:
        return None
    histograms = [values[place] for place in places]
    heads = [payload[one.start : one.start + 3 + payload[one.start + 1]] for one in histograms]
    if any(
        _known_head(head) != (one.tag, one.kind)
        for head, one in zip(heads, histograms, strict=True)
    ):
        return None
    tags, _, starts, ends, *_ = zip(*histograms, strict=True)
    others = tuple(place for place, value in enumerate(values) if value.kind != "histogram")
    values[:] = [values[place] for place in others]
    sizes = [*map(len, heads)]
    numbers = (
        np.array(starts),
        np.array(ends),
        np.array(places),
        others,
        np.frombuffer(b"".join(heads), np.uint8),
    )
    return HistogramColumns(
        tags, *numbers, np.array(sizes), np.concatenate([*map(np.arange, sizes)])
    )


def _like(
    known: HistogramColumns, payload: bytes, at: int, end: int, values: list[ValueLocation]
) -> HistogramColumns | None:
    """Return a summary's histograms if they have the tags of known histograms.

    They must also have the same places among the values. The other values are appended to
    ``values``. The result is ``None`` if the summary differs.
    """
    try:
        bounds = _bounds(payload, at, end)
        buffer, all_bounds = np.frombuffer(payload, np.uint8), np.array(bounds)
        keys, ends = all_bounds[known.places], all_bounds[known.places + 1]
        starts = keys + 2 + (buffer[keys + 1] > 127)
        lengths = starts + known.sizes
        low, high = buffer[lengths].astype(np.int64), buffer[lengths + 1].astype(np.int64)
        heads = buffer[np.repeat(starts, known.sizes) + known.offsets]
    except IndexError:
        return None
    is_long = low > 127
    stops = lengths + 1 + is_long + low + is_long * ((high << 7) - 128)
    # as of a histogram of more than 16 kB
    is_other = (buffer[keys] != _VALUE_KEY) | (stops != ends)
    if len(bounds) != len(known.places) + len(known.others) + 1 or bounds[-1] != end:
        return None
    if is_other.any() or (heads != known.heads).any():
        return None
    for place in known.others:
        _outline_values(payload, bounds[place], bounds[place + 1], values)
    return known._replace(starts=starts, ends=ends)


def _bounds(payload: bytes, at: int, end: int) -> list[int]:
    """Return the byte offsets at which values begin, and the end of the last value.

    The summary must contain only values.
    """
    bounds = [at]
    while at < end:
        length = payload[at + 1]
        if length < 128:
            at += length + 2
        elif (high := payload[at + 2]) < 128:
            at += (high << 7) + length - 125
        else:
            length, at = _varint(payload, at + 1)
            at += length
        bounds.append(at)
    return bounds


# A run has a hundred million values: nothing is called for what can be written out.
def _outline_values(  # noqa: C901  # complexipy: ignore
    payload: bytes, at: int, end: int, values: list[ValueLocation]
) -> None:
    """Append the byte positions of a summary's values to the list ``values``.

    Every known writer encodes a value as its tag followed by its content.
    """
    while at < end:
        if payload[at] == _VALUE_KEY:
            length, start = payload[at + 1], at + 2
            if length > 127:
                high, start = payload[at + 2], at + 3
                length, start = (
                    ((high << 7) + length - 128, start) if high < 128 else _varint(payload, at + 1)
                )
            stop = start + length
            begin = start + 3 + payload[start + 1] if stop <= end and length > 3 else stop
            known = _known_head(payload[start:begin]) if begin < stop <= end else None
            if known is not None:
                tag, kind = known
                if kind == "scalar":
                    if begin + 4 == stop:
                        values.append(
                            _new(
                                ValueLocation,
                                (
                                    tag,
                                    kind,
                                    start,
                                    stop,
                                    *_FLOAT32.unpack_from(payload, begin),
                                    0,
                                    0,
                                ),
                            )
                        )
                        at = stop
                        continue
                else:
                    length, high = payload[begin], payload[begin + 1]
                    if length < 128:
                        begin += 1
                    elif high < 128:
                        length, begin = (high << 7) + length - 128, begin + 2
                    else:
                        length, begin = _varint(payload, begin)
                    if begin + length == stop:
                        if kind == "image":
                            size = _image_size(payload, begin, stop)
                            values.append(_new(ValueLocation, (tag, kind, start, stop, 0.0, *size)))
                        else:
                            values.append(_new(ValueLocation, (tag, kind, start, stop, 0.0, 0, 0)))
                        at = stop
                        continue
        field, wire, _, begin, at = next(_fields(payload, at, end))
        if field == _VALUE and wire == _DELIMITED:
            location = _location(payload, begin, at)
            if location is not None:
                values.append(location)


@lru_cache(maxsize=1 << 14)  # a run has as many as tags
def _known_head(head: bytes) -> tuple[str, str] | None:
    """Return the tag and kind of a value that begins with its tag.

    The key of its content must follow; otherwise the result is ``None``.
    """
    kind = _KINDS.get(head[-1] >> 3) if head[0] == _TAG_KEY and head[1] < 128 else None
    if kind is None or head[-1] & 7 != (_FIXED32 if kind == "scalar" else _DELIMITED):
        return None
    return head[2:-1].decode(), kind


def _location(payload: bytes, start: int, end: int) -> ValueLocation | None:
    tag, kind, scalar, width, height = "", None, 0.0, 0, 0
    for field, wire, _, begin, stop in _fields(payload, start, end):
        if field == _TAG and wire == _DELIMITED:
            tag = payload[begin:stop].decode()
        elif field in _KINDS and wire == (_FIXED32 if field == _SCALAR else _DELIMITED):
            kind = _KINDS[field]
            if field == _SCALAR:
                (scalar,) = _FLOAT32.unpack_from(payload, begin)
            elif field == _IMAGE:
                width, height = _image_size(payload, begin, stop)
    if kind is None:
        return None
    return ValueLocation(tag, kind, start, end, scalar, width, height)


def _image_size(payload: bytes, start: int, end: int) -> tuple[int, int]:
    sizes = {_IMAGE_HEIGHT: 0, _IMAGE_WIDTH: 0}
    for field, wire, number, _, _ in _fields(payload, start, end):
        if field in sizes and wire == _VARINT:
            sizes[field] = number & 0x7FFFFFFF  # an int32; no writer leaves a negative one
    return sizes[_IMAGE_WIDTH], sizes[_IMAGE_HEIGHT]


def _fields(payload: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield the fields of an encoded protobuf message.

    A field is given as number, wire type, value of a varint (else 0), start and end.
    """
    while at < end:
        key, at = _varint(payload, at)
        wire, number, start = key & 7, 0, at
        if wire == _VARINT:
            number, at = _varint(payload, at)
        elif wire == _DELIMITED:
            length, start = _varint(payload, at)
            at = start + length
        elif wire in (_FIXED64, _FIXED32):
            at += 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(
                f"payload of {len(payload)} bytes is not a summary event: "
                f"the wire type {wire} at byte {at} is unknown"
            )
        if at > end or not key >> 3:
            raise ValueError(
                f"payload of {len(payload)} bytes is not a summary event: "
                f"the field {key >> 3} would end at byte {at}, but its message ends at byte {end}"
            )
        yield key >> 3, wire, number, start, at


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    low = payload[at]
    if low < 128:
        return low, at + 1
    high = payload[at + 1]
    if high < 128:
        return (high << 7) + low - 128, at + 2
    number = shift = 0
    while True:
        byte = payload[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            raise ValueError(
                f"payload of {len(payload)} bytes is not a summary event: "
                f"the varint that ends before byte {at} is too long"
            )
