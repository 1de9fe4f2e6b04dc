"""Codec of events that contain only scalars, without protobuf objects: the hot path of a training loop, and of reading.

The decoder takes a million events in a second. Such events repeat: in those of one length with steps of one varint
length, every byte but the wall time, the step and the float32 values is the same, so payloads are laid side by side as
a byte matrix, compared with the first of their kind and cut into columns. One event of each kind is laid out by
:func:`outline_event`; what is not encoded exactly as this package and MindSpore do it is left to the general decoder.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.fileformat.event_outline import outline_event
from mindsummary_lightning.fileformat.wire import length_delimited, varint

MAX_SCALAR_EVENT = 1 << 14  # bytes; a matrix of longer events costs memory and saves nothing

_pack_wall_time = struct.Struct("<Bd").pack
_pack_up_to_step = struct.Struct("<BdB").pack
_pack_float32 = struct.Struct("<f").pack  # raises OverflowError beyond float32
_WALL_TIME_KEY, _STEP_KEY, _SCALAR_KEY = 0x09, 0x10, b"\x1d"
_SUMMARY, _VALUE, _TAG = 5, 1, 1
_WALL_TIME = slice(1, 9)
_STEP = 10  # offset of the step's varint


def event_head(wall_time: float, step: int) -> bytes:
    """Wall time and step of an event; step 0 is protobuf's default and omitted."""
    if not step:
        return _pack_wall_time(_WALL_TIME_KEY, wall_time)
    return _pack_up_to_step(_WALL_TIME_KEY, wall_time, _STEP_KEY) + varint(step)


def encode_scalars(scalars: Sequence[tuple[str, float]]) -> bytes:
    """Scalars as fields of a ``Summary``; a number beyond float32 becomes infinite, as a cast would make it.

    Raises struct.error if one of them is not a number.
    """
    chunks: list[bytes] = []  # a comprehension would take half as long again for a single scalar
    try:
        for tag, value in scalars:
            chunks.append(_scalar_head(tag))
            chunks.append(_pack_float32(value))
    except OverflowError:
        with np.errstate(over="ignore"):
            singles = ((tag, float(np.float32(value)) if isinstance(value, float) else value) for tag, value in scalars)
            return encode_scalars(list(singles))
    return b"".join(chunks)


@lru_cache(maxsize=4096)
def _scalar_head(tag: str) -> bytes:
    """Everything of a scalar that precedes its four bytes."""
    name = tag.encode()
    head = length_delimited(_TAG, len(name)) + name + _SCALAR_KEY
    return length_delimited(_VALUE, len(head) + 4) + head


class ScalarColumns(NamedTuple):
    """Events with the same tags, as columns.

    Attributes:
        rows: index of each event among the payloads, int64, shape ``(n,)``, ascending.
        steps: int64, shape ``(n,)``.
        wall_times: seconds since the epoch, float64, shape ``(n,)``.
        tags: the events' tags, in file order.
        values: float32, shape ``(n, len(tags))``.
    """

    rows: NDArray[np.int64]
    steps: NDArray[np.int64]
    wall_times: NDArray[np.float64]
    tags: tuple[str, ...]
    values: NDArray[np.float32]


class ScalarLayout(NamedTuple):
    """Offsets of an event's varying bytes; all others are the same in every event with these tags."""

    step_end: int
    value_starts: tuple[int, ...]
    tags: tuple[str, ...]

    def mask(self, length: int) -> NDArray[np.uint8]:
        """Of an event of ``length`` bytes, the bits that are the same in every event with these tags."""
        mask = np.full(length, 255, np.uint8)
        mask[_WALL_TIME] = 0
        mask[_STEP : self.step_end] = 128  # tells how long the step's varint is
        for start in self.value_starts:
            mask[start : start + 4] = 0
        return mask


