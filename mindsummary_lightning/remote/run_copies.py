"""``RunCopies``: the copies of some runs, brought up to date one round at a time.

At every moment a copy is a run that can be opened. First come the summary files, in the reader's order and each up to a
whole record; after a failure nothing more is sent, for a newer file must not be there before an older one is complete.
Then come the lineage and other small files, then landscape checkpoints and npy files, each whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import IO, TypeAlias

from mindsummary_lightning.errors import DamagedFileError, MindSummaryError
from mindsummary_lightning.fileformat.file_names import is_summary_name, read_order, timestamp_of
from mindsummary_lightning.fileio.append import try_lock
from mindsummary_lightning.fileio.regular import open_regular
from mindsummary_lightning.remote.store import CHUNK, Store, StoredFile
from mindsummary_lightning.remote.whole_records import WholeRecords

_TAIL = 1 << 16  # bytes at the end that are compared
_SMALL = 16 << 20  # bytes of a file beside the summary files that belongs to the run, and not to a program
_SENT = ".mindsummary-sync"  # beside a copy: what was sent of files that are replaced, to know them again
_VERSIONS = 3  # of each of them: the one that is there, and those of attempts that may have failed

_Fingerprint: TypeAlias = "list[int | str]"  # bytes, and a checksum of the last ones


class ForeignFileError(MindSummaryError, FileExistsError):
    """A file at the destination is not the beginning of ours, nor anything that was sent before; it is not touched."""


class _Copy:
    """What is known of a run at the destination, until an attempt fails."""

    def __init__(self, destination: Store, run: str) -> None:
        self.sizes = {path: file.size for path, file in destination.list(run).items()}
        self.checked: set[str] = set()
        self.list = f"{run}/{_SENT}".lstrip("/")
        self.sent: dict[str, list[_Fingerprint]] = {}
        if self.list in self.sizes:
            with contextlib.suppress(ValueError, TypeError):  # a store that lets a part be seen, or somebody else's
                self.sent = dict(json.loads(destination.read(self.list, 0, self.sizes[self.list])))


class RunCopies:
    """The runs at or below a source, and their copies.

    Args:
        source: where the runs are.
        destination: where the copies are, or will be.

    Attributes:
        problems: what failed in the last round, by file or run.
        missing: bytes that were not there after it.
        runs: number of runs then.
    """

    def __init__(self, source: Store, destination: Store) -> None:
        self._source = source
        self._destination = destination
        self._listed: dict[str, StoredFile] | None = None
        self._live: list[str] = []
        self._copies: dict[str, _Copy] = {}
        self._done: dict[str, StoredFile] = {}
        self._borders: dict[str, int] = {}
        self.problems: dict[str, Exception] = {}
        self.missing = 0
        self.runs = 0

    @property
    def may_succeed(self) -> bool:
        """Whether trying again soon may help: something failed for another reason than what the files are."""
        return not all(isinstance(problem, MindSummaryError) for problem in self.problems.values())

    def send(self) -> bool:
        """Do one round; return whether the source has changed since the one before."""
        self.problems, self.missing = {}, 0
        try:
            files = self._source.list()
        except Exception as error:  # here and below: drivers raise whatever their libraries raise
            self.problems[self._source.address] = error
            return True
        has_changed, self._listed = files != self._listed, files
        runs = _runs(files)
        self.runs, self._live = len(runs), []
        for run, paths in runs.items():
            summaries = [path for path in paths if is_summary_name(os.path.basename(path))]
            self._live += summaries[-1:]
            try:
                if any(self._done.get(path) != files[path] for path in paths):
                    self._send_run(run, {path: files[path] for path in paths})
            except Exception as error:
                self.problems[run or self._source.address] = error
                copy = self._copies.pop(run, None)
                there = copy.sizes if copy else {}
                self.missing += sum(max(0, files[path].size - there.get(path, 0)) for path in paths)
        return has_changed

    def is_recorded(self) -> bool | None:
        """Whether a writer holds a run open; ``None`` if that cannot be known, as of a source that is far away.

        Each file is locked for a moment, so ask only of files that have not changed for a while.
        """
        locks = []
        for name in self._live if self._source.is_local else ():
            with contextlib.suppress(OSError):
                descriptor = open_regular(self._source.path(name))
                locks.append(try_lock(descriptor))
                os.close(descriptor)
        return True if False in locks else None if None in locks or not locks else False

    def _send_run(self, run: str, files: Mapping[str, StoredFile]) -> None:
        if run not in self._copies:
            self._copies[run] = _Copy(self._destination, run)
        copy = self._copies[run]
        for path, file in files.items():
            if self._done.get(path) == file or not file.size:
                continue
            if is_summary_name(os.path.basename(path)):
                self._send_records(path, copy)
            else:
                self._send_whole(path, copy)
            if path not in self.problems:
                self._done[path] = file

    def _send_records(self, path: str, copy: _Copy) -> None:
        # Measured now: a file that was already followed by a newer one when they were listed is complete by now.
        size, at = self._source.size(path), copy.sizes.get(path, 0)
        if at and path not in copy.checked:
            with self._source.open(path) as ours, self._destination.open(path) as theirs:
                if at > size or _fingerprint(theirs, at) != _fingerprint(ours, at):
                    copy.sizes[path] = 0  # of ours, nothing is there
                    raise self._foreign(path)
        copy.checked.add(path)
        records = WholeRecords(self._source, path, size, self._borders.get(path, 0))
        self._destination.extend(path, at, records.after)
        copy.sizes[path] = max(at, records.end)
        self._borders[path] = records.end
        if records.damage is not None:
            raise DamagedFileError(
                records.damage.path,
                records.damage.offset,
                f"{records.damage.reason}; nothing from there on is sent: run `mindsummary repair`",
            )

    def _send_whole(self, path: str, copy: _Copy) -> None:
        with self._source.open(path) as file:
            size = file.seek(0, os.SEEK_END)
            ours, sent = _fingerprint(file, size), copy.sent.get(path, [])
            if path in copy.sizes:
                with self._destination.open(path) as there:
                    theirs = _fingerprint(there, there.seek(0, os.SEEK_END))
                if theirs == ours:
                    copy.sizes[path] = size
                    return
                if theirs not in sent and theirs != _fingerprint(file, min(size, int(theirs[0]))):
                    self.problems[path] = self._foreign(path)
                    self.missing += size
                    return
            if not path.endswith(".npy"):  # these are many, and each has the name of its step
                copy.sent[path] = [*sent, ours][-_VERSIONS:]
                self._destination.write(copy.list, [json.dumps(copy.sent).encode()])
            file.seek(0)
            self._destination.write(path, iter(lambda: file.read(CHUNK), b""))
            copy.sizes[path] = size

    def _foreign(self, path: str) -> ForeignFileError:
        return ForeignFileError(
            f"{self._destination.path(path)} is not the beginning of {self._source.path(path)}, so it is not touched; "
            "name another destination, or move that file away"
        )


def _fingerprint(file: IO[bytes], size: int) -> _Fingerprint:
    """Of the first bytes of a file."""
    file.seek(max(0, size - _TAIL))
    return [size, hashlib.sha256(file.read(min(size, _TAIL))).hexdigest()]


def _runs(files: Mapping[str, StoredFile]) -> dict[str, list[str]]:
    """The runs among some files: for each directory with event files, what belongs to it, in the order of sending."""
    visible = [path for path in files if not any(part.startswith(".") for part in path.split("/"))]
    found = {os.path.dirname(path) for path in visible if timestamp_of(os.path.basename(path)) is not None}
    runs: dict[str, list[str]] = {run: [] for run in sorted(found)}
    for path in visible:
        run = next((folder for folder in _folders(path) if folder in runs), None)
        if run is not None:
            runs[run].append(path)
    return {run: _in_order(run, paths, files) for run, paths in runs.items()}


def _folders(path: str) -> Iterator[str]:
    """The directories that a path is in, innermost first; the last one is the source itself, ``""``."""
    while path:
        path = os.path.dirname(path)
        yield path


def _in_order(run: str, paths: list[str], files: Mapping[str, StoredFile]) -> list[str]:
    prefix = f"{run}/" if run else ""
    names = [path[len(prefix) :] for path in paths]
    direct = [name for name in names if "/" not in name]
    summaries = [name for name in direct if is_summary_name(name)]
    small = [name for name in direct if name not in summaries and files[prefix + name].size <= _SMALL]
    large = [name for name in names if name.startswith(("ckpt_dir/", "export_")) and "/" in name]
    # What is listed in a file is there before it: train_metadata.json, shortened_names.txt.
    large.sort(key=lambda name: (name.endswith((".json", ".txt")), name))
    small.sort(key=lambda name: (timestamp_of(name) is None, name))
    return [prefix + name for name in (*read_order(summaries), *small, *large)]
