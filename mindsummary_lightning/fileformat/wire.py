"""Encode varints and field lengths of protobuf without protobuf objects."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

_T = TypeVar("_T")

_TWO_TO_64 = 1 << 64
_SMALL = [bytes((number,)) for number in range(128)]
_MORE = [bytes((number | 128,)) for number in range(128)]  # more bytes follow


def varint(number: int) -> bytes:
    """Encode an integer as a varint.

    A negative integer is 64-bit two's complement, ten bytes long.
    """
    if number < 128:
        if number >= 0:
            return _SMALL[number]
        number += _TWO_TO_64
    return _MORE[number & 127] + _upper_varint(number >> 7)


_upper_varint = lru_cache(maxsize=1024)(varint)  # 128 steps of a run in a row have the same


@lru_cache(maxsize=1024)  # most fields of a run have one of few lengths
def length_delimited(field: int, length: int) -> bytes:
    """Encode the key and length of a length-delimited field, whose bytes follow.

    The field's number is below 16.
    """
    return _SMALL[field << 3 | 2] + varint(length)


def text(value: _T) -> _T:
    """Return the value of a parsed field, after a check that a text is UTF-8.

    Protobuf returns a text that is not UTF-8 as bytes (upb), or fails itself (Python, as in
    MindInsight, which shows nothing from such a record on).

    Raises:
        ValueError: the value is a text that is not UTF-8.
    """
    if isinstance(value, bytes):
        raise ValueError(f"text is not UTF-8: {value[:80]!r}")
    return value
