"""Recognise files that this package or MindSpore wrote, by their first bytes."""

from __future__ import annotations

from mindsummary_lightning.fileformat.framing import (
    HEADER_SIZE,
    OVERHEAD,
    checksum_mismatch,
    frame,
    header_mismatch,
    unpack_length,
)
from mindsummary_lightning.fileformat.lineage_codec import decode_lineage_event
from mindsummary_lightning.fileformat.summary_codec import VERSION, encode_event
from mindsummary_lightning.values import Event

# The version record opens every summary file; only its wall time, 8 bytes after the field's key,
# and so its last CRC differ from file to file.
_VERSION_RECORD = b"".join(bytes(chunk) for chunk in frame(encode_event(Event(0.0, 0, VERSION))))
_WALL_TIME = slice(HEADER_SIZE + 1, HEADER_SIZE + 9)


def is_summary_file(beginning: bytes) -> bool:
    """Tell whether a file with the given first bytes is a summary file.

    It begins with the version record, or at least with the length of a version record. Zeros after
    that, which a power failure may leave, are ignored.
    """
    return _is_version_record(beginning) or _is_version_record(beginning.rstrip(b"\0"))


def _is_version_record(beginning: bytes) -> bool:
    first = bytearray(beginning[: len(_VERSION_RECORD)])
    if len(first) < HEADER_SIZE:
        return False
    if len(first) == len(_VERSION_RECORD) and checksum_mismatch(
        first[HEADER_SIZE:-4], first, len(first) - 4
    ):
        return False
    known = len(_VERSION_RECORD) - 4
    expected = bytearray(_VERSION_RECORD)
    first[_WALL_TIME] = expected[_WALL_TIME] = b""
    return first[: known - 8] == expected[: min(len(first), known - 8)]


def is_lineage_file(beginning: bytes) -> bool:
    """Tell whether a file with the given first bytes is a lineage file.

    It begins with a complete record that is a lineage event.
    """
    if len(beginning) < HEADER_SIZE or header_mismatch(beginning[:HEADER_SIZE]):
        return False
    end = HEADER_SIZE + unpack_length(beginning[:HEADER_SIZE])
    payload = beginning[HEADER_SIZE:end]
    if len(beginning) < end + OVERHEAD - HEADER_SIZE or checksum_mismatch(payload, beginning, end):
        return False
    try:
        return decode_lineage_event(payload).what is not None
    except ValueError:
        return False
