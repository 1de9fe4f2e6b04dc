"""Column decoder of a step's scalars and histograms' statistics: a million in about a second, without buckets.

Strategy: a run records the same tags on every collected step, so the values of many events are walked side by side, one
tag at a time, with an array of offsets, one per event. The statistics stand behind the buckets, at fixed distances from
a histogram's end. What is not encoded exactly as this package and MindSpore do it goes through the general decoder.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.fileformat.event_outline import outline_event
from mindsummary_lightning.fileformat.summary_codec import decode_value
from mindsummary_lightning.fileformat.wire import length_delimited
from mindsummary_lightning.values import Histogram

_WALL_TIME_KEY, _STEP_KEY, _SUMMARY_KEY, _VALUE_KEY = 0x09, 0x10, 0x2A, 0x0A
_TAG = 1
_KEYS_OF = {"scalar": b"\x1d", "image": b"\x22", "tensor": b"\x42", "histogram": b"\x4a", "loss_landscape": b"\x52"}
_MAX_TEMPLATES = 8  # of neighbouring events; what is unlike them goes through the general decoder
_MAX_VARINT = 10  # bytes
_MAX_LENGTH = 4  # bytes of the varint of a length: 256 MB
_DOUBLE = struct.Struct("<d")
# Before the varint of the last field: no NaN, no infinity, then maximum, minimum, sum and the key of the count.
_TAIL = 34
_PADDING = _TAIL  # bytes behind the payloads, so that as many can be read at each of theirs
_NO_NONFINITE = np.frombuffer(b"\x10\x00\x18\x00\x20\x00", np.uint8)
_KEYS = {6: 0x29, 15: 0x31, 24: 0x39, 33: 0x40}
_MAXIMUM, _MINIMUM, _SUM = slice(7, 15), slice(16, 24), slice(25, 33)
_FIELDS = ("min", "max", "sum")
_COUNTS = ("count", "nan_count", "pos_inf_count", "neg_inf_count")


_NUMBER_KINDS = ("scalar", "histogram")


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


class HistogramEventDecoder:
    """Scalars and statistics of histograms in the payloads of a summary file, of many events at a time.

    Attributes:
        size: bytes of the payloads that wait.
    """

    def __init__(self) -> None:
        self.size: int = 0
        self._joined = bytearray()  # is used again and again: new memory would take as long as the decoding
        self._ends: list[int] = []
        self._heads: list[tuple[int, int, float] | None] = []
        self._templates: list[list[_TemplateValue]] = []  # of the last events, which those that follow are often like

    def add(self, payload: bytes) -> None:
        """Let a payload wait for :meth:`take`."""
        start, self.size = self.size, self.size + len(payload)
        if len(self._joined) < self.size + _PADDING:
            self._joined += bytes(self.size + _PADDING - len(self._joined))
        with memoryview(self._joined) as joined:  # a bytearray would copy twice
            joined[start : self.size] = payload
        self._ends.append(self.size)
        self._heads.append(_head(payload))

    def take(self) -> list[HistogramColumns]:
        """Decode the payloads that wait; rows count from the first of them.

        Raises:
            ValueError: a payload is not an event.
        """
        heads, ends, self._heads, self._ends = self._heads, np.array(self._ends, np.int64), [], []
        buffer, self.size = np.frombuffer(self._joined, np.uint8), 0  # behind the last end there are any bytes
        begins = np.concatenate([[0], ends[:-1]])
        columns: list[HistogramColumns] = []
        wide = np.array([row for row, head in enumerate(heads) if head is not None], np.int64)
        single = [row for row, head in enumerate(heads) if head is None]
        known, self._templates = self._templates, []
        while wide.size and len(self._templates) < _MAX_TEMPLATES:
            is_new = not known
            template = _template(buffer[begins[wide[0]] : ends[wide[0]]].tobytes()) if is_new else known.pop(0)
            starts = np.array([heads[row][1] for row in wide.tolist()], np.int64)
            walked, scalars, located = _walk(buffer, begins[wide] + starts, ends[wide], template)
            if not walked.any():
                if is_new:  # not even the event that the template was made of
                    single.append(int(wide[0]))
                    wide = wide[1:]
                continue
            self._templates.append(template)
            if len(scalars) or located.size:
                rows = wide[walked]
                steps, wall_times = (np.array([heads[row][index] for row in rows.tolist()]) for index in (0, 2))
                numbers, counts = _tails(buffer, *located[:, :, walked].reshape(3, -1))
                tags = (tuple(value.tag for value in template if value.kind == kind) for kind in _NUMBER_KINDS)
                shape = (-1, rows.size)
                columns.append(
                    HistogramColumns(
                        rows, steps, wall_times, next(tags), scalars[:, walked], next(tags),
                        numbers.reshape(*shape, len(_FIELDS)), counts.reshape(*shape, len(_COUNTS)),
                    )
                )  # fmt: skip
            wide = wide[~walked]
        for row in sorted([*single, *wide.tolist()]):
            columns += _decoded(row, buffer[begins[row] : ends[row]].tobytes())
        return columns


class _TemplateValue(NamedTuple):
    """What all events that are walked side by side have in common: a value's kind, its tag and the key behind it."""

    kind: str
    tag: str
    head: bytes


