"""Write a run's lineage file, which holds the newest event of every kind.

The file is replaced atomically at every change.

A single damaged record would make MindInsight ignore the whole file, so nothing is appended to it.
MindInsight does not read a file again whose size did not change, so a file that would not grow gets
a few bytes of filler. Custom data are one event with all keys. The file always stays below 64 KiB
(docs/decisions/0067-what-is-kept.md).
"""

from __future__ import annotations

import bisect
import contextlib
import json
import logging
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import OVERHEAD, frame
from mindsummary_lightning.fileformat.lineage_codec import (
    decode_lineage_event,
    encode_lineage_event,
)
from mindsummary_lightning.fileio.append import MissingRecords
from mindsummary_lightning.fileio.replace import replace_file
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.recording.event_files import EventFiles
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    LineageEvent,
    RunInfo,
    TrainInfo,
    UserDefinedInfo,
)
from mindsummary_lightning.values.events import LineageValue
from mindsummary_lightning.values.lineage_info import (
    AddedEvaluation,
    CustomValue,
    parsed_metric,
    repeated_fields,
)
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)

_MAX_CONTENT = 64_000  # bytes of all records, so that a file with its filler is smaller than 64 KiB
# names that the evaluations of a run keep together, the newest: an event of some 40 KB
_MAX_METRICS = 1000
# so many sizes follow each other, each larger than the last, before one may come again
_MAX_FILLER = 512
# MindInsight ignores a lineage file without any of them
_ANCHORS = (TrainInfo, EvaluationInfo, DatasetGraph)
_BY_RANK = (*_ANCHORS, RunInfo, UserDefinedInfo)  # of what does not fit together, the first stays

_Newest = Mapping[type, LineageEvent]  # of each kind, the one written last at the end


