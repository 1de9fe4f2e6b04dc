"""Column decoder of a step's scalars and histograms' statistics: a million in about a second, without buckets.

Strategy: a run records the same tags on every collected step, so the values of many events are walked side by side, one
tag at a time, with an array of offsets, one per event. The statistics stand behind the buckets, at fixed distances from
a histogram's end. What is not encoded exactly as this package and MindSpore do it goes through the general decoder.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.fileformat.event_outline import outline_event
from mindsummary_lightning.fileformat.summary_codec import decode_value
from mindsummary_lightning.values import Histogram

_WALL_TIME_KEY, _STEP_KEY, _SUMMARY_KEY, _VALUE_KEY = 0x09, 0x10, 0x2A, 0x0A
_SCALAR_KEY = 0x1D
_MAX_VARINT = 10  # bytes
_MAX_LENGTH = 4  # bytes of the varint of a length: 256 MB
_DOUBLE = struct.Struct("<d")
# Before the varint of the last field: no NaN, no infinity, then maximum, minimum, sum and the key of the count.
_TAIL = 34
_NO_NONFINITE = np.frombuffer(b"\x10\x00\x18\x00\x20\x00", np.uint8)
_KEYS = {6: 0x29, 15: 0x31, 24: 0x39, 33: 0x40}
_MAXIMUM, _MINIMUM, _SUM = slice(7, 15), slice(16, 24), slice(25, 33)
_FIELDS = ("min", "max", "sum")
_COUNTS = ("count", "nan_count", "pos_inf_count", "neg_inf_count")


_NUMBER_KINDS = ("scalar", "histogram")

_Located: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]"


class HistogramColumns(NamedTuple):
    """Histograms and scalars of events with the same tags, as columns.

    Attributes:
        rows: index of each event among the payloads, int64, shape ``(n,)``, ascending.
        steps: int64, shape ``(n,)``.
        wall_times: seconds since the epoch, float64, shape ``(n,)``.
        scalar_tags: tags of the scalars, in file order.
        scalars: float32, shape ``(len(scalar_tags), n)``.
        tags: tags of the histograms, in file order.
        numbers: minimum, maximum and sum of the finite elements, NaN without any; float64, shape
            ``(len(tags), n, 3)``.
        counts: of all elements, of NaN, +inf and -inf; int64, shape ``(len(tags), n, 4)``.
    """

    rows: NDArray[np.int64]
    steps: NDArray[np.int64]
    wall_times: NDArray[np.float64]
    scalar_tags: tuple[str, ...]
    scalars: NDArray[np.float32]
    tags: tuple[str, ...]
    numbers: NDArray[np.float64]
    counts: NDArray[np.int64]


def decode_histogram_events(payloads: Sequence[bytes]) -> list[HistogramColumns]:
    """Scalars and statistics of histograms in the payloads of a summary file.

    Raises:
        ValueError: a payload is not an event.
    """
    columns: list[HistogramColumns] = []
    heads = [_head(payload) for payload in payloads]
    wide = [row for row, head in enumerate(heads) if head is not None]
    single = [row for row, head in enumerate(heads) if head is None]
    buffer = np.frombuffer(b"".join(payloads), np.uint8)
    ends = np.cumsum(np.fromiter(map(len, payloads), np.int64, len(payloads)))
    while wide:
        template = _template(payloads[wide[0]])
        rows = np.array(wide, np.int64)
        starts = np.array([heads[row][1] for row in wide], np.int64)  # type: ignore[index]
        begins = ends[rows] - np.array([len(payloads[row]) for row in wide], np.int64)
        walked, scalars, located = _walk(buffer, begins + starts, ends[rows], template)
        if not walked.any():  # not even the event that the template was made of
            single.append(wide.pop(0))
            continue
        if len(scalars) or len(located):
            chosen = [heads[row] for row in rows[walked].tolist()]
            steps, wall_times = (np.array([head[index] for head in chosen]) for index in (0, 2))
            numbers, counts = _tails(buffer, located[:, walked].reshape(-1, 3))
            tags = {kind: tuple(value.tag for value in template if value.kind == kind) for kind in _NUMBER_KINDS}
            columns.append(
                HistogramColumns(
                    rows[walked],
                    steps,
                    wall_times,
                    tags["scalar"],
                    scalars[:, walked],
                    tags["histogram"],
                    numbers.reshape(len(located), steps.size, len(_FIELDS)),
                    counts.reshape(len(located), steps.size, len(_COUNTS)),
                )
            )
        wide = rows[~walked].tolist()
    for row in sorted(single):
        columns += _decoded(row, payloads[row])
    return columns


class _TemplateValue(NamedTuple):
    """What all events that are walked side by side have in common: a value's kind, its tag and the key of its field."""

    kind: str
    tag: str
    tag_field: NDArray[np.uint8]
    key: int


