"""The lineage of run directories; a file that did not change since this process last read it is not read again.

A damaged file costs its own lineage only and is reported once, not at every query. Which files there are, and in which
state, is ``run_listing``'s to say; what they mean together is ``merge``'s.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.lineage_codec import decode_lineage_event
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.lineage.merge import FileLineage, MergedLineage, lineage_of_file, merged
from mindsummary_lightning.reading.summary_base_dir import LineageFile
from mindsummary_lightning.values import LineageEvent

__all__ = ["RunCache"]

_LOG = logging.getLogger(__name__)
_MAX_RUNS = 8192  # a run takes a few kilobytes: more runs than a server lists, less memory than an import of torch


@dataclass(frozen=True, slots=True)
class _Read:
    """A run as it was read; ``None`` stands for a file that could not be opened and is tried again next time."""

    files: Mapping[LineageFile, FileLineage | None]
    lineage: MergedLineage | None


class RunCache:
    """The lineage of runs, kept for the runs asked for last.

    Safe to use from several threads.

    Args:
        most_runs: how many runs are kept.
    """

    def __init__(self, most_runs: int = _MAX_RUNS) -> None:
        self._most_runs = most_runs
        self._runs: OrderedDict[str, _Read] = OrderedDict()
        self._lock = threading.Lock()

    def lineage(self, directory: str, files: Iterable[LineageFile]) -> MergedLineage | None:
        """What the lineage files of a run say together, or ``None`` if they say nothing.

        Args:
            directory: the run; names what is kept.
            files: its lineage files as they are now, oldest first.
        """
        files = tuple(files)
        with self._lock:
            known = self._runs.get(directory)
            if known is not None:
                self._runs.move_to_end(directory)
        if known is not None and tuple(known.files) == files and None not in known.files.values():
            return known.lineage
        read = {file: (known.files.get(file) if known else None) or _lineage_of(file) for file in files}
        lineage = merged(file for file in read.values() if file is not None)
        with self._lock:
            self._runs[directory] = _Read(read, lineage)
            self._runs.move_to_end(directory)
            while len(self._runs) > self._most_runs:
                self._runs.popitem(last=False)
        return lineage


def _lineage_of(file: LineageFile) -> FileLineage | None:
    try:
        return lineage_of_file(file.path, list(_events(file)))
    except DamagedFileError as error:
        _LOG.warning("a damaged lineage file is left out as a whole, also by MindInsight: %s", error)
        return FileLineage()
    except OSError as error:
        _LOG.warning("a lineage file is left out: %s", error)
        return None


def _events(file: LineageFile) -> Iterator[LineageEvent]:
    scanner, start = RecordScanner(file.path), 0
    for payload in scanner:
        try:
            yield decode_lineage_event(payload)
        except ValueError as error:
            raise DamagedFileError(file.path, start, str(error)) from error
        start = scanner.offset
    size = file.state[0]
    if start < size:
        raise DamagedFileError(file.path, start, f"the file ends within it, at byte {size}")
