"""Encode events that contain only scalars, without protobuf objects.

This is the hot path of a training loop.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from mindsummary_lightning.fileformat.wire import length_delimited, varint

_pack_wall_time = struct.Struct("<Bd").pack
_pack_up_to_step = struct.Struct("<BdB").pack
_pack_float32 = struct.Struct("<f").pack  # raises OverflowError beyond float32
WALL_TIME_KEY, STEP_KEY, _SCALAR_KEY = 0x09, 0x10, b"\x1d"
_VALUE, _TAG = 1, 1


def event_head(wall_time: float, step: int) -> bytes:
    """Encode the wall time and step of an event; step 0, the default, is omitted."""
    if not step:
        return _pack_wall_time(WALL_TIME_KEY, wall_time)
    return _pack_up_to_step(WALL_TIME_KEY, wall_time, STEP_KEY) + varint(step)


def encode_scalars(scalars: Sequence[tuple[str, float]]) -> bytes:
    """Encode scalars as fields of the protobuf message ``Summary``.

    A number beyond float32 becomes infinite, as in a cast.

    Raises:
        struct.error: a value is not a number.
    """
    chunks: list[bytes] = []  # a comprehension would take half as long again for a single scalar
    try:
        for tag, value in scalars:
            chunks.append(scalar_head(tag))
            chunks.append(_pack_float32(value))
    except OverflowError:
        with np.errstate(over="ignore"):
            singles = (
                (tag, float(np.float32(value)) if isinstance(value, float) else value)
                for tag, value in scalars
            )
            return encode_scalars(list(singles))
    return b"".join(chunks)


@lru_cache(maxsize=1 << 14)
def scalar_head(tag: str) -> bytes:
    """Encode the part of a scalar that precedes the four bytes of its number."""
    name = tag.encode()
    head = length_delimited(_TAG, len(name)) + name + _SCALAR_KEY
    return length_delimited(_VALUE, len(head) + 4) + head