class LineageFileWriter:
    """A writer that keeps the lineage file of a run up to date.

    Not thread-safe: the caller holds a lock.
    """

    def __init__(self, files: EventFiles, clock: Callable[[], float]) -> None:
        self._files = files
        self._clock = clock
        self._newest: _Newest | None = None  # what the file says; ``None``: to be read there
        self._path: str | None = None
        self._identity: tuple[int, int] | None = None
        self._size = 0
        self._carries_over = True
        self._calls = 0  # whose values the file holds
        self._losses: list[MissingRecords] = []
        self._warnings = WarnOnce(_LOG)

    @property
    def has_file(self) -> bool:
        """Tell whether this writer has started a lineage file."""
        return self._path is not None

    def reset(self) -> None:
        """Begin a new lineage file with the next event, without events of the old file.

        The old file belongs to another run.
        """
        self._path, self._newest, self._carries_over, self._calls = None, {}, False, 0

    def forget_content(self) -> None:
        """Free the memory that holds the file's content; the path stays known."""
        if self._path is not None:
            self._newest = None

    def write(self, *values: LineageValue, replaced: Collection[str] = ()) -> None:
        """Add values by replacing the file once; skip values that it already contains.

        Custom data with the names ``replaced`` are removed first. Custom data that
        :func:`repeated_fields` finds (such as a hyper-parameter ``batch_size``) become a RunInfo.
        If the file was deleted or replaced by another program, the lineage files that exist now are
        read.

        Raises:
            OSError: the file could not be replaced, and is as it was before.
        """
        self._files.prepare()
        before, calls = self._newest, self._calls
        if self._path is not None and self._is_gone(self._path):
            self._path = self._newest = None
            self._calls = 0
        if self._newest is None or (self._path is None and self._carries_over):
            paths = self._files.lineage_paths() if self._path is None else [self._path]
            self._newest = _newest_of_each_kind(self._events_of(paths))
            if calls and not self._calls and before is not None:
                self._compare_with_before(before, calls)
        newest = _without(self._newest, replaced)
        added = [self._add(newest, value) for value in values]
        if any(added) or newest != self._newest:
            self._newest = self._replace(newest)
        self._calls += 1

    def _compare_with_before(self, before: _Newest, calls: int) -> None:
        """Count the values that were lost with a removed file.

        No value is lost if a file with the same content is at its path.
        """
        if self._newest == before:  # a file system in user space may number its files anew
            self._calls = calls
        else:
            self._losses.append(MissingRecords(calls, is_removed=True))

    def take_losses(self) -> list[MissingRecords]:
        """Return the number of writes that were lost with a removed or replaced file.

        Losses that an earlier call returned are left out.
        """
        losses, self._losses = self._losses, []
        return losses

    def _add(self, newest: dict[type, LineageEvent], value: LineageValue) -> bool:
        """Replace the newest value of the same kind; return False if both are equal."""
        if isinstance(value, AddedEvaluation):
            value = _with_earlier_metrics(newest, value)
        kind, now = type(value), self._clock()
        if isinstance(value, UserDefinedInfo):
            known, own = _custom(newest, kind), _custom(newest, UserDefinedInfo)
            shown = (
                {**_repeated(newest, _custom(newest, RunInfo)), **own}
                if kind is UserDefinedInfo
                else known
            )
            if all(
                key in shown and _is_same(shown[key], entry) for key, entry in value.values.items()
            ):
                return False
            value = type(value)({**known, **value.values})
        elif kind in newest and newest[kind].what == value:
            return False
        _put(newest, LineageEvent(now, value))
        _hide_repeated(newest, now)
        return True

    def _replace(self, newest: _Newest) -> _Newest:
        """Replace the file, and return the events that the new file contains."""
        if not any(kind in newest for kind in _ANCHORS):
            newest = {TrainInfo: LineageEvent(self._clock(), TrainInfo()), **newest}
        fitting = self._fitting(newest)
        events = [fitting[kind] for kind in newest if kind in fitting]
        size = sum(map(_size, events))
        filler = max(0, self._size + 1 - size) if self._path is not None else 0
        fillers = [0] * (len(events) - 1) + [filler if filler <= _MAX_FILLER else 0]
        payloads = map(encode_lineage_event, events, fillers)
        data = b"".join(bytes(part) for payload in payloads for part in frame([payload]))
        if self._path is not None:
            self._identity = replace_file(self._path, data, self._files.options.mode)
        else:
            claimed = self._files.create(is_lineage=True)
            try:
                claimed.close()
                self._identity = replace_file(claimed.path, data, self._files.options.mode)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(claimed.path)  # an attempt that failed leaves no empty file
                raise
            self._path, self._carries_over = claimed.path, True
        self._size = len(data)
        return {type(event.what): event for event in events}

    def _fitting(self, newest: _Newest) -> dict[type, LineageEvent]:
        """Return the lineage events that fit into a lineage file of 64 KiB.

        Of custom data the first keys that fit are kept; any other value is kept whole or dropped.
        """
        fitting: dict[type, LineageEvent] = {}
        left = _MAX_CONTENT
        for kind in _BY_RANK:
            event = newest.get(kind)
            if event is None:
                continue
            if _size(event) > left:
                shorter = _shortened(event, left)
                self._warnings.warn(
                    ("large", kind),
                    "%s of %s is too large for a lineage file of 64 KiB and is not recorded. "
                    "Record fewer or shorter texts",
                    *(_described(event, shorter), self._files.directory),
                )
                if shorter is None:
                    continue
                event = shorter
            fitting[kind] = event
            left -= _size(event)
        return fitting

    def _is_gone(self, path: str) -> bool:
        try:
            status = os.stat(path, follow_symlinks=False)
        except FileNotFoundError:
            return True
        return (status.st_dev, status.st_ino) != self._identity

    def _events_of(self, paths: Iterable[str]) -> Iterator[LineageEvent]:
        # A later file with training lineage clears what the reader gathered before it, so what
        # earlier processes wrote into this directory (a run that is resumed or evaluated) is
        # carried over.
        for path in paths:
            try:
                yield from map(decode_lineage_event, RecordScanner(path))
            except (DamagedFileError, ValueError, OSError) as error:
                self._warnings.warn(
                    path,
                    "the lineage in %s cannot be read and is missing in this run's new file: %s",
                    path,
                    error,
                )


def _without(newest: _Newest, names: Collection[str]) -> dict[type, LineageEvent]:
    """Return lineage events without the custom data that have given names.

    Names that are stored as a field of the training are removed as well.
    """
    left = dict(newest)
    dropped = {
        UserDefinedInfo: {*names},
        RunInfo: {*names} & _repeated(newest, _custom(newest, RunInfo)).keys(),
    }
    for kind, without in dropped.items():
        custom = _custom(newest, kind)
        kept = {name: entry for name, entry in custom.items() if name not in without}
        if kept:
            left[kind] = LineageEvent(newest[kind].wall_time, kind(kept))
        else:
            left.pop(kind, None)  # MindInsight fails on an empty one
    return left