def decode_scalar_events(payloads: Sequence[bytes]) -> tuple[list[ScalarColumns], list[int]]:
    """Decode the payloads that contain only scalars, encoded as this package and MindSpore do.

    Returns them, and the ascending indices of the payloads left to the general decoder.
    """
    done: list[ScalarColumns] = []
    undecoded: list[int] = []
    lengths = np.fromiter(map(len, payloads), np.int64, len(payloads))
    for length in sorted(set(map(len, payloads))):  # np.unique would import numpy.ma, which slows `mindsummary list`
        rows = np.flatnonzero(lengths == length)
        joined = b"".join(payloads if rows.size == len(payloads) else [payloads[row] for row in rows.tolist()])
        matrix = np.frombuffer(joined, np.uint8).reshape(rows.size, length)
        while rows.size:
            layout = layout_of(matrix[0].tobytes())
            if layout is None:
                undecoded.append(int(rows[0]))
                rows, matrix = rows[1:], matrix[1:]
                continue
            other = _decode_all_like_first(done, rows, matrix, layout)
            rows, matrix = rows[other], matrix[other]
    return done, sorted(undecoded)


def layout_of(payload: bytes) -> ScalarLayout | None:
    """The layout of an event that is encoded exactly as expected, else ``None``."""
    if len(payload) <= _STEP or payload[0] != _WALL_TIME_KEY:
        return None
    step_end = _STEP - 1
    if payload[step_end] == _STEP_KEY:
        step_end = next((at for at in range(_STEP, _STEP + 10) if payload[at : at + 1] < b"\x80"), _STEP) + 1
    try:
        values = outline_event(payload).values
    except ValueError:
        return None
    body, starts = b"", []
    for value in values:
        body += _scalar_head(value.tag)
        starts.append(len(body))
        body += payload[value.end - 4 : value.end]
    # The values must be all that follows, in the one encoding whose offsets are known.
    if not values or payload[step_end:] != length_delimited(_SUMMARY, len(body)) + body:
        return None
    begin = len(payload) - len(body)
    return ScalarLayout(step_end, tuple(begin + start for start in starts), tuple(value.tag for value in values))


def _decode_all_like_first(
    done: list[ScalarColumns], rows: NDArray[np.int64], matrix: NDArray[np.uint8], layout: ScalarLayout
) -> NDArray[np.int64]:
    """Decode every row whose values have the offsets of the first row's; return the indices of the other rows."""
    signatures = matrix & layout.mask(matrix.shape[1])
    if (signatures == signatures[0]).all():
        done.append(_columns(rows, matrix, layout))
        return np.empty(0, np.int64)
    same: dict[bytes, list[int]] = {}
    packed, length = signatures.tobytes(), matrix.shape[1]
    for index in range(rows.size):
        same.setdefault(packed[index * length : (index + 1) * length], []).append(index)
    others: list[int] = []
    for indices in same.values():
        other_layout = layout_of(matrix[indices[0]].tobytes())
        if other_layout is not None and other_layout[:2] == layout[:2]:
            done.append(_columns(rows[indices], matrix[indices], other_layout))
        else:
            others += indices
    return np.array(sorted(others), np.int64)


def _columns(rows: NDArray[np.int64], matrix: NDArray[np.uint8], layout: ScalarLayout) -> ScalarColumns:
    steps = np.zeros(rows.size, np.uint64)
    for index, column in enumerate(range(_STEP, layout.step_end)):
        steps |= (matrix[:, column] & 127).astype(np.uint64) << np.uint64(7 * index)
    values = np.empty((rows.size, len(layout.tags)), np.float32)
    for index, start in enumerate(layout.value_starts):
        values[:, index] = np.ascontiguousarray(matrix[:, start : start + 4]).view("<f4")[:, 0]
    wall_times = np.ascontiguousarray(matrix[:, _WALL_TIME]).view("<f8")[:, 0]
    return ScalarColumns(rows, steps.view(np.int64), wall_times.astype(np.float64), layout.tags, values)