def _template(payload: bytes) -> list[_TemplateValue]:
    template = []
    for value in outline_event(payload).values:
        tag_field = _tag_field(value.tag)
        key = payload[value.start + tag_field.size : value.end][:1]  # none if only a tag is there
        template.append(_TemplateValue(value.kind, value.tag, tag_field, key[0] if key else 0))
    return template


def _head(payload: bytes) -> tuple[int, int, float] | None:
    """Step of an event that holds nothing but values, the offset of the first of them, and its wall time."""
    if len(payload) < 12 or payload[0] != _WALL_TIME_KEY or payload[9] != _STEP_KEY:
        return None
    step, at = _varint(payload, 10)
    if payload[at : at + 1] != bytes((_SUMMARY_KEY,)):
        return None
    length, at = _varint(payload, at + 1)
    if at + length != len(payload):
        return None
    (wall_time,) = _DOUBLE.unpack_from(payload, 1)
    return step - (1 << 64) if step >= 1 << 63 else step, at, wall_time


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    number = 0
    for index, byte in enumerate(payload[at : at + _MAX_VARINT]):
        number |= (byte & 127) << 7 * index
        if byte < 128:
            return number, at + index + 1
    return 0, len(payload)  # no varint; the caller finds no key behind it


def _walk(
    buffer: NDArray[np.uint8], at: NDArray[np.int64], ends: NDArray[np.int64], template: list[_TemplateValue]
) -> tuple[NDArray[np.bool_], NDArray[np.float32], NDArray[np.int64]]:
    """Walk events side by side.

    Returns:
        Which of them hold exactly the template's values, shape ``(n,)``; their scalars, shape ``(scalars, n)``; start
        of the value, start and end of each histogram, shape ``(histograms, n, 3)``.
    """
    kinds = [value.kind for value in template]
    walked = np.zeros(at.size, np.bool_)
    scalars = np.zeros((kinds.count("scalar"), at.size), np.float32)
    located = np.zeros((kinds.count("histogram"), at.size, 3), np.int64)
    alive = np.arange(at.size)
    number = {"scalar": 0, "histogram": 0}
    for kind, _, tag_field, key in template:
        if kind == "scalar":
            body, stop, same = _values(buffer, at, tag_field)
            same &= (stop <= ends) & (stop - body == tag_field.size + 5) & (buffer[stop * same - 5] == _SCALAR_KEY)
            words = np.ascontiguousarray(buffer[(stop * same)[:, None] + np.arange(-4, 0)])
            scalars[number[kind], alive] = words.view("<f4")[:, 0]
            number[kind] += 1
        else:
            body, begin, stop, same = _messages_alike(buffer, at, tag_field, key)
            if not same.all():
                body, begin, stop, same = _messages(buffer, at, tag_field, key)
            same &= stop <= ends
            if kind == "histogram":
                located[number[kind], alive] = np.stack([body, begin, stop], axis=1)
                number[kind] += 1
        if not same.all():
            ends, alive, stop = ends[same], alive[same], stop[same]
        at = stop
    walked[alive[at == ends]] = True
    return walked, scalars, located


def _messages_alike(
    buffer: NDArray[np.uint8], at: NDArray[np.int64], tag_field: NDArray[np.uint8], key: int
) -> _Located:
    """As :func:`_messages`, for values whose lengths all take as many bytes as those of the first: one comparison."""
    first = buffer[at[0] : at[0] + 2 * _MAX_LENGTH + tag_field.size + 2].tobytes() if at.size else b""
    outer = 1 + next((index for index, byte in enumerate(first[1 : 1 + _MAX_LENGTH], 1) if byte < 128), 0)
    middle = outer + tag_field.size
    rest = first[middle + 1 : middle + 1 + _MAX_LENGTH]
    inner = 1 + next((index for index, byte in enumerate(rest, 1) if byte < 128), 0)
    wanted = np.full(middle + inner, 128, np.uint8)
    mask = wanted.copy()
    wanted[[outer - 1, -1]] = 0  # the last byte of a varint
    for column, byte in ((0, _VALUE_KEY), (middle, key)):
        wanted[column], mask[column] = byte, 255
    wanted[outer:middle], mask[outer:middle] = tag_field, 255
    window = buffer[np.minimum(at[:, None] + np.arange(wanted.size), buffer.size - 1)]
    same = ((window & mask) == wanted).all(axis=1)
    body, begin = at + outer, at + wanted.size
    stop = body + _varints(window[:, 1:outer])
    same &= begin + _varints(window[:, middle + 1 :]) == stop
    return body, begin, stop, same


def _varints(digits: NDArray[np.uint8]) -> NDArray[np.int64]:
    numbers = digits[:, 0].astype(np.int64) & 127
    for index in range(1, digits.shape[1]):
        numbers |= (digits[:, index].astype(np.int64) & 127) << 7 * index
    return numbers


