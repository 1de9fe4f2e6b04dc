"""Head of an event and encoding of a scalar without protobuf objects: the hot path of a training loop."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from mindsummary_lightning.fileformat.wire import length_delimited, varint

_pack_wall_time = struct.Struct("<Bd").pack
_pack_up_to_step = struct.Struct("<BdB").pack
_pack_float32 = struct.Struct("<f").pack  # raises OverflowError beyond float32
_WALL_TIME_KEY, _STEP_KEY, _SCALAR_KEY = 0x09, 0x10, b"\x1d"
_SUMMARY_VALUE, _VALUE_TAG = 1, 1


def event_head(wall_time: float, step: int) -> bytes:
    """Wall time and step of an event; step 0 is protobuf's default and omitted."""
    if not step:
        return _pack_wall_time(_WALL_TIME_KEY, wall_time)
    return _pack_up_to_step(_WALL_TIME_KEY, wall_time, _STEP_KEY) + varint(step)


def encode_scalars(scalars: Sequence[tuple[str, float]]) -> bytes:
    """Scalars as fields of a ``Summary``; a number beyond float32 becomes infinite, as a cast would make it.

    Raises:
        struct.error: one of them is not a number.
    """
    chunks: list[bytes] = []  # a comprehension would take half as long again for a single scalar
    try:
        for tag, value in scalars:
            chunks.append(_scalar_head(tag))
            chunks.append(_pack_float32(value))
    except OverflowError:
        with np.errstate(over="ignore"):
            return encode_scalars([(tag, float(np.float32(value))) for tag, value in scalars])
    return b"".join(chunks)


@lru_cache(maxsize=4096)
def _scalar_head(tag: str) -> bytes:
    """Everything of a scalar that precedes its four bytes."""
    name = tag.encode()
    head = length_delimited(_VALUE_TAG, len(name)) + name + _SCALAR_KEY
    return length_delimited(_SUMMARY_VALUE, len(head) + 4) + head
