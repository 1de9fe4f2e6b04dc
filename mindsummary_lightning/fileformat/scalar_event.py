"""A step of scalars, packed by hand in one go: what a training loop waits for."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

from mindsummary_lightning.fileformat.wire import length_delimited, varint

__all__ = ["encode_scalars", "event_head", "float32", "pack_float32", "scalar_head"]

pack_float32 = struct.Struct("<f").pack  # raises OverflowError beyond float32

_WALL_TIME, _WALL_TIME_AND_STEP = struct.Struct("<cd"), struct.Struct("<cdc")
_WALL_TIME_KEY, _STEP_KEY, _SCALAR_KEY = b"\x09", b"\x10", b"\x1d"
_EVENT_SUMMARY, _SUMMARY_VALUE, _VALUE_TAG = 5, 1, 1


def encode_scalars(wall_time: float, step: int, scalars: Sequence[bytes]) -> bytes:
    """The payload of a step whose values are all scalars.

    Args:
        wall_time: seconds since the epoch.
        step: the step they belong to.
        scalars: for each scalar its :func:`scalar_head` and its :func:`float32`.
    """
    body = b"".join(scalars)
    return event_head(wall_time, step) + _summary_head(len(body)) + body


def event_head(wall_time: float, step: int) -> bytes:
    """What every event begins with; step 0 is protobuf's default and left out."""
    if not step:
        return _WALL_TIME.pack(_WALL_TIME_KEY, wall_time)
    return _WALL_TIME_AND_STEP.pack(_WALL_TIME_KEY, wall_time, _STEP_KEY) + varint(step)


@lru_cache(maxsize=1024)  # most steps of a run have one of few lengths
def _summary_head(length: int) -> bytes:
    return length_delimited(_EVENT_SUMMARY, length)


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