def _messages(buffer: NDArray[np.uint8], at: NDArray[np.int64], tag_field: NDArray[np.uint8], key: int) -> _Located:
    """Start of the value, start and end of its message, and where there is one of this tag and key, and no more."""
    body, stop, same = _values(buffer, at, tag_field)
    length, begin, has_key = _message(buffer, body + tag_field.size, key)
    return body, begin, stop, same & has_key & (begin + length == stop)


def _values(
    buffer: NDArray[np.uint8], at: NDArray[np.int64], tag_field: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Start and end of the value at the offsets, and where there is one of this tag."""
    length, body, same = _message(buffer, at, _VALUE_KEY)
    tags = buffer[np.minimum(body[:, None] + np.arange(tag_field.size), buffer.size - 1)]
    return body, body + length, same & (length >= tag_field.size) & (tags == tag_field).all(axis=1)


def _message(
    buffer: NDArray[np.uint8], at: NDArray[np.int64], key: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Lengths and starts of the messages at the offsets, and which of them are of a field of less than 256 MB."""
    head = buffer[np.minimum(at[:, None] + np.arange(1 + _MAX_LENGTH), buffer.size - 1)].astype(np.int64)
    lengths, is_open = head[:, 1] & 127, head[:, 1] >= 128
    starts = at + 2
    for index in range(2, 1 + _MAX_LENGTH):
        lengths = lengths | np.where(is_open, (head[:, index] & 127) << 7 * (index - 1), 0)
        starts = starts + is_open
        is_open = is_open & (head[:, index] >= 128)
    return lengths, starts, (head[:, 0] == key) & ~is_open


def _tag_field(tag: str) -> NDArray[np.uint8]:
    text = tag.encode()
    length, digits = len(text), bytearray()
    while length >= 128:
        digits.append(length & 127 | 128)
        length >>= 7
    return np.frombuffer(b"\x0a" + bytes(digits) + bytes((length,)) + text, np.uint8)


def _tails(buffer: NDArray[np.uint8], located: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Numbers and counts of the histograms at ``located``, whose rows are as :func:`_walk` gives them."""
    values, begins, stops = located.T
    numbers = np.full((values.size, len(_FIELDS)), np.nan)
    counts = np.zeros((values.size, len(_COUNTS)), np.int64)
    count, is_open, at = np.zeros(values.size, np.int64), np.ones(values.size, np.bool_), stops - 1
    for _ in range(_MAX_VARINT):  # from the last byte, the most significant, back to the key
        count = np.where(is_open, count << 7 | buffer[at] & 127, count)
        at = at - is_open
        is_open &= buffer[at] >= 128
        if not is_open.any():
            break
    tails = at - (_TAIL - 1)
    windows = buffer[np.maximum(tails, 0)[:, None] + np.arange(_TAIL)]
    usual = ~is_open & (tails >= begins) & (windows[:, :6] == _NO_NONFINITE).all(axis=1)
    for column, key in _KEYS.items():
        usual &= windows[:, column] == key
    for index, part in enumerate((_MINIMUM, _MAXIMUM, _SUM)):
        numbers[:, index] = np.ascontiguousarray(windows[:, part]).view("<f8")[:, 0]
    counts[:, 0] = count
    for row in np.flatnonzero(~usual).tolist():
        value = decode_value(buffer[values[row] : stops[row]].tobytes())
        if isinstance(value, Histogram):
            numbers[row], counts[row] = _statistics(value)
    return numbers, counts


def _statistics(histogram: Histogram) -> tuple[list[float], list[int]]:
    numbers = (getattr(histogram, name) for name in _FIELDS)
    return [np.nan if number is None else number for number in numbers], [getattr(histogram, name) for name in _COUNTS]


def _decoded(row: int, payload: bytes) -> list[HistogramColumns]:
    """The columns of one event, by the general decoder."""
    outline = outline_event(payload)
    scalars = [value for value in outline.values if value.kind == "scalar"]
    located = [value for value in outline.values if value.kind == "histogram"]
    decoded = [decode_value(payload[value.start : value.end]) for value in located]
    statistics = [_statistics(value) for value in decoded if isinstance(value, Histogram)]
    if not scalars and not statistics:
        return []
    return [
        HistogramColumns(
            np.array([row]),
            np.array([outline.step]),
            np.array([outline.wall_time]),
            tuple(value.tag for value in scalars),
            np.array([[value.scalar] for value in scalars], np.float32).reshape(-1, 1),
            tuple(value.tag for value in located),
            np.array([numbers for numbers, _ in statistics], np.float64).reshape(-1, 1, len(_FIELDS)),
            np.array([counts for _, counts in statistics], np.int64).reshape(-1, 1, len(_COUNTS)),
        )
    ]
