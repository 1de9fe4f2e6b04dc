"""``FollowedFile``: the content of a summary file that may still grow.

Scalars are columns; for every other value only its location is stored. An incomplete last record is
read once it is complete.
"""

from __future__ import annotations

import itertools
import logging
import os
import struct
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.event_outline import EventOutline, HistogramColumns
from mindsummary_lightning.fileformat.framing import HEADER_SIZE
from mindsummary_lightning.fileformat.records import Records
from mindsummary_lightning.fileformat.scalar_columns import ScalarColumns, ScalarDecoder
from mindsummary_lightning.fileio.salvage import find_record
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)
# in a file; each costs a search, and a file of nothing else is not worth minutes
MAX_DAMAGES = 300
# bytes of columns; smaller ones are joined, so that a long run is not a million small arrays
_MAX_CHUNK = 1 << 22
_FILE_BYTES, _TAG_BYTES = 2000, 350  # of a file and of a tag, beside their samples, measured
_INT32 = np.iinfo(np.int32)
_STACKED = 64  # records of many histograms whose rows are joined

TAIL = 44
"""Last bytes of a histogram that a row keeps: its statistics stand there."""

SAMPLE = np.dtype(
    [
        *(
            ("step", "<i8"),
            ("wall_time", "<f8"),
            ("start", "<i8"),
            ("end", "<i8"),
            ("record", "<i8"),
        ),
        *(("width", "<i4"), ("height", "<i4"), ("tail", f"V{TAIL}")),
    ]
)
"""A sample that is no scalar.

It tells where its value lies, the size of an image, and the last bytes of a histogram.
"""
_PACK = struct.Struct(f"<qdqqqii{TAIL}s").pack
_BYTES = np.dtype(f"V{SAMPLE.itemsize}")  # of a sample: without columns they are copied at once
_SCALAR = np.dtype([("row", "<i8"), ("step", "<i8"), ("wall_time", "<f8"), ("value", "<f4")])
"""A scalar of an event whose set of tags is rare."""
_PACK_SCALAR = struct.Struct("<qqdf").pack

ScalarPart: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float32]]


class Location(NamedTuple):
    """The byte range of a value in a file, and the offset of the value's record."""

    path: str
    start: int
    end: int
    record: int


class GraphLocation(NamedTuple):
    """The place where a computational graph is stored in a file.

    Attributes:
        name: name of the file that holds it; MindInsight's tag.
        location: payload of its event, or the whole of a ``.pb`` file.
        is_model: whether the bytes are those of a ``.pb`` file (a ``ModelProto``) rather than of an
            event.
        wall_time: seconds since the epoch.
    """

    name: str
    location: Location
    is_model: bool
    wall_time: float


