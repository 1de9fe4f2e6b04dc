"""Outlines of a summary file's records: plain scalars decoded as columns, every other value located but not decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.event_outline import EventOutline, outline_event
from mindsummary_lightning.fileformat.framing import HEADER_SIZE, OVERHEAD
from mindsummary_lightning.fileformat.scalar_codec import MAX_SCALAR_EVENT, ScalarColumns, decode_scalar_events
from mindsummary_lightning.fileio.scan import RecordScanner

__all__ = [
    "Location",
    "OutlinedBatch",
    "OutlinedRecord",
    "decoded",
    "outline_batch",
    "outlined_batches",
    "read_location",
]

_T = TypeVar("_T")

_FOOTER_SIZE = OVERHEAD - HEADER_SIZE


class Location(NamedTuple):
    """The bytes of a value in a file, and the offset of the record that holds it."""

    path: str
    start: int
    end: int
    record: int


class OutlinedRecord(NamedTuple):
    """A record that holds more than plain scalars.

    Attributes:
        row: number of the record in its file.
        location: its payload.
        outline: its content.
    """

    row: int
    location: Location
    outline: EventOutline


class OutlinedBatch(NamedTuple):
    """Some neighbouring records of a file.

    Attributes:
        scalars: the events of scalars, decoded; ``rows`` count the records of the file.
        others: every other record, in order.
    """

    scalars: list[ScalarColumns]
    others: list[OutlinedRecord]


def outlined_batches(path: str) -> Iterator[OutlinedBatch]:
    """Outline a summary file, a bounded number of records at a time.

    Raises:
        DamagedFileError: a record is damaged or is not an event.
        OSError: the file cannot be read.
    """
    scanner = RecordScanner(path)
    row = begin = 0
    for payloads in scanner.batches():
        yield outline_batch(path, row, begin, payloads, _refuse)
        row += len(payloads)
        begin = scanner.offset


def outline_batch(
    path: str, first_row: int, begin: int, payloads: list[bytes], on_damage: Callable[[DamagedFileError], None]
) -> OutlinedBatch:
    """Outline neighbouring records.

    Args:
        path: the file that holds them.
        first_row: number of the first record in the file.
        begin: offset of the first record in the file.
        payloads: payloads of the records, in order.
        on_damage: called with the error for each payload that is not an event; the record is skipped if it returns.
    """
    lengths = np.fromiter(map(len, payloads), np.int64, len(payloads))
    ends = begin - _FOOTER_SIZE + np.cumsum(lengths + OVERHEAD)
    is_short = lengths <= MAX_SCALAR_EVENT
    short = np.flatnonzero(is_short)
    scalars, left = decode_scalar_events(
        payloads if short.size == len(payloads) else [payloads[index] for index in short.tolist()]
    )
    others = []
    for index in sorted([*np.flatnonzero(~is_short).tolist(), *short[left].tolist()]):
        payload, end = payloads[index], int(ends[index])
        start = end - len(payload)
        try:
            outline = outline_event(payload)
        except ValueError as error:
            on_damage(DamagedFileError(path, start - HEADER_SIZE, str(error)))
        else:
            others.append(OutlinedRecord(first_row + index, Location(path, start, end, start - HEADER_SIZE), outline))
    return OutlinedBatch([columns._replace(rows=first_row + short[columns.rows]) for columns in scalars], others)


def read_location(location: Location) -> bytes:
    """The bytes at a location.

    Raises:
        OSError: the file cannot be read.
    """
    with open(location.path, "rb") as file:
        file.seek(location.start)
        return file.read(location.end - location.start)


def decoded(location: Location, decode: Callable[[bytes], _T]) -> _T:
    """The value at a location.

    Args:
        location: the bytes of the value.
        decode: decoder of the bytes.

    Raises:
        DamagedFileError: the bytes are not such a value.
        OSError: the file cannot be read.
    """
    try:
        return decode(read_location(location))
    except ValueError as error:
        raise DamagedFileError(location.path, location.record, str(error)) from error


def _refuse(error: DamagedFileError) -> None:
    raise error from error.__cause__
