"""Frame payloads as records of a TFRecord file, and read the frames.

MindSpore writes this format and MindInsight reads it.

A record is, little-endian::

    uint64  length of the payload
    uint32  masked CRC32C of those 8 bytes
    bytes   payload
    uint32  masked CRC32C of the payload

``masked(crc) = rotate_right_15(crc) + 0xA282EAD8`` modulo 2**32. MindInsight never checks a CRC,
but it never gets past an empty record, so :func:`frame` refuses an empty payload. This module does
no input or output.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import TypeAlias

from crc32c import crc32c

Buffer: TypeAlias = "bytes | bytearray | memoryview"

HEADER_SIZE = 12
FOOTER_SIZE = 4
OVERHEAD = HEADER_SIZE + FOOTER_SIZE
MAX_PAYLOAD = 2**31 - 1  # bytes; protobuf writes and reads no larger message

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
pack_crc: Callable[[int], bytes] = _CRC.pack
MASK_DELTA = 0xA282EAD8
_JOIN_BELOW = 1 << 16  # bytes; below it a copy is cheaper than one more chunk of a gathered write


def masked_crc32c(data: Buffer, preceding: int = 0) -> int:
    """Return the masked CRC32C of some bytes.

    ``preceding`` is the CRC32C, not masked, of bytes before ``data`` that the result covers too.
    """
    crc = crc32c(data, preceding)
    return (((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF


@lru_cache(maxsize=1024)  # most records of a run have one of few lengths
def header(length: int) -> bytes:
    """Return the 12 bytes (length and CRC) before a payload of ``length`` bytes."""
    packed = _LENGTH.pack(length)
    return packed + pack_crc(masked_crc32c(packed))


def total_length(chunks: Sequence[Buffer]) -> int:
    """Return the total number of bytes in a sequence of buffers."""
    if len(chunks) == 1:
        return len(chunks[0])
    return sum(map(len, chunks))


def frame(chunks: Sequence[Buffer]) -> list[Buffer]:
    """Add length and checksums to a payload, to make it a record.

    The payload is given in chunks, and the record is returned in chunks. A small record is a single
    chunk. In a large record, large chunks are passed on without a copy, and small neighbours are
    joined, so that one gathered write takes them all.

    Raises:
        ValueError: the payload is empty; MindInsight would never get past its record
            (``ms_data_loader.py``).
    """
    # inline: the hot path of a training loop
    length = len(chunks[0]) if len(chunks) == 1 else sum(map(len, chunks))
    if not length:
        raise ValueError(
            "a record must have a payload of at least one byte, got an empty payload, at which "
            "MindInsight stops reading"
        )
    if length < _JOIN_BELOW:
        payload = b"".join(chunks)
        crc = crc32c(payload)
        # as masked_crc32c does it, whose call would cost 50 ns, a tenth of the framing
        masked = (((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF
        return [header(length) + payload + pack_crc(masked)]
    crc = 0
    framed: list[Buffer] = [header(length)]
    for is_small, group in groupby(chunks, lambda chunk: len(chunk) < _JOIN_BELOW):
        for chunk in [b"".join(group)] if is_small else group:
            crc = crc32c(chunk, crc)
            framed.append(chunk)
    return [*framed, pack_crc(masked_crc32c(b"", crc))]


def unpack_length(header: Buffer) -> int:
    """Return the payload length in bytes that a record's 12-byte header announces."""
    return int(_LENGTH.unpack_from(header)[0])


def header_mismatch(header: Buffer) -> str | None:
    """Describe a wrong CRC in a record's 12-byte header; ``None`` if it is right."""
    return _mismatch("length CRC", header[:8], _CRC.unpack_from(header, 8)[0])


def checksum_mismatch(payload: Buffer, data: Buffer, offset: int = 0) -> str | None:
    """Describe a wrong checksum of a payload; ``None`` if the checksum is right.

    The checksum is 4 bytes at ``offset`` of ``data``.
    """
    stored = _CRC.unpack_from(data, offset)[0]
    crc = crc32c(payload)
    # Masked inline: on the hot path of reading.
    if not (((crc >> 15) | (crc << 17)) + MASK_DELTA - stored) & 0xFFFFFFFF:
        return None
    return _mismatch("payload CRC", payload, stored)


def _mismatch(name: str, data: Buffer, stored: int) -> str | None:
    computed = masked_crc32c(data)
    if computed == stored:
        return None
    return f"{name} is {computed:#010x}, the file states {stored:#010x}"
