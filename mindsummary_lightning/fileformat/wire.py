"""Protobuf's wire format, as far as hand-packed records need it: varints and length-delimited fields."""

from __future__ import annotations

__all__ = ["length_delimited", "varint"]

_SMALL = [bytes((number,)) for number in range(128)]


def varint(number: int) -> bytes:
    """An integer as a varint; negative ones as 64-bit two's complement, ten bytes long."""
    if 0 <= number < 128:
        return _SMALL[number]
    number &= 0xFFFFFFFFFFFFFFFF
    packed = bytearray()
    while number > 127:
        packed.append(number & 127 | 128)
        number >>= 7
    packed.append(number)
    return bytes(packed)


def length_delimited(field: int, length: int) -> bytes:
    """Key and length of a length-delimited field; its bytes follow. The field's number is below 16."""
    return _SMALL[field << 3 | 2] + varint(length)
