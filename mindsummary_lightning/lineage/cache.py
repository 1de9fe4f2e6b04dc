"""``LineageCache``: the lineage of run directories; a file that has not changed is not read again.

A damaged file costs its own lineage only and is reported once, not at every query. The files and their states come from
``reading.summary_base_dir``; ``merge`` combines what they contain.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.lineage_codec import decode_lineage_event
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.lineage.merge import FileLineage, MergedLineage, lineage_of_file, merge_files
from mindsummary_lightning.reading.summary_base_dir import LineageFile
from mindsummary_lightning.values import LineageEvent
from mindsummary_lightning.warn_once import WarnOnce

__all__ = ["LineageCache"]

_LOG = logging.getLogger(__name__)
_MAX_RUNS = 32_768  # a run takes a few kilobytes; a query over more runs than this would read them all every time


class LineageCache:
    """The lineage of runs, kept for those queried most recently.

    Safe to use from several threads.

    Args:
        max_runs: how many runs are kept.
    """

    def __init__(self, max_runs: int = _MAX_RUNS) -> None:
        self._max_runs = max_runs
        # What was read of a run; a file that could not be opened is ``None`` and is tried again next time.
        self._runs: OrderedDict[str, tuple[dict[LineageFile, FileLineage | None], MergedLineage | None]] = OrderedDict()
        self._lock = threading.Lock()
        self._warnings = WarnOnce(_LOG)

    def lineage(self, directory: str, files: Iterable[LineageFile]) -> MergedLineage | None:
        """The merged lineage of a run's files, or ``None`` if they contain none.

        Args:
            directory: the run directory, the key in the cache.
            files: its lineage files as they are now, oldest first.
        """
        files = tuple(files)
        with self._lock:
            known, lineage = self._runs.get(directory, ({}, None))
            if known:
                self._runs.move_to_end(directory)
        if known and tuple(known) == files and None not in known.values():
            return lineage
        read = {file: known.get(file) or self._read(file) for file in files}
        lineage = merge_files(file for file in read.values() if file is not None)
        with self._lock:
            self._runs[directory] = (read, lineage)
            self._runs.move_to_end(directory)
            while len(self._runs) > self._max_runs:
                self._runs.popitem(last=False)
        return lineage

    def _read(self, file: LineageFile) -> FileLineage | None:
        try:
            return lineage_of_file(
                list(_events(file)), lambda problem: self._warn(file, "%s in %s", problem, file.path)
            )
        except DamagedFileError as error:
            self._warn(file, "skipped a damaged lineage file, as MindInsight does: %s", error)
            return FileLineage()
        except OSError as error:
            self._warn(file, "skipped a lineage file: %s", error)
            return None

    def _warn(self, file: LineageFile, message: str, *args: object) -> None:
        self._warnings.warn((file, message), message, *args)


def _events(file: LineageFile) -> Iterator[LineageEvent]:
    scanner, size = RecordScanner(file.path), file.state[0]
    yield from scanner.decoded(decode_lineage_event)
    if scanner.offset < size:
        raise DamagedFileError(file.path, scanner.offset, f"the file ends within it, at byte {size}")
