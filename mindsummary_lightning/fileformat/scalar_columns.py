"""Decode scalar events to NumPy columns, a million events in a second.

Other events are outlined (``event_outline``).

Events with the same tags have the same bytes, except for wall time, step and float32 values.
Records of one length are viewed as the rows of a byte matrix. The bytes of the values in the first
row are masked. Rows whose other bytes are equal have the same tags: one of them is outlined, and
all are cut into columns. Each record is compared with a few layouts at most, and then outlined
alone. So time grows only with the number of bytes, and not with the number of tags or of sets of
tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from mindsummary_lightning.fileformat.event_outline import EventOutline, outline_event
from mindsummary_lightning.fileformat.framing import OVERHEAD
from mindsummary_lightning.fileformat.records import Records
from mindsummary_lightning.fileformat.scalar_codec import STEP_KEY, WALL_TIME_KEY, scalar_head
from mindsummary_lightning.fileformat.wire import length_delimited

# index of a payload, and what it holds or why it is none
Outlined: TypeAlias = "tuple[int, EventOutline | ValueError]"

_WALL_TIME = slice(1, 9)
_STEP = 10  # offset of the step's varint
_SUMMARY = 5
_MAX_LAYOUTS = 64  # of one length
_PAYS, _PAYS_OF = 8, 128  # records that a layout should decode, and one of so many that are tried
_MAX_MISSES = 3  # how often it may decode fewer
_AT_ONCE = 128  # records that are compared as one long row
# records that are decoded together; among more, one that is alone of its length gets no layout
_WORTH = 32
_LAYOUT_BYTES = 500
_MAX_KEPT = 1 << 22  # bytes of all layouts, and of what one call adds


class ScalarColumns(NamedTuple):
    """Scalar events with the same tags, as NumPy columns.

    Attributes:
        rows: index of each event among the payloads, int64, shape ``(n,)``, ascending.
        steps: int64, shape ``(n,)``.
        wall_times: Unix times in seconds, float64, shape ``(n,)``.
        tags: the events' tags, in file order.
        values: float32, shape ``(len(tags), n)``.
    """

    rows: NDArray[np.int64]
    steps: NDArray[np.int64]
    wall_times: NDArray[np.float64]
    tags: tuple[str, ...]
    values: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Byte positions of the scalars in events that have the same length."""

    mask: NDArray[np.uint8]  # the bits that are equal where the tags are
    step_end: int
    starts: NDArray[np.intp]  # of the values
    tags: dict[bytes, tuple[str, ...]]  # of the sets seen so far, by the bits that are equal