class LocatedSample(NamedTuple):
    """A sample whose place in its file is known, but which is not decoded yet.

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


class _Chunk(NamedTuple):
    """Scalars from successive records with the same tags, with a row for each tag."""

    rows: NDArray[np.int64] | range
    steps: NDArray[np.int64]
    wall_times: NDArray[np.float64]
    values: NDArray[np.float32]


class FollowedFile:
    """Reads a summary file as far as it has been written, again when it has grown.

    It is not safe to use from several threads at once.

    A damaged record, or one that is not an event, raises or is skipped with a warning.

    Args:
        path: the file.
        decoder: decodes the records; the files of a run share it, because it caches their shapes.
        raises: whether damage is an error.

    Attributes:
        path: the file.
        tags: kind and tag of everything in the file.
        graph: the newest computational graph, or ``None``.
        offset: end of the last record read so far.
        nbytes: bytes of memory that it takes, roughly.
        is_complete: whether the file ends with a complete record and no record of it was damaged.
    """

    def __init__(self, path: str, decoder: ScalarDecoder, raises: bool = False) -> None:
        self.path = path
        self.tags: set[tuple[str, str]] = set()
        self.graph: GraphLocation | None = None
        self.offset: int = 0
        self.nbytes: int = _FILE_BYTES
        self.is_complete: bool = True
        self._scanner = RecordScanner(path)  # that read the last records
        self._raises = raises
        # device, inode, bytes, mtime in ns when it was read
        self._state: tuple[int, int, int, int] | None = None
        self._is_read = False  # to the end of that state
        self._damages = 0
        self._warnings = WarnOnce(_LOG)
        self._rows = 0
        self._decoder = decoder
        self._columns: dict[tuple[str, ...], list[_Chunk]] = {}
        # By tag: the chunks of each set of scalars it is in, and its place there; a search would
        # take a run with very many tags as long as the square of their number.
        self._places: dict[str, list[tuple[list[_Chunk], int]]] = {}
        # by kind and tag, as SAMPLE or _SCALAR lays them out
        self._samples: dict[tuple[str, str], bytearray] = {}
        # By the tags of a record's histograms, where they are many: rows of records, a column for
        # each tag.
        self._blocks: dict[tuple[str, ...], list[NDArray[np.void]]] = {}
        # of a tag: its blocks, and place
        self._columns_of: dict[str, list[tuple[list[NDArray[np.void]], int]]] = {}

    @property
    def is_empty(self) -> bool:
        """Tell whether the file was empty when it was last read."""
        return self._state is None or self._state[2] == 0

    def was_rewritten(self, stat: os.stat_result) -> bool:
        """Tell whether the file was rewritten, and must be read again from its start.

        It must unless it has only become longer since it was last read.
        """
        if self._state is None:
            return False
        device, inode, size, mtime_ns = self._state
        is_other = (device, inode) != (stat.st_dev, stat.st_ino) or stat.st_size < size
        if is_other or stat.st_size > size:
            return is_other or self._scanner.was_rewritten()
        return stat.st_mtime_ns != mtime_ns

    def refresh(self, stat: os.stat_result) -> None:
        """Read the records that were added since the last call.

        ``stat`` is the state of the file before this call.
        """
        state = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if state == self._state and self._is_read:
            return
        self._state, self._is_read = state, False
        while self._damages < MAX_DAMAGES:
            try:
                self._read_records()
                break
            except DamagedFileError as error:
                if self._raises:
                    raise
                following = find_record(self.path, error.offset + 1)
                if following is None:
                    # perhaps bytes that have not arrived yet: a network file system shows them as
                    # zeros
                    break
                self._damages += 1
                self._warnings.warn(
                    "damage",
                    "damaged bytes are skipped; the first skipped part has %d bytes: %s",
                    following - error.offset,
                    error,
                )
                self.offset = following
        self._is_read = True
        self.is_complete = not self._damages and self.offset >= stat.st_size

    def _read_records(self) -> None:
        scanner = RecordScanner(self.path, self.offset)
        for payloads in scanner.batches():
            self._take(payloads)
            self._rows += len(payloads)
            self.offset, self._scanner = scanner.offset, scanner

    def _take(self, payloads: Records) -> None:
        """Add the content of successive records.

        The first of them begins where the last call ended.
        """
        columns, others = self._decoder.decode(payloads)
        for row, one in sorted(
            (*((int(one.rows[0]), one) for one in columns), *others), key=itemgetter(0)
        ):
            if isinstance(one, ScalarColumns):
                self._add(one._replace(rows=self._rows + one.rows))
                continue
            start, end = payloads.place(row)
            location = Location(
                self.path, self.offset + start, self.offset + end, self.offset + start - HEADER_SIZE
            )
            if isinstance(one, ValueError):
                self._on_damage(DamagedFileError(self.path, location.record, str(one)), one)
            else:
                self._locate(payloads[row], one, location, self._rows + row)

    def _on_damage(self, error: DamagedFileError, cause: ValueError) -> None:
        if self._raises:
            raise error from cause
        self._warnings.warn(
            "record", "records that are not events are skipped; the first such record: %s", error
        )

    def _locate(self, payload: bytes, outline: EventOutline, location: Location, row: int) -> None:
        _, first, _, record = location
        if outline.holds == "graph":
            self.graph = GraphLocation(
                os.path.basename(self.path), location, False, outline.wall_time
            )
        wall_time, step, _, values, histograms = outline
        samples, nbytes = self._samples, 0
        if histograms:
            self._locate_together(payload, histograms, step, wall_time, location)
        for tag, kind, start, end, scalar, width, height in values:
            rows = samples.get((kind, tag))
            if rows is None:
                rows = samples[kind, tag] = bytearray()
                self.tags.add((kind, tag))
                nbytes += _TAG_BYTES
            if kind == "scalar":
                self._places.setdefault(tag, [])
                rows += _PACK_SCALAR(row, step, wall_time, scalar)
                nbytes += _SCALAR.itemsize
                continue
            tail = b""
            if kind == "histogram":
                begin = end - TAIL
                tail = payload[begin if begin > start else start : end]  # noqa: FURB136 - no call
            nbytes += SAMPLE.itemsize
            rows += _PACK(step, wall_time, first + start, first + end, record, width, height, tail)
        self.nbytes += nbytes

    def _locate_together(
        self,
        payload: bytes,
        histograms: HistogramColumns,
        step: int,
        wall_time: float,
        location: Location,
    ) -> None:
        tags, starts, ends, *_ = histograms
        rows = np.zeros((1, len(tags)), SAMPLE)
        rows["step"], rows["wall_time"], rows["record"] = step, wall_time, location.record
        rows["start"], rows["end"] = starts + location.start, ends + location.start
        rows["tail"] = np.ndarray(len(payload) - TAIL + 1, f"V{TAIL}", payload, strides=1)[
            np.maximum(ends - TAIL, 0)
        ]
        blocks = self._blocks.get(tags)
        if blocks is None:
            blocks = self._blocks[tags] = []
            for number, tag in enumerate(tags):
                self._samples.setdefault(("histogram", tag), bytearray())
                self._columns_of.setdefault(tag, []).append((blocks, number))
            self.tags.update(("histogram", tag) for tag in tags)
            self.nbytes += _TAG_BYTES * len(tags)
        blocks.append(rows.view(_BYTES))
        if len(blocks) >= _STACKED and all(len(block) == 1 for block in blocks[-_STACKED:]):
            blocks[-_STACKED:] = [np.concatenate(blocks[-_STACKED:])]
        self.nbytes += rows.nbytes

    def _add(self, columns: ScalarColumns) -> None:
        chunks = self._columns.get(columns.tags)
        if chunks is None:
            chunks = self._columns[columns.tags] = []
            self.nbytes += _TAG_BYTES * len(columns.tags)
            self.tags.update(("scalar", tag) for tag in columns.tags)
            for number, tag in enumerate(columns.tags):
                self._places.setdefault(tag, []).append((chunks, number))
        rows, steps, wall_times, _, values = columns
        chunks.append(_Chunk(_compact_rows(rows), _small_integers(steps), wall_times, values))
        self.nbytes += _nbytes(chunks[-1])
        # Each joins only with one that is not much longer, so that a row is copied a few times,
        # however long the run.
        while (
            len(chunks) > 1
            and len(chunks[-2].rows) < 2 * len(chunks[-1].rows)
            and _nbytes(chunks[-2]) < _MAX_CHUNK
        ):
            chunks[-2:] = [_joined(*chunks[-2:])]

    def scalar_parts(self, tag: str) -> list[ScalarPart]:
        """Return the steps, wall times and values of a scalar, as a list of parts.

        All parts together are in file order.
        """
        found: list[tuple[NDArray[np.int64] | range, ScalarPart]] = []
        for chunks, index in self._places[tag]:
            for chunk in chunks:
                found.append((chunk.rows, (chunk.steps, chunk.wall_times, chunk.values[index])))
        loose = np.frombuffer(bytes(self._samples.get(("scalar", tag), b"")), _SCALAR)
        if loose.size:
            columns = {name: np.ascontiguousarray(loose[name]) for name in _SCALAR.names or ()}
            samples = (columns["step"], columns["wall_time"], columns["value"])
            found.append((columns["row"], samples))
        found.sort(key=lambda part: int(part[0][0]))
        parts = [part for _, part in found]
        if all(before[-1] < rows[0] for (before, _), (rows, _) in itertools.pairwise(found)):
            return parts
        order = np.argsort(np.concatenate([rows for rows, _ in found]), kind="stable")
        steps, wall_times, values = joined_parts(parts)
        return [(steps[order], wall_times[order], values[order])]

    def time_span(self) -> tuple[float, float] | None:
        """Return the wall times of the first and the last scalar, or ``None``.

        They are seconds since the epoch.
        """
        times = []
        for kind, tag in self.tags:
            if kind == "scalar":
                times += [
                    wall_times for _, wall_times, _ in self.scalar_parts(tag) if wall_times.size
                ]
        if not times:
            return None
        first = min(float(wall_times.min()) for wall_times in times)
        last = max(float(wall_times.max()) for wall_times in times)
        return first, last

    def samples(self, kind: str, tag: str) -> NDArray[np.void]:
        """Return the samples of a tag in file order, as rows with :data:`SAMPLE` columns.

        ``kind`` is any kind except scalar.
        """
        parts = [np.frombuffer(bytes(self._samples[kind, tag]), _BYTES)]
        for blocks, number in self._columns_of.get(tag, []) if kind == "histogram" else ():
            parts += [block[:, number] for block in blocks]
        rows = np.concatenate(parts).view(SAMPLE)
        ascends = (np.diff(rows["record"]) >= 0).all()
        if ascends:
            return rows
        return rows[np.argsort(rows["record"], kind="stable")]

    def tags_in_order(self, kind: str) -> list[str]:
        """Return the tags of a kind in the order in which they appear in the file."""
        if kind == "scalar":
            return list(self._places)
        return [tag for found, tag in self._samples if found == kind]


def joined_parts(parts: Sequence[ScalarPart]) -> ScalarPart:
    """Join all parts of a scalar into one part; at least one part is needed."""
    steps = np.concatenate([steps for steps, _, _ in parts])
    wall_times = np.concatenate([wall_times for _, wall_times, _ in parts])
    return steps, wall_times, np.concatenate([values for _, _, values in parts])


def _nbytes(chunk: _Chunk) -> int:
    return sum(part.nbytes for part in chunk if isinstance(part, np.ndarray))


def _joined(one: _Chunk, other: _Chunk) -> _Chunk:
    steps = np.concatenate([one.steps, other.steps])
    wall_times = np.concatenate([one.wall_times, other.wall_times])
    values = np.concatenate([one.values, other.values], axis=1)
    if (
        isinstance(one.rows, range)
        and isinstance(other.rows, range)
        and one.rows.stop == other.rows.start
    ):
        return _Chunk(range(one.rows.start, other.rows.stop), steps, wall_times, values)
    rows = np.concatenate([one.rows, other.rows])
    if one.rows[-1] > other.rows[0]:  # records of two lengths in turns
        order = np.argsort(rows, kind="stable")
        rows, steps, wall_times, values = (
            rows[order],
            steps[order],
            wall_times[order],
            values[:, order],
        )
    return _Chunk(_compact_rows(rows), steps, wall_times, values)


def _compact_rows(rows: NDArray[np.int64]) -> NDArray[np.int64] | range:
    first, last = int(rows[0]), int(rows[-1])
    if last - first + 1 == rows.size:
        return range(first, last + 1)
    return _small_integers(rows)


def _small_integers(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    fits = _INT32.min <= numbers.min() and numbers.max() <= _INT32.max
    return numbers.astype(np.int32 if fits else np.int64)
