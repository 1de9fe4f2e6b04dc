"""A step of scalars, packed by hand in one go: what a training loop waits for."""

from __future__ import annotations

import struct
from functools import lru_cache

from crc32c import crc32c

from mindsummary_lightning.fileformat.framing import MASK_DELTA, frame, header, pack_crc
from mindsummary_lightning.fileformat.wire import length_delimited, varint

__all__ = ["event_head", "float32", "pack_float32", "scalar_head", "scalar_record"]

pack_float32 = struct.Struct("<f").pack  # raises OverflowError beyond float32

_pack_wall_time = struct.Struct("<Bd").pack
_UP_TO_STEP = struct.Struct("<BdBB")
_pack_up_to_step = _UP_TO_STEP.pack
_WALL_TIME_KEY, _STEP_KEY, _SCALAR_KEY = 0x09, 0x10, b"\x1d"
_EVENT_SUMMARY, _SUMMARY_VALUE, _VALUE_TAG = 5, 1, 1


def scalar_record(wall_time: float, step: int, scalars: bytes) -> bytes:
    """A step whose values are all scalars, as one whole record.

    Args:
        wall_time: seconds since the epoch.
        step: the step they belong to.
        scalars: each scalar's :func:`scalar_head` and :func:`float32`, one after the other.
    """
    if step < 128:
        return b"".join(frame([event_head(wall_time, step), length_delimited(_EVENT_SUMMARY, len(scalars)), scalars]))
    head, middle = _around_step(step >> 7, len(scalars))
    payload = _pack_up_to_step(_WALL_TIME_KEY, wall_time, _STEP_KEY, step & 127 | 128) + middle + scalars
    crc = crc32c(payload)
    # Masked here and not by a call: a training loop waits for this line.
    return head + payload + pack_crc((((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF)


@lru_cache(maxsize=1024)  # most steps of a run have one of few lengths
def _around_step(higher: int, length: int) -> tuple[bytes, bytes]:
    """What 128 steps in a row have in common: the record's header, and what follows the first byte of the step."""
    middle = varint(higher) + length_delimited(_EVENT_SUMMARY, length)
    return header(_UP_TO_STEP.size + len(middle) + length), middle


def event_head(wall_time: float, step: int) -> bytes:
    """What every event begins with; step 0 is protobuf's default and left out."""
    head = _pack_wall_time(_WALL_TIME_KEY, wall_time)
    return head + bytes((_STEP_KEY,)) + varint(step) if step else head


@lru_cache(maxsize=4096)
def scalar_head(tag: str) -> bytes:
    """All of a scalar value but its number."""
    name = tag.encode()
    head = length_delimited(_VALUE_TAG, len(name)) + name + _SCALAR_KEY
    return length_delimited(_SUMMARY_VALUE, len(head) + 4) + head


def float32(value: float) -> bytes:
    """A scalar's number; beyond float32 it is infinite, as a cast would make it."""
    try:
        return pack_float32(value)
    except OverflowError:
        return pack_float32(float("inf") if value > 0 else float("-inf"))
