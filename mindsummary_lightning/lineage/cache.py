"""``LineageCache``: the lineage of run directories; a file that has not changed is not read again.

A damaged file costs its own lineage only and is reported once, not at every query. The files and their states come from
``reading.summary_base_dir``; ``merge`` combines what they contain.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.lineage_codec import decode_lineage_event
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.lineage.merge import FileLineage, MergedLineage, lineage_of_file, merge_files
from mindsummary_lightning.reading.run_tree import FileState
from mindsummary_lightning.values import LineageEvent
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)
# Content by path and state of a file; ``None`` if it could not be opened: that is tried again next time.
_Read: TypeAlias = "dict[tuple[str, FileState], FileLineage | None]"
_MAX_RUNS = 32_768  # a run takes a few kilobytes; a query over more runs than this would read them all every time


class LineageCache:
    """The lineage of runs, kept for those queried most recently.

    Safe to use from several threads.

    Args:
        max_runs: how many runs are kept.
    """

    def __init__(self, max_runs: int = _MAX_RUNS) -> None:
        self._max_runs = max_runs
        self._runs: OrderedDict[str, tuple[_Read, MergedLineage | None]] = OrderedDict()
        self._lock = threading.Lock()
        self._warnings = WarnOnce(_LOG)

    def lineage(self, directory: str, files: Mapping[str, FileState]) -> MergedLineage | None:
        """The merged lineage of a run's files, or ``None`` if they contain none.

        Args:
            directory: the run directory, the key in the cache.
            files: paths and states of its lineage files as they are now, oldest first.
        """
        with self._lock:
            known, lineage = self._runs.get(directory, ({}, None))
            if known:
                self._runs.move_to_end(directory)
        if known and tuple(known) == tuple(files.items()) and None not in known.values():
            return lineage
        read = {file: known.get(file) or self._read(*file) for file in files.items()}
        lineage = merge_files(file for file in read.values() if file is not None)
        with self._lock:
            self._runs[directory] = (read, lineage)
            self._runs.move_to_end(directory)
            while len(self._runs) > self._max_runs:
                self._runs.popitem(last=False)
        return lineage

    def _read(self, path: str, state: FileState) -> FileLineage | None:
        def warn(message: str, *args: object) -> None:
            self._warnings.warn((path, state, message), message, *args)

        try:
            return lineage_of_file(list(_events(path, state)), lambda problem: warn("%s in %s", problem, path))
        except DamagedFileError as error:
            warn("skipped a damaged lineage file, as MindInsight does: %s", error)
            return FileLineage()
        except OSError as error:
            warn("skipped a lineage file: %s", error)
            return None


def _events(path: str, state: FileState) -> Iterator[LineageEvent]:
    scanner, size = RecordScanner(path), state[0]
    yield from scanner.decoded(decode_lineage_event)
    if scanner.offset < size:
        raise DamagedFileError(path, scanner.offset, f"the file ends within it, at byte {size}")
