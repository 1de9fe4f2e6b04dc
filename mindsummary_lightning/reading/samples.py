"""The samples of a run's tags over all its files, put together by MindInsight's rule for resumed runs.

A later file takes over: from its first step of a tag on, what older files hold of that tag is dropped; of two samples
of one tag, kind and step the later one counts. Values other than scalars are only located here, not decoded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.event_outline import EventOutline, outline_event
from mindsummary_lightning.fileformat.file_names import timestamp_of
from mindsummary_lightning.fileformat.framing import HEADER_SIZE, OVERHEAD
from mindsummary_lightning.fileformat.scalar_codec import MAX_SCALAR_EVENT, ScalarColumns, decode_scalar_events
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.reading.results import ScalarSeries

__all__ = [
    "KINDS",
    "LocatedSamples",
    "OutlinedBatch",
    "OutlinedRecord",
    "Place",
    "gather_places",
    "gather_scalars",
    "gather_tags",
    "kept_samples",
    "outlined_batches",
    "read_place",
]

KINDS = ("scalar", "image", "tensor", "histogram", "loss_landscape")

_FOOTER_SIZE = OVERHEAD - HEADER_SIZE


class Place(NamedTuple):
    """Where a value lies: its bytes in a file, and the offset of the record that holds it."""

    path: str
    start: int
    end: int
    record: int


class OutlinedRecord(NamedTuple):
    """A record that is not plainly made of scalars.

    Attributes:
        row: number of the record in its file.
        place: where its payload lies.
        outline: what it holds.
    """

    row: int
    place: Place
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
    """Walk over a summary file, a bounded number of records at a time.

    Raises:
        DamagedFileError: a record is damaged or holds no event.
        OSError: the file cannot be read.
    """
    scanner = RecordScanner(path)
    row = begin = 0
    for payloads in scanner.batches():
        yield _batch(path, row, begin, payloads)
        row += len(payloads)
        begin = scanner.offset


def _batch(path: str, first_row: int, begin: int, payloads: list[bytes]) -> OutlinedBatch:
    lengths = np.fromiter(map(len, payloads), np.int64, len(payloads))
    ends = begin - _FOOTER_SIZE + np.cumsum(lengths + OVERHEAD)
    is_short = lengths <= MAX_SCALAR_EVENT
    short = np.flatnonzero(is_short)
    scalars, left = decode_scalar_events(
        payloads if short.size == len(payloads) else [payloads[index] for index in short.tolist()]
    )
    others = sorted([*np.flatnonzero(~is_short).tolist(), *short[left].tolist()])
    return OutlinedBatch(
        [columns._replace(rows=first_row + short[columns.rows]) for columns in scalars],
        [_outlined(path, first_row + index, int(ends[index]), payloads[index]) for index in others],
    )


def _outlined(path: str, row: int, end: int, payload: bytes) -> OutlinedRecord:
    start = end - len(payload)
    try:
        return OutlinedRecord(row, Place(path, start, end, start - HEADER_SIZE), outline_event(payload))
    except ValueError as error:
        raise DamagedFileError(path, start - HEADER_SIZE, str(error)) from error


@dataclass(frozen=True, slots=True)
class LocatedSamples:
    """Samples of one tag and kind, located but not decoded, by step.

    Attributes:
        steps: ascending, no step twice.
        wall_times: seconds since the epoch.
        places: where the values lie.
    """

    steps: list[int]
    wall_times: list[float]
    places: list[Place]


def gather_tags(paths: Sequence[str]) -> dict[str, list[str]]:
    """Sorted tags of each of :data:`KINDS` in the files of a run.

    Raises:
        DamagedFileError: a file is damaged.
    """
    found: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for path in paths:
        for batch in outlined_batches(path):
            found["scalar"].update(*(columns.tags for columns in batch.scalars))
            for record in batch.others:
                for value in record.outline.values:
                    found[value.kind].add(value.tag)
    return {kind: sorted(tags) for kind, tags in found.items()}


def gather_scalars(paths: Sequence[str], tag: str | None) -> dict[str, ScalarSeries]:
    """Scalars of the files of a run, merged.

    Args:
        paths: the files, in the reader's order.
        tag: the only tag wanted, or ``None`` for all.

    Returns:
        The series by tag, tags sorted.

    Raises:
        DamagedFileError: a file is damaged.
    """
    files: dict[str, list[tuple[str, ScalarSeries]]] = {}
    for path in paths:
        for found, series in _file_scalars(path, tag).items():
            files.setdefault(found, []).append((path, series))
    return {found: _merged(files[found]) for found in sorted(files)}


def _merged(files: list[tuple[str, ScalarSeries]]) -> ScalarSeries:
    kept = kept_samples([(path, series.steps) for path, series in files])
    return ScalarSeries(
        *(np.concatenate([getattr(series, name) for _, series in files])[kept] for name in ScalarSeries.__slots__)
    )


def _file_scalars(path: str, tag: str | None) -> dict[str, ScalarSeries]:
    """One file's samples in file order."""
    pieces: dict[str, list[tuple[NDArray[np.int64], ScalarSeries]]] = {}
    for batch in outlined_batches(path):
        for columns in batch.scalars:
            for index, found in enumerate(columns.tags):
                if tag is None or found == tag:
                    values = columns.values[:, index].copy()  # a view would keep every other tag's values alive
                    series = ScalarSeries(columns.steps, columns.wall_times, values)
                    pieces.setdefault(found, []).append((columns.rows, series))
        for record in batch.others:
            for value in record.outline.values:
                if value.kind == "scalar" and (tag is None or value.tag == tag):
                    one = ScalarSeries(
                        np.array([record.outline.step]),
                        np.array([record.outline.wall_time]),
                        np.array([value.scalar], np.float32),
                    )
                    pieces.setdefault(value.tag, []).append((np.array([record.row]), one))
    joined = {}
    for found, parts in pieces.items():
        order = np.argsort(np.concatenate([rows for rows, _ in parts]), kind="stable")
        joined[found] = ScalarSeries(
            *(np.concatenate([getattr(series, name) for _, series in parts])[order] for name in ScalarSeries.__slots__)
        )
    return joined


