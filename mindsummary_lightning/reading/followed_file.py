"""``FollowedFile``: what was read of one summary file that may still grow.

Scalars are columns; of every other value only its location is held. An incomplete last record is read once it is
complete.
"""

from __future__ import annotations

import logging
import os
from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.event_outline import EventOutline
from mindsummary_lightning.fileformat.scalar_codec import ScalarColumns
from mindsummary_lightning.fileio.salvage import find_record
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.reading.series import ScalarSeries
from mindsummary_lightning.reading.value_locations import GraphLocation, LocatedSample, Location, outline_batch
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)
_MAX_DAMAGES = 300  # in a file; each costs a search, and a file of nothing else is not worth minutes
_MAX_CHUNKS = 16  # of columns; joined when there are more, so that a long run is not a million small arrays
_INT32 = np.iinfo(np.int32)


class FollowedFile:
    """One summary file, read as far as it has been written. Not safe to use from several threads at once.

    A damaged record, or one that is not an event, raises or is skipped with a warning.

    Attributes:
        path: the file.
        tags: kind and tag of everything in the file.
        graph: the newest computational graph, or ``None``.
        offset: end of the last record read so far.
        is_complete: whether the file ends with a complete record and no record of it was damaged.
    """

    def __init__(self, path: str, raises: bool = False) -> None:
        self.path = path
        self.tags: set[tuple[str, str]] = set()
        self.graph: GraphLocation | None = None
        self.offset: int = 0
        self.is_complete: bool = True
        self._scanner = RecordScanner(path)  # that read the last records
        self._raises = raises
        self._state: tuple[int, int, int, int] | None = None  # device, inode, bytes, mtime in ns when it was read
        self._is_read = False  # to the end of that state
        self._damages = 0
        self._warnings = WarnOnce(_LOG)
        self._rows = 0
        self._columns: dict[tuple[str, ...], list[ScalarColumns]] = {}
        # By tag: the chunks of each set of scalars it is in, and its place there; a search would take a run with very
        # many tags as long as the square of their number.
        self._places: dict[str, list[tuple[list[ScalarColumns], int]]] = {}
        # By kind and tag: step, wall time, start, end and record, width and height of each sample.
        self._located: dict[tuple[str, str], tuple[array[Any], ...]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the content takes, roughly."""
        columns = sum(part.nbytes for chunks in self._columns.values() for one in chunks for part in _arrays(one))
        return columns + sum(len(part) * part.itemsize for parts in self._located.values() for part in parts)

    @property
    def is_empty(self) -> bool:
        """Whether it had no byte when it was last read."""
        return self._state is None or self._state[2] == 0

    def was_rewritten(self, stat: os.stat_result) -> bool:
        """Whether the file is not merely longer than when it was last read, so that it must be read from its start."""
        if self._state is None:
            return False
        device, inode, size, mtime_ns = self._state
        is_other = (device, inode) != (stat.st_dev, stat.st_ino) or stat.st_size < max(size, self.offset)
        if is_other or stat.st_size > size:
            return is_other or self._scanner.was_rewritten()
        return stat.st_mtime_ns != mtime_ns and size > 0

    def refresh(self, stat: os.stat_result) -> None:
        """Read the records that have been added; ``stat`` is the state of the file before this call."""
        state = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if state == self._state and self._is_read:
            return
        self._state, self._is_read = state, False
        while self._damages < _MAX_DAMAGES:
            try:
                self._read_records()
                break
            except DamagedFileError as error:
                if self._raises:
                    raise
                following = find_record(self.path, error.offset + 1)
                if following is None:
                    break  # perhaps bytes that have not arrived yet: a network file system shows them as zeros
                self._damages += 1
                self._warnings.warn(
                    "damage", "damaged bytes are skipped, the first %d here: %s", following - error.offset, error
                )
                self.offset = following
        self._join_chunks()
        self._is_read = True
        self.is_complete = not self._damages and self.offset >= stat.st_size

    def _read_records(self) -> None:
        scanner = RecordScanner(self.path, self.offset)
        for payloads in scanner.batches():
            self._take(*outline_batch(self.path, self._rows, self.offset, payloads, self._on_damage))
            self._rows += len(payloads)
            self.offset, self._scanner = scanner.offset, scanner

    def _on_damage(self, error: DamagedFileError) -> None:
        if self._raises:
            raise error from error.__cause__
        self._warnings.warn("record", "records that are not events are skipped, the first one here: %s", error)

    def _take(self, scalars: list[ScalarColumns], others: list[tuple[Location, EventOutline]]) -> None:
        for columns in scalars:
            chunks = self._columns.get(columns.tags)
            if chunks is None:
                chunks = self._columns[columns.tags] = []
                self.tags.update(("scalar", tag) for tag in columns.tags)
                for number, tag in enumerate(columns.tags):
                    self._places.setdefault(tag, []).append((chunks, number))
            chunks.append(_compact(columns))
        for location, outline in others:
            if outline.holds == "graph":
                self.graph = GraphLocation(os.path.basename(self.path), location, False, outline.wall_time)
            for value in outline.values:
                key = (value.kind, value.tag)
                self.tags.add(key)
                if value.kind != "scalar":
                    parts = self._located.setdefault(key, tuple(map(array, "qdqqqii")))
                    bounds = (location.start + value.start, location.start + value.end, location.record)
                    sample = (outline.step, outline.wall_time, *bounds, value.width, value.height)
                    for part, field in zip(parts, sample, strict=True):
                        part.append(field)

    def _join_chunks(self) -> None:
        for tags, chunks in self._columns.items():
            if len(chunks) > _MAX_CHUNKS:
                rows, steps, wall_times, values = _joined(map(_arrays, chunks))
                chunks[:] = [_compact(ScalarColumns(rows, steps, wall_times, tags, values))]

    def scalars(self, tag: str) -> ScalarSeries:
        """Samples of a scalar that the file holds, in file order."""
        rows, *columns = _joined(
            (one.rows, one.steps, one.wall_times, one.values[:, index])
            for chunks, index in self._places[tag]
            for one in chunks
        )
        if (np.diff(rows) < 0).any():
            order = np.argsort(rows, kind="stable")
            columns = [column[order] for column in columns]
        steps, wall_times, values = columns
        return ScalarSeries(steps.astype(np.int64), wall_times, values)

    def steps(self, kind: str, tag: str) -> NDArray[np.int64]:
        """Steps of the samples of a tag in file order; ``kind`` is any but scalar."""
        return np.array(self._located[kind, tag][0], np.int64)

    def sample(self, kind: str, tag: str, index: int) -> LocatedSample:
        """A sample, counted in file order; ``kind`` is any but scalar."""
        step, wall_time, start, end, record, width, height = (part[index] for part in self._located[kind, tag])
        return LocatedSample(step, wall_time, Location(self.path, start, end, record), width, height)


def _arrays(columns: ScalarColumns) -> tuple[NDArray[Any], ...]:
    return columns.rows, columns.steps, columns.wall_times, columns.values


def _joined(parts: Iterable[tuple[NDArray[Any], ...]]) -> list[NDArray[Any]]:
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _compact(columns: ScalarColumns) -> ScalarColumns:
    return columns._replace(rows=_small_integers(columns.rows), steps=_small_integers(columns.steps))


def _small_integers(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    fits = _INT32.min <= numbers.min() and numbers.max() <= _INT32.max
    return numbers.astype(np.int32 if fits else np.int64)