def _with_earlier_metrics(newest: _Newest, added: AddedEvaluation) -> EvaluationInfo:
    """Return an evaluation that also has the metrics of the run's earlier evaluations."""
    known = newest[EvaluationInfo].what if EvaluationInfo in newest else None
    earlier = _metrics(known) if isinstance(known, EvaluationInfo) else {}
    own = _metrics(added)
    joined = {name: value for name, value in earlier.items() if name not in own} | own
    kept = dict(list(joined.items())[-_MAX_METRICS:])
    return EvaluationInfo(json.dumps(kept), added.valid_dataset_path, added.valid_dataset_size)


def _metrics(evaluation: EvaluationInfo) -> dict[str, Any]:
    """Return the metrics of an evaluation, without NaN and infinite values.

    MindSpore writes such values, which are not valid JSON.
    """
    try:
        metrics = parsed_metric(evaluation.metric or "{}")
    except ValueError:  # another program's text
        return {}
    return {name: value for name, value in metrics.items() if not _is_non_finite(value)}


def _is_non_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _is_same(old: CustomValue, new: CustomValue) -> bool:
    return old == new and type(old) is type(new)  # 1 and 1.0 are shown and filtered differently


def _hide_repeated(newest: dict[type, LineageEvent], now: float) -> None:
    """Hide from MindInsight the custom data that repeat a field of the training.

    They are moved into a field that only this package reads.
    """
    custom = _custom(newest, UserDefinedInfo)
    hidden = _repeated(newest, custom)
    if not hidden:
        return
    _put(newest, LineageEvent(now, RunInfo({**_custom(newest, RunInfo), **hidden})))
    left = {key: entry for key, entry in custom.items() if key not in hidden}
    del newest[UserDefinedInfo]
    if left:  # MindInsight fails on an empty one
        newest[UserDefinedInfo] = LineageEvent(now, UserDefinedInfo(left))


def _put(newest: dict[type, LineageEvent], event: LineageEvent) -> None:
    newest.pop(type(event.what), None)
    newest[type(event.what)] = event


def _custom(newest: _Newest, kind: type[LineageValue]) -> Mapping[str, CustomValue]:
    what = newest[kind].what if kind in newest else None
    return what.values if isinstance(what, UserDefinedInfo) else {}


def _repeated(newest: _Newest, custom: Mapping[str, CustomValue]) -> dict[str, CustomValue]:
    train = newest[TrainInfo].what if TrainInfo in newest else None
    return repeated_fields(custom, train) if isinstance(train, TrainInfo) else {}


def _newest_of_each_kind(events: Iterable[LineageEvent]) -> _Newest:
    newest: dict[type, LineageEvent] = {}
    for event in events:
        what = event.what
        if isinstance(what, UserDefinedInfo):
            what = type(what)({**_custom(newest, type(what)), **what.values})
        if what is not None:
            newest[type(what)] = LineageEvent(event.wall_time, what)
    return newest


def _size(event: LineageEvent) -> int:
    return len(encode_lineage_event(event)) + OVERHEAD


def _shortened(event: LineageEvent, size: int) -> LineageEvent | None:
    """Return the event with as many custom data as fit, or ``None`` if none fits."""
    what = event.what
    if not isinstance(what, UserDefinedInfo):
        return None
    items, kind = list(what.values.items()), type(what)

    def first(count: int) -> LineageEvent:
        return LineageEvent(event.wall_time, kind(dict(items[:count])))

    count = bisect.bisect_right(
        range(1, len(items) + 1), size, key=lambda count: _size(first(count))
    )
    return first(count) if count else None


def _described(event: LineageEvent, shorter: LineageEvent | None) -> str:
    if not isinstance(event.what, UserDefinedInfo):
        return type(event.what).__name__
    kept = (
        shorter.what.values
        if shorter is not None and isinstance(shorter.what, UserDefinedInfo)
        else {}
    )
    lost = [key for key in event.what.values if key not in kept]
    return f"custom data {lost[0]!r}" + (f" and {len(lost) - 1} more" if len(lost) > 1 else "")
