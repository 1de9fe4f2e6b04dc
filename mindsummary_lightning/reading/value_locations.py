"""Where the values of a summary file lie: plain scalars decoded as columns, every other value located, not decoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.event_outline import EventOutline, outline_event
from mindsummary_lightning.fileformat.framing import FOOTER_SIZE, HEADER_SIZE, OVERHEAD
from mindsummary_lightning.fileformat.scalar_codec import MAX_SCALAR_EVENT, ScalarColumns, decode_scalar_events


class Location(NamedTuple):
    """The bytes of a value in a file, and the offset of the record that holds it."""

    path: str
    start: int
    end: int
    record: int


class GraphLocation(NamedTuple):
    """A computational graph of a run.

    Attributes:
        name: name of the file that holds it; MindInsight's tag.
        location: payload of its event, or the whole of a ``.pb`` file.
        is_model: whether the bytes are those of a ``.pb`` file (a ``ModelProto``) rather than of an event.
        wall_time: seconds since the epoch.
    """

    name: str
    location: Location
    is_model: bool
    wall_time: float


class LocatedSample(NamedTuple):
    """A sample that is located but not decoded.

    Attributes:
        step: its step.
        wall_time: seconds since the epoch.
        location: the bytes of its value.
        width: columns of an image in pixels; 0 for other kinds.
        height: rows of an image in pixels; 0 for other kinds.
    """

    step: int
    wall_time: float
    location: Location
    width: int
    height: int


def outline_batch(
    path: str, first_row: int, begin: int, payloads: list[bytes], on_damage: Callable[[DamagedFileError], None]
) -> tuple[list[ScalarColumns], list[tuple[Location, EventOutline]]]:
    """Outline neighbouring records, the first of which is number ``first_row`` of the file, at offset ``begin``.

    Returns all scalars, whose ``rows`` count the records of the file; and in order, the payload and content of every
    record that holds anything else. ``on_damage`` is called for a payload that is not an event; the record is skipped
    if it returns.
    """
    lengths = np.fromiter(map(len, payloads), np.int64, len(payloads))
    ends = begin - FOOTER_SIZE + np.cumsum(lengths + OVERHEAD)
    is_short = lengths <= MAX_SCALAR_EVENT
    short = np.flatnonzero(is_short)
    decoded_scalars, left = decode_scalar_events(
        payloads if short.size == len(payloads) else [payloads[index] for index in short.tolist()]
    )
    scalars = [columns._replace(rows=first_row + short[columns.rows]) for columns in decoded_scalars]
    others = []
    loose: dict[str, list[tuple[int, int, float, float]]] = {}  # scalars of the others
    for index in sorted([*np.flatnonzero(~is_short).tolist(), *short[left].tolist()]):
        payload, end, row = payloads[index], int(ends[index]), first_row + index
        start = end - len(payload)
        try:
            outline = outline_event(payload)
        except ValueError as error:
            on_damage(DamagedFileError(path, start - HEADER_SIZE, str(error)))
            continue
        others.append((Location(path, start, end, start - HEADER_SIZE), outline))
        for value in outline.values:
            if value.kind == "scalar":
                loose.setdefault(value.tag, []).append((row, outline.step, outline.wall_time, value.scalar))
    for tag, samples in loose.items():
        rows, steps, wall_times, values = zip(*samples, strict=True)
        columns = np.array(rows), np.array(steps), np.array(wall_times), (tag,), np.array(values, np.float32)[:, None]
        scalars.append(ScalarColumns(*columns))
    return scalars, others
