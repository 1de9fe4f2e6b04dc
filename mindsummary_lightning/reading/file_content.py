"""``FileContent``: what was read of one summary file. Scalars are columns; of every other value only its location."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.event_outline import EventOutline
from mindsummary_lightning.fileformat.scalar_codec import ScalarColumns
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.reading.outlines import Location, outline_batch
from mindsummary_lightning.reading.results import ScalarSeries

_MAX_CHUNKS = 16  # of columns; joined when there are more, so that a long run is not a million small arrays
_INT32 = np.iinfo(np.int32)


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


class FileContent:
    """The samples of one summary file.

    Args:
        path: the file.
        is_wanted: says of a kind and tag whether its samples are kept; by default all are.

    Attributes:
        path: the file.
        tags: kind and tag of everything in the file, kept or not.
        graph: the newest computational graph, or ``None``.
        offset: end of the last record read so far.
    """

    def __init__(self, path: str, is_wanted: Callable[[str, str], bool] = lambda kind, tag: True) -> None:
        self.path = path
        self.tags: set[tuple[str, str]] = set()
        self.graph: GraphLocation | None = None
        self.offset = 0
        self._is_wanted = is_wanted
        self._rows = 0
        self._columns: dict[tuple[str, ...], list[ScalarColumns]] = {}
        # By kind and tag: step, wall time, start, end and record, width and height of each sample.
        self._located: dict[tuple[str, str], tuple[array[Any], ...]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the content takes, roughly."""
        columns = sum(part.nbytes for chunks in self._columns.values() for one in chunks for part in _arrays(one))
        return columns + sum(len(part) * part.itemsize for parts in self._located.values() for part in parts)

    def read_records(self, on_damage: Callable[[DamagedFileError], None]) -> None:
        """Read the complete records from :attr:`offset` on.

        Args:
            on_damage: called with the error for each record that is not an event; the record is skipped if it returns.

        Raises:
            DamagedFileError: a record is damaged; everything before it has been read.
            OSError: the file cannot be read.
        """
        scanner = RecordScanner(self.path, self.offset)
        for payloads in scanner.batches():
            self._take(*outline_batch(self.path, self._rows, self.offset, payloads, on_damage))
            self._rows += len(payloads)
            self.offset = scanner.offset

    def _take(self, scalars: list[ScalarColumns], others: list[tuple[Location, EventOutline]]) -> None:
        for columns in scalars:
            self.tags.update(("scalar", tag) for tag in columns.tags)
            kept = [index for index, tag in enumerate(columns.tags) if self._is_wanted("scalar", tag)]
            if len(kept) < len(columns.tags):
                tags = tuple(columns.tags[index] for index in kept)
                columns = columns._replace(tags=tags, values=columns.values[:, kept])
            if kept:
                self._columns.setdefault(columns.tags, []).append(_compact(columns))
        for location, outline in others:
            if outline.holds == "graph":
                self.graph = GraphLocation(os.path.basename(self.path), location, False, outline.wall_time)
            for value in outline.values:
                key = (value.kind, value.tag)
                self.tags.add(key)
                if value.kind != "scalar" and self._is_wanted(*key):
                    parts = self._located.setdefault(key, tuple(map(array, "qdqqqii")))
                    bounds = (location.start + value.start, location.start + value.end, location.record)
                    sample = (outline.step, outline.wall_time, *bounds, value.width, value.height)
                    for part, number in zip(parts, sample, strict=True):
                        part.append(number)

    def join_chunks(self) -> None:
        """Join the arrays of a file that grew many times."""
        for tags, chunks in self._columns.items():
            if len(chunks) > _MAX_CHUNKS:
                rows, steps, wall_times, values = _joined(map(_arrays, chunks))
                self._columns[tags] = [_compact(ScalarColumns(rows, steps, wall_times, tags, values))]

    def scalars(self, tag: str) -> ScalarSeries:
        """Samples of a scalar that the file holds, in file order."""
        rows, *columns = _joined(
            (one.rows, one.steps, one.wall_times, one.values[:, index])
            for tags, chunks in self._columns.items()
            for index in (number for number, found in enumerate(tags) if found == tag)
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


def read_files(paths: Iterable[str], kind: str | None = None, tag: str | None = None) -> list[FileContent]:
    """The content of summary files: their tags, graphs, and the samples of a kind.

    Args:
        paths: the files.
        kind: the kind whose samples are kept; ``None`` keeps none.
        tag: the only tag whose samples are kept; ``None`` keeps those of all.

    Raises:
        DamagedFileError: a record is damaged or is not an event.
        OSError: a file cannot be read.
    """
    contents = []
    for path in paths:
        content = FileContent(path, lambda found, name: found == kind and tag in (None, name))
        content.read_records(_refuse)
        contents.append(content)
    return contents


def _refuse(error: DamagedFileError) -> None:
    raise error from error.__cause__


def _arrays(columns: ScalarColumns) -> tuple[NDArray[Any], ...]:
    return columns.rows, columns.steps, columns.wall_times, columns.values


def _joined(parts: Iterable[tuple[NDArray[Any], ...]]) -> list[NDArray[Any]]:
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _compact(columns: ScalarColumns) -> ScalarColumns:
    return columns._replace(rows=_small_integers(columns.rows), steps=_small_integers(columns.steps))


def _small_integers(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    fits = _INT32.min <= numbers.min() and numbers.max() <= _INT32.max
    return numbers.astype(np.int32 if fits else np.int64)
