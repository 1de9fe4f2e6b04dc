"""``FollowedFile``: the content of one summary file that may still grow, as compact columns and locations.

Scalars are kept as arrays, of every other value only its location. Nothing damaged stops it: a record whose checksum
is wrong and a payload that is not an event are skipped, and an incomplete last record is read once it is complete.
"""

from __future__ import annotations

import logging
import os
from array import array
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.scalar_codec import ScalarColumns
from mindsummary_lightning.fileio.salvage import read_pieces
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.reading.outlines import Location, OutlinedRecord, outline_batch
from mindsummary_lightning.reading.results import ScalarSeries
from mindsummary_lightning.reading.samples import in_file_order
from mindsummary_lightning.warn_once import WarnOnce

__all__ = ["FollowedFile", "LocatedSample"]

_LOG = logging.getLogger(__name__)
_MAX_CHUNKS = 16  # of columns; joined when there are more, so that a long run is not a million small arrays
_MAX_DAMAGES = 300  # in a file; each costs a search, and a file of nothing else is not worth minutes
_INT32 = np.iinfo(np.int32)


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


class _Locations:
    """Locations of the values of one tag and kind in a file, in file order."""

    __slots__ = ("ends", "heights", "records", "starts", "steps", "wall_times", "widths")

    def __init__(self) -> None:
        self.steps, self.wall_times = array("q"), array("d")
        self.starts, self.ends, self.records = array("q"), array("q"), array("q")
        self.widths, self.heights = array("i"), array("i")  # in pixels; 0 if it is not an image

    @property
    def nbytes(self) -> int:
        return 48 * len(self.steps)


class _LooseScalars:
    """Samples of one scalar from events that hold other values too, in file order."""

    __slots__ = ("rows", "steps", "values", "wall_times")

    def __init__(self) -> None:
        self.rows, self.steps, self.wall_times, self.values = array("q"), array("q"), array("d"), array("f")

    @property
    def nbytes(self) -> int:
        return 28 * len(self.rows)


