"""``FollowedRun``: the samples of one run directory, read on from where they were read to whenever it is asked.

What a page of many runs asks again and again: tags, scalars as arrays, the locations of everything else. It is safe to
use from several threads.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.fileformat.file_names import is_summary_name, read_order
from mindsummary_lightning.reading.file_content import GraphLocation, LocatedSample
from mindsummary_lightning.reading.followed_file import FollowedFile
from mindsummary_lightning.reading.outlines import Location
from mindsummary_lightning.reading.results import ScalarSeries
from mindsummary_lightning.reading.samples import merged_samples, merged_scalars, tags_by_kind
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")
_MAX_REMEMBERED = 4096  # results; of a run that is watched for days the oldest are forgotten


class FollowedRun:
    """Reads one run directory and remembers what it has read.

    Symbolic links are not followed: whoever may look at a directory need not be allowed to look elsewhere.

    Args:
        run_dir: the directory with the summary files.

    Attributes:
        run_dir: the directory.
        nbytes: bytes of memory that it took after the last :meth:`read_on`, roughly.
        is_complete: whether the file written last ended with a complete record then, and none was damaged.
    """

    def __init__(self, run_dir: str) -> None:
        self.run_dir = run_dir
        self._lock = threading.RLock()
        self._warnings = WarnOnce(_LOG)
        self._files: list[FollowedFile] = []
        self._models: list[GraphLocation] = []
        self._tags = tags_by_kind(())
        self._remembered: dict[Hashable, object] = {}
        self.nbytes = 0
        self.is_complete = True

    def read_on(self) -> bool:
        """Read what has been added since the last call; everything, if a file was removed or rewritten.

        Returns:
            Whether anything changed.

        Raises:
            OSError: the directory cannot be listed. A file that cannot be read is skipped with a warning.
        """
        with self._lock:
            found = _regular_files(self.run_dir)
            names = read_order(name for name in found if is_summary_name(name))
            known = {os.path.basename(file.path): file for file in self._files}
            is_stale = any(name not in found or file.was_rewritten(found[name]) for name, file in known.items())
            if is_stale:
                known = {}
                self._remembered = {}
            files = [known.get(name) or FollowedFile(os.path.join(self.run_dir, name)) for name in names]
            is_new = is_stale or len(files) > len(known)
            self._files = files
            has_grown = [self._read_file(file, found[name]) for name, file in zip(names, files, strict=True)]
            models = _models(self.run_dir, found)
            changed = is_new or any(has_grown) or models != self._models
            self._models = models
            if changed:
                self._tags = tags_by_kind(files)
                self.nbytes = sum(file.nbytes for file in files)
            self.is_complete = next((file.is_complete for file in reversed(files) if not file.is_empty), True)
            return changed

    def _read_file(self, file: FollowedFile, stat: os.stat_result) -> bool:
        before = file.offset
        try:
            file.read_on(stat)
        except OSError as error:
            self._warnings.warn(file.path, "skipped a file that cannot be read: %s", error)
        return file.offset > before

    def tags(self) -> dict[str, list[str]]:
        """Sorted tags of each kind, as :meth:`SummaryReader.tags` gives them."""
        with self._lock:
            return dict(self._tags)

    def scalars(self, tag: str) -> ScalarSeries:
        """All samples of a scalar.

        Raises:
            LookupError: the run has no scalar of this tag.
        """
        with self._lock:
            return merged_scalars(self._files_with("scalar", tag), tag)

    def samples(
        self, kind: str, tag: str, select: Callable[[NDArray[np.int64]], NDArray[np.intp]] | None = None
    ) -> list[LocatedSample]:
        """Samples of a tag, located but not decoded, by step.

        Args:
            kind: image, tensor, histogram or loss_landscape.
            tag: the tag.
            select: chooses samples: the indices that it returns for the ascending steps; ``None`` takes all.

        Raises:
            LookupError: the run has no such tag.
        """
        with self._lock:
            return merged_samples(self._files_with(kind, tag), kind, tag, select)

    def _files_with(self, kind: str, tag: str) -> list[FollowedFile]:
        files = [file for file in self._files if (kind, tag) in file.tags]
        if not files:
            raise LookupError(f"{self.run_dir} has no {kind} {tag!r}")
        return files

    def remembered(self, key: Hashable, compute: Callable[[], _T]) -> _T:
        """A result that depends on recorded bytes alone, computed once and kept until a file is rewritten.

        Args:
            key: names the result, for example ``("statistics", location)``.
            compute: called if the result is not known.
        """
        known = self._remembered
        if key in known:
            return cast("_T", known[key])
        result = compute()
        with self._lock:
            known[key] = result
            if len(known) > _MAX_REMEMBERED:
                del known[next(iter(known))]
        return result

    def graphs(self) -> list[GraphLocation]:
        """The newest graph of the summary files, if any, and every ``.pb`` file, oldest first."""
        with self._lock:
            return [file.graph for file in self._files if file.graph is not None][-1:] + self._models


def _regular_files(run_dir: str) -> dict[str, os.stat_result]:
    found = {}
    with os.scandir(run_dir) as entries:
        for entry in entries:
            if (is_summary_name(entry.name) or entry.name.endswith(".pb")) and entry.is_file(follow_symlinks=False):
                try:
                    found[entry.name] = os.lstat(entry.path)  # the entry's own answer may be stale on Windows
                except FileNotFoundError:  # deleted since the directory was listed
                    continue
    return found


def _models(run_dir: str, found: dict[str, os.stat_result]) -> list[GraphLocation]:
    models = [
        GraphLocation(name, Location(os.path.join(run_dir, name), 0, stat.st_size, 0), True, stat.st_mtime)
        for name, stat in found.items()
        if name.endswith(".pb") and stat.st_size
    ]
    return sorted(models, key=lambda model: (model.wall_time, model.name))