def _template(payload: bytes) -> list[_TemplateValue]:
    return [
        _TemplateValue(value.kind, value.tag, length_delimited(_TAG, len(tag)) + tag + _KEYS_OF[value.kind])
        for value in outline_event(payload).values
        for tag in [value.tag.encode()]
    ]


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
        of the value, start and end of each histogram, shape ``(3, histograms, n)``.
    """
    # First by the lengths alone, value by value; what stands there is then looked at for all values at once.
    begins, starts, stops = np.empty((3, len(template), at.size), np.int64)
    words = _windows_of(buffer, _MAX_LENGTH)
    for index in range(len(template)):
        begins[index] = at
        starts[index], lengths = _lengths(words, at + 1)
        at = stops[index] = starts[index] + lengths
    same = (at == ends) & (_windows(buffer, begins, 1)[..., 0] == _VALUE_KEY).all(axis=0)
    sizes = np.array([len(value.head) for value in template], np.int64)
    for size in sorted(set(sizes.tolist())):
        rows = np.flatnonzero(sizes == size)
        heads = np.frombuffer(b"".join(template[row].head for row in rows.tolist()), np.uint8)
        windows = _windows(buffer, starts[rows], size)
        same &= (windows == heads.reshape(-1, 1, size)).all(axis=(0, 2))
    behind = starts + sizes[:, None]
    begins, lengths = _lengths(words, behind)
    kinds = np.array([value.kind for value in template])
    is_scalar, is_histogram = kinds == "scalar", kinds == "histogram"
    same &= (np.where(is_scalar[:, None], behind + 4, begins + lengths) == stops).all(axis=0)
    scalars = _windows(buffer, behind[is_scalar], 4).view("<f4")[:, :, 0]
    return same, scalars, np.stack([part[is_histogram] for part in (starts, begins, stops)])


def _lengths(words: NDArray[np.void], at: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Starts and lengths of the messages whose lengths stand at the offsets; of 256 MB or more, a wrong length."""
    word = _at(words, at).view("<u4")[..., 0].astype(np.int64)
    if (word & 0x8080 == 0x0080).all():  # all of two bytes, as nearly always
        return at + 2, word & 127 | word >> 1 & 127 << 7
    lengths, starts, is_open = word & 127, at + 1, word >> 7 & 1
    for index in range(1, _MAX_LENGTH):
        byte = word >> 8 * index
        lengths = lengths + (is_open * (byte & 127) << 7 * index)
        starts = starts + is_open
        is_open = is_open & byte >> 7
    return starts, lengths


def _windows_of(buffer: NDArray[np.uint8], size: int) -> NDArray[np.void]:
    """As many bytes from each offset of the buffer on."""
    windows: NDArray[np.void] = np.ndarray(max(buffer.size - size + 1, 0), f"V{size}", buffer, strides=(1,))
    return windows


def _at(windows: NDArray[np.void], at: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The windows at the offsets as bytes, one axis more; of those too near the buffer's end, others."""
    chosen = windows[np.minimum(at, windows.size - 1)]
    return chosen.view(np.uint8).reshape(*at.shape, windows.itemsize)


def _windows(buffer: NDArray[np.uint8], at: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    return _at(_windows_of(buffer, size), at)


def _tails(
    buffer: NDArray[np.uint8], values: NDArray[np.int64], begins: NDArray[np.int64], stops: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Numbers and counts of histograms, whose values and messages begin there and end together."""
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
    windows = _windows(buffer, np.maximum(tails, 0), _TAIL)
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