class FollowedFile:
    """One summary file, read as far as it has been written.

    Not safe to use from several threads at once.

    Args:
        path: the file.

    Attributes:
        path: the file.
        graph: payload of the newest event with a computational graph, and its wall time in seconds; or ``None``.
        is_complete: whether the file ends with a complete record and no record of it was damaged.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.graph: tuple[Location, float] | None = None
        self.is_complete = True
        self._seen: tuple[int, int, int, int] | None = None  # device, inode, bytes, mtime in ns
        self._offset = 0
        self._rows = 0
        self._damages = 0
        self._warnings = WarnOnce(_LOG)
        self._columns: dict[tuple[str, ...], list[ScalarColumns]] = {}
        self._loose: dict[str, _LooseScalars] = {}
        self._located: dict[tuple[str, str], _Locations] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the content takes, roughly."""
        columns = sum(part.nbytes for chunks in self._columns.values() for one in chunks for part in _arrays(one))
        loose = sum(scalars.nbytes for scalars in self._loose.values())
        return columns + loose + sum(locations.nbytes for locations in self._located.values())

    @property
    def is_empty(self) -> bool:
        """Whether it had no byte when it was last read."""
        return self._seen is None or self._seen[2] == 0

    def was_rewritten(self, stat: os.stat_result) -> bool:
        """Whether the file is not merely longer than when it was last read, so that it must be read from its start.

        Args:
            stat: state of the file now.
        """
        if self._seen is None:
            return False
        device, inode, size, mtime_ns = self._seen
        is_other = (device, inode) != (stat.st_dev, stat.st_ino) or stat.st_size < max(size, self._offset)
        return is_other or (stat.st_size == size and stat.st_mtime_ns != mtime_ns and size > 0)

    def read_on(self, stat: os.stat_result) -> bool:
        """Read the records that have been added.

        Args:
            stat: state of the file, taken before this call.

        Returns:
            Whether there were any.

        Raises:
            OSError: the file cannot be read.
        """
        seen = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if seen == self._seen:
            return False
        before = self._offset
        while self._damages < _MAX_DAMAGES:
            scanner = RecordScanner(self.path, self._offset)
            try:
                for payloads in scanner.batches():
                    self._take(payloads, self._offset)
                    self._offset = scanner.offset
                break
            except DamagedFileError as error:
                following = _next_record(self.path, error.offset)
                if following is None:
                    break  # perhaps bytes that have not arrived yet: a network file system shows them as zeros
                self._damages += 1
                self._warnings.warn(
                    "damage", "damaged bytes are skipped, the first %d here: %s", following - error.offset, error
                )
                self._offset = following
        self._join_chunks()
        self._seen = seen
        self.is_complete = not self._damages and self._offset >= stat.st_size
        return self._offset > before

    def tags(self) -> Iterator[tuple[str, str]]:
        """Kind and tag of everything in the file, some perhaps twice."""
        for tags in self._columns:
            yield from (("scalar", tag) for tag in tags)
        yield from (("scalar", tag) for tag in self._loose)
        yield from self._located

    def scalars(self, tag: str) -> ScalarSeries | None:
        """Samples of a scalar in file order, or ``None`` if the file holds none."""
        chunks: list[tuple[NDArray[np.integer], ScalarSeries]] = []
        for tags, columns in self._columns.items():
            for index in (number for number, found in enumerate(tags) if found == tag):
                for one in columns:
                    series = ScalarSeries(one.steps.astype(np.int64), one.wall_times, one.values[:, index])
                    chunks.append((one.rows, series))
        loose = self._loose.get(tag)
        if loose is not None:
            series = ScalarSeries(*map(np.array, (loose.steps, loose.wall_times, loose.values)))
            chunks.append((np.array(loose.rows), series))
        return in_file_order(chunks) if chunks else None

    def steps(self, kind: str, tag: str) -> NDArray[np.int64]:
        """Steps of a tag's samples in file order; ``kind`` is any but scalar."""
        found = self._located.get((kind, tag))
        return np.array(found.steps if found else (), np.int64)

    def sample(self, kind: str, tag: str, index: int) -> LocatedSample:
        """A sample, counted in file order; ``kind`` is any but scalar."""
        found = self._located[kind, tag]
        location = Location(self.path, found.starts[index], found.ends[index], found.records[index])
        return LocatedSample(
            found.steps[index], found.wall_times[index], location, found.widths[index], found.heights[index]
        )

    def _take(self, payloads: list[bytes], begin: int) -> None:
        scalars, others = outline_batch(self.path, self._rows, begin, payloads, self._skip)
        self._rows += len(payloads)
        for columns in scalars:
            self._columns.setdefault(columns.tags, []).append(_compact(columns))
        for record in others:
            self._take_record(record)

    def _take_record(self, record: OutlinedRecord) -> None:
        outline, location = record.outline, record.location
        if outline.holds == "graph":
            self.graph = (location, outline.wall_time)
        for value in outline.values:
            if value.kind == "scalar":
                loose = self._loose.setdefault(value.tag, _LooseScalars())
                loose.rows.append(record.row)
                loose.steps.append(outline.step)
                loose.wall_times.append(outline.wall_time)
                loose.values.append(value.scalar)
            else:
                found = self._located.setdefault((value.kind, value.tag), _Locations())
                found.steps.append(outline.step)
                found.wall_times.append(outline.wall_time)
                found.starts.append(location.start + value.start)
                found.ends.append(location.start + value.end)
                found.records.append(location.record)
                found.widths.append(value.width)
                found.heights.append(value.height)

    def _join_chunks(self) -> None:
        for tags, chunks in self._columns.items():
            if len(chunks) > _MAX_CHUNKS:
                rows, steps, wall_times, values = (
                    np.concatenate([arrays[column] for arrays in map(_arrays, chunks)]) for column in range(4)
                )
                self._columns[tags] = [_compact(ScalarColumns(rows, steps, wall_times, tags, values))]

    def _skip(self, error: DamagedFileError) -> None:
        self._warnings.warn("record", "records that are not events are skipped, the first one here: %s", error)


def _arrays(columns: ScalarColumns) -> tuple[NDArray[Any], ...]:
    return columns.rows, columns.steps, columns.wall_times, columns.values


def _compact(columns: ScalarColumns) -> ScalarColumns:
    return columns._replace(rows=_small_integers(columns.rows), steps=_small_integers(columns.steps))


def _small_integers(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    fits = _INT32.min <= numbers.min() and numbers.max() <= _INT32.max
    return numbers.astype(np.int32 if fits else np.int64)


def _next_record(path: str, offset: int) -> int | None:
    """Offset of the first complete record behind a damaged one; ``None`` if there is none (yet)."""
    following = next((piece for piece in read_pieces(path, offset) if piece.payload is not None), None)
    return None if following is None else following.start