class ScalarDecoder:
    """A decoder of scalar events that remembers the layouts of earlier files.

    Attributes:
        nbytes: approximate memory of the remembered layouts, in bytes.
    """

    def __init__(self) -> None:
        self._layouts: dict[int, list[_Layout]] = {}  # by length of an event, the last used first
        self._many: EventOutline | None = None  # the last event of many histograms
        self.nbytes: int = 0

    def decode(
        self, payloads: Records | Sequence[bytes]
    ) -> tuple[list[ScalarColumns], list[Outlined]]:
        """Decode scalar events to columns; locate the values of all other events.

        The outlines are in order. An event of scalars whose layout is rare is outlined too.
        """
        if self.nbytes > _MAX_KEPT:
            self._layouts, self.nbytes = {}, 0
        done: list[ScalarColumns] = []
        others: list[Outlined] = []
        records = payloads if isinstance(payloads, Records) else Records.of(payloads)
        sizes = np.diff(records.bounds)
        for rows in _groups(sizes):
            unknown = self._decode_known(done, records, rows, int(sizes[rows[0]]) - OVERHEAD)
            self._decode_new(done, others, records, unknown)
        others.sort(key=lambda other: other[0])
        return done, others

    def _decode_known(
        self, done: list[ScalarColumns], records: Records, rows: NDArray[np.intp], length: int
    ) -> NDArray[np.intp]:
        """Decode payloads of one length with known layouts; return the remaining rows."""
        known = self._layouts.get(length, [])
        left = rows
        misses = 0
        for layout in list(known):
            if not left.size or misses == _MAX_MISSES:
                break
            before = left.size
            left = self._decode_alike(done, records, left, layout)
            if left.size < before:
                known.remove(layout)
                known.insert(0, layout)
            misses += before - left.size < max(_PAYS, before // _PAYS_OF)
        return left

    def _decode_new(
        self,
        done: list[ScalarColumns],
        others: list[Outlined],
        records: Records,
        rows: NDArray[np.intp],
    ) -> None:
        """Decode payloads with new layouts; locate the values of the remaining payloads."""
        left = rows
        misses = 0
        while left.size:
            first = int(left[0])
            payload = records[first]
            outline = self._outline(payload)
            is_worth_it = left.size > 1 or len(records) <= _WORTH
            layout = None
            if is_worth_it and misses < _MAX_MISSES and not isinstance(outline, ValueError):
                layout = _layout_of(payload, outline)
            if layout is None:
                others.append((first, outline))
                left = left[1:]
                continue
            self._keep(len(payload), layout)
            before = left.size
            left = self._decode_alike(done, records, left, layout)
            misses += before - left.size <= max(_PAYS, before // _PAYS_OF)
            if before - left.size == 1:
                done.pop()
                others.append((first, outline))

    def _keep(self, length: int, layout: _Layout) -> None:
        known = self._layouts.setdefault(length, [])
        known.insert(0, layout)
        self.nbytes += _nbytes(layout) - sum(map(_nbytes, known[_MAX_LAYOUTS:]))
        del known[_MAX_LAYOUTS:]

    def _decode_alike(
        self, done: list[ScalarColumns], records: Records, rows: NDArray[np.intp], layout: _Layout
    ) -> NDArray[np.intp]:
        """Decode the payloads that have a given layout; return the remaining rows.

        All payloads have the length of the layout.
        """
        matrix = records.side_by_side(rows)
        tags = layout.tags.get((matrix[0] & layout.mask).tobytes())
        differs = _folded(np.bitwise_or, matrix) ^ _folded(np.bitwise_and, matrix)
        if tags is not None and not (differs & layout.mask).any():
            done.append(_columns(rows, matrix, layout, tags))
            return rows[:0]
        alike: dict[bytes, list[int]] = {}
        for index, row in enumerate(
            (matrix & layout.mask).view(f"V{layout.mask.size}")[:, 0].tolist()
        ):
            alike.setdefault(row, []).append(index)
        left = []
        for common, members in alike.items():
            tags = layout.tags.get(common)
            if tags is None and len(members) >= _PAYS:
                tags = self._learn(records[int(rows[members[0]])], common, layout)
            if tags is None:
                left += members
            else:
                done.append(_columns(rows[members], matrix[members], layout, tags))
        return rows[sorted(left)]

    def _learn(self, payload: bytes, common: bytes, layout: _Layout) -> tuple[str, ...] | None:
        """Return the tags of a payload whose values are where a layout expects them."""
        outline = self._outline(payload)
        own = None if isinstance(outline, ValueError) else _layout_of(payload, outline)
        if own is None or own.tags.keys() != {common}:
            return None
        self.nbytes -= _nbytes(layout)
        layout.tags.update(own.tags)
        self.nbytes += _nbytes(layout)
        return layout.tags[common]

    def _outline(self, payload: bytes) -> EventOutline | ValueError:
        try:
            outline = outline_event(payload, self._many)
        except ValueError as error:
            return error
        self._many = outline if outline.histograms else self._many
        return outline


def _groups(sizes: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """Return the indices of the records, in a separate array for every size."""
    if sizes.size and (sizes == sizes[0]).all():
        return [np.arange(sizes.size)]
    order = np.argsort(sizes, kind="stable")
    if sizes.size:
        return np.split(order, np.flatnonzero(np.diff(sizes[order])) + 1)
    return []


def _folded(fold: np.ufunc, matrix: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Reduce all rows of a matrix to a single row with a NumPy ufunc.

    Many rows are reduced at once, as a long row, so that NumPy loops over fewer rows.
    """
    (size, length), stride = matrix.shape, matrix.strides[0]
    if many := (size - 1) // _AT_ONCE:
        wide = as_strided(matrix, (many, _AT_ONCE * stride), (_AT_ONCE * stride, 1))
        rows = fold.reduce(wide, axis=0).reshape(_AT_ONCE, stride)[:, :length]
        matrix = np.concatenate([rows, matrix[many * _AT_ONCE :]])
    return np.asarray(fold.reduce(matrix, axis=0))


def _layout_of(payload: bytes, outline: EventOutline) -> _Layout | None:
    """Return the layout of a scalar event that this package or MindSpore encoded.

    It is ``None`` for any different encoding.
    """
    if len(payload) <= _STEP or payload[0] != WALL_TIME_KEY or outline.histograms:
        return None
    if any(one.kind != "scalar" for one in outline.values):
        return None
    step_end = _STEP - 1
    if payload[step_end] == STEP_KEY:
        step_end = (
            next((at for at in range(_STEP, _STEP + 10) if payload[at : at + 1] < b"\x80"), _STEP)
            + 1
        )
    body = b"".join(
        scalar_head(value.tag) + payload[value.end - 4 : value.end] for value in outline.values
    )
    # The values must be all that follows, in the one encoding whose offsets are known.
    if not body or payload[step_end:] != length_delimited(_SUMMARY, len(body)) + body:
        return None
    starts = np.array([value.end - 4 for value in outline.values])
    mask = np.full(len(payload), 255, np.uint8)
    mask[_WALL_TIME] = 0
    mask[_STEP:step_end] = 128  # tells how long the step's varint is
    mask[starts[:, None] + np.arange(4)] = 0
    common = (np.frombuffer(payload, np.uint8) & mask).tobytes()
    return _Layout(mask, step_end, starts, {common: tuple(value.tag for value in outline.values)})


def _nbytes(layout: _Layout) -> int:
    return (len(layout.tags) + 1) * (layout.mask.size + 16 * layout.starts.size + _LAYOUT_BYTES)


def _columns(
    rows: NDArray[np.intp], matrix: NDArray[np.uint8], layout: _Layout, tags: tuple[str, ...]
) -> ScalarColumns:
    steps = np.zeros(rows.size, np.uint64)
    for index, column in enumerate(range(_STEP, layout.step_end)):
        steps |= (matrix[:, column] & 127).astype(np.uint64) << np.uint64(7 * index)
    size, length = matrix.shape
    singles = as_strided(matrix[:, :4].view("<f4"), (length - 3, size), (1, matrix.strides[0]))
    wall_times = matrix[:, _WALL_TIME].view("<f8")[:, 0].astype(np.float64)
    values = singles[layout.starts].astype(np.float32, copy=False)
    return ScalarColumns(rows, steps.view(np.int64), wall_times, tags, values)
