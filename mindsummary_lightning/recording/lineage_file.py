"""The one lineage file of a run: all events so far, replaced atomically each time one is added.

One damaged record would void the complete file for MindInsight, and a file whose size did not change is not read again;
so it is never truncated and only grows.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileformat.lineage_codec import decode_lineage_event, encode_lineage_event
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
from mindsummary_lightning.values.lineage_info import CustomValue, repeated_fields
from mindsummary_lightning.values.text import printable
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)


class LineageFileWriter:
    """Collects a run's lineage in its file. Not thread-safe; its user holds a lock."""

    def __init__(self, files: EventFiles, clock: Callable[[], float]) -> None:
        self._files = files
        self._clock = clock
        self._events: list[LineageEvent] = []
        self._records: list[bytes] = []  # of the first events; each is encoded once
        self._path: str | None = None
        self._identity: tuple[int, int] | None = None
        self._carries_over = True
        self._warnings = WarnOnce(_LOG)

    @property
    def has_file(self) -> bool:
        """Whether a file was started."""
        return self._path is not None

    def begin_anew(self) -> None:
        """Start a file with the next event that says nothing of what is there now: that is another run's."""
        self._path, self._carries_over = None, False

    def write(self, value: LineageValue) -> None:
        """Add an event; an exact repeat is skipped. After an OSError the file is as it was before.

        Custom data that :func:`repeated_fields` finds (a ``batch_size`` among the hyper-parameters) become a RunInfo.

        The events in memory are those of the file. If it was deleted or replaced by somebody else, they are forgotten
        and the lineage files that are there now are read.
        """
        self._files.prepare()
        if self._path is None or self._is_gone(self._path):
            self._path = None
            self._events, self._records = _newest_of_each_kind(self._earlier() if self._carries_over else ()), []
        if self._is_written(value):
            return
        events, records = list(self._events), list(self._records)
        if isinstance(value, UserDefinedInfo) and not self._has_anchor():
            # The reader ignores a lineage file that holds custom data alone.
            self._events.append(LineageEvent(self._clock(), TrainInfo()))
        self._events.append(LineageEvent(self._clock(), value))
        self._hide_repetitions()
        try:
            self._replace()
        except BaseException:
            self._events, self._records = events, records
            raise

    def _hide_repetitions(self) -> None:
        train, custom = self._newest(TrainInfo), self._custom(UserDefinedInfo)
        hidden = repeated_fields(custom, train) if isinstance(train, TrainInfo) else {}
        if not hidden:
            return
        events: list[LineageEvent] = []
        for event in self._events:
            if type(event.what) is not UserDefinedInfo:
                events.append(event)
                continue
            for kind in (RunInfo, UserDefinedInfo):  # earlier values of an entry too: else one of them would be shown
                values = {
                    name: entry for name, entry in event.what.values.items() if (name in hidden) == (kind is RunInfo)
                }
                if values:
                    events.append(LineageEvent(event.wall_time, kind(values)))
        self._events, self._records = events, []

    def _replace(self) -> None:
        for event in self._events[len(self._records) :]:
            self._records.append(b"".join(frame([encode_lineage_event(event)])))
        data = b"".join(self._records)
        if self._path is not None:
            self._identity = replace_file(self._path, data, self._files.options.mode)
            return
        claimed = self._files.create(is_lineage=True)
        try:
            claimed.close()
            self._identity = replace_file(claimed.path, data, self._files.options.mode)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(claimed.path)  # an attempt that failed leaves no empty file
            raise
        self._path, self._carries_over = claimed.path, True

    def _is_gone(self, path: str) -> bool:
        try:
            status = os.stat(path, follow_symlinks=False)
        except FileNotFoundError:
            return True
        return (status.st_dev, status.st_ino) != self._identity

    def _is_written(self, value: LineageValue) -> bool:
        if not isinstance(value, UserDefinedInfo):
            return value == self._newest(type(value))
        known = self._custom(RunInfo)  # the reader merges all custom data, key by key
        if type(value) is UserDefinedInfo:
            train = self._newest(TrainInfo)
            hidden = repeated_fields(known, train) if isinstance(train, TrainInfo) else {}
            known = {**hidden, **self._custom(UserDefinedInfo)}
        return all(key in known and _is_same(known[key], entry) for key, entry in value.values.items())

    def _custom(self, kind: type[UserDefinedInfo]) -> dict[str, CustomValue]:
        return _merged_custom(event for event in self._events if type(event.what) is kind)

    def _newest(self, kind: type) -> LineageValue | None:
        return next((event.what for event in reversed(self._events) if type(event.what) is kind), None)

    def _has_anchor(self) -> bool:
        anchors = (TrainInfo, EvaluationInfo, DatasetGraph)
        return any(isinstance(event.what, anchors) for event in self._events)

    def _earlier(self) -> Iterator[LineageEvent]:
        # A later file with training lineage clears what the reader gathered before it, so what earlier processes wrote
        # into this directory (a run that is resumed or evaluated) is carried over.
        for path in self._files.lineage_paths():
            try:
                yield from map(decode_lineage_event, RecordScanner(path))
            except (DamagedFileError, ValueError, OSError) as error:
                self._warnings.warn(
                    path,
                    "the lineage in %s is not carried over into this run's new file: %s",
                    *(printable(path), printable(str(error))),
                )


def _is_same(old: CustomValue, new: CustomValue) -> bool:
    return old == new and type(old) is type(new)  # 1 and 1.0 are shown and filtered differently


def _newest_of_each_kind(events: Iterable[LineageEvent]) -> list[LineageEvent]:
    every = [event for event in events if event.what is not None]
    newest = {type(event.what): event for event in every}
    for kind in (UserDefinedInfo, RunInfo):
        if kind in newest:
            merged = _merged_custom(event for event in every if type(event.what) is kind)
            newest[kind] = LineageEvent(newest[kind].wall_time, kind(merged))
    return list(newest.values())


def _merged_custom(events: Iterable[LineageEvent]) -> dict[str, CustomValue]:
    merged: dict[str, CustomValue] = {}
    for event in events:
        if isinstance(event.what, UserDefinedInfo):
            merged.update(event.what.values)
    return merged