def gather_places(paths: Sequence[str], kind: str, tag: str | None) -> dict[str, LocatedSamples]:
    """Where the values of a kind lie in the files of a run; arguments and errors as :func:`gather_scalars`."""
    files: dict[str, dict[str, list[tuple[int, float, Place]]]] = {}
    for path in paths:
        for batch in outlined_batches(path):
            for record in batch.others:
                for value in record.outline.values:
                    if value.kind == kind and (tag is None or value.tag == tag):
                        start = record.place.start
                        place = Place(path, start + value.start, start + value.end, record.place.record)
                        sample = (record.outline.step, record.outline.wall_time, place)
                        files.setdefault(value.tag, {}).setdefault(path, []).append(sample)
    located = {}
    for found in sorted(files):
        by_file = files[found]
        joined = [sample for samples in by_file.values() for sample in samples]
        steps = [(path, np.array([step for step, _, _ in samples], np.int64)) for path, samples in by_file.items()]
        kept = [joined[index] for index in kept_samples(steps).tolist()]
        located[found] = LocatedSamples(*(list(column) for column in zip(*kept, strict=True)))
    return located


def read_place(place: Place) -> bytes:
    """The bytes at a place.

    Raises:
        OSError: the file cannot be read.
    """
    with open(place.path, "rb") as file:
        file.seek(place.start)
        return file.read(place.end - place.start)


def kept_samples(files: Sequence[tuple[str, NDArray[np.int64]]]) -> NDArray[np.int64]:
    """Which samples of one tag and kind count, by the rule of MindInsight's reader.

    Args:
        files: for each file that holds any, in the reader's order, its path and its samples' steps in file order.

    Returns:
        Indices into the joined samples of all files, ordered by step, each step once.
    """
    kept = np.empty(0, np.int64)
    steps = np.concatenate([file_steps for _, file_steps in files]) if files else np.empty(0, np.int64)
    file_of = np.concatenate([np.full(len(found), index) for index, (_, found) in enumerate(files)]) if files else kept
    digits = [str(timestamp_of(os.path.basename(path))) for path, _ in files]
    begin = 0
    for index, (_, found) in enumerate(files):
        if not found.size:
            continue
        new = begin + _last_of_each_step(found)
        begin += found.size
        if kept.size:
            # The reader compares the names' digits as text, and drops larger steps of files with smaller digits only.
            older = np.array([other < digits[index] for other in digits])[file_of[kept]]
            stale = (older & (steps[kept] >= found.min())) | np.isin(steps[kept], found)
            kept = kept[~stale]
        kept = np.concatenate([kept, new])
    return kept[np.argsort(steps[kept], kind="stable")]


def _last_of_each_step(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    if (np.diff(steps) > 0).all():
        return np.arange(steps.size)
    _, from_the_end = np.unique(steps[::-1], return_index=True)
    return np.asarray(steps.size - 1 - from_the_end, np.int64)
