"""``RunCopies``: the copies of some runs, brought up to date one round at a time.

At every moment a copy is a run that can be opened. First come the summary files, in the reader's order and each up to a
whole record; after a failure nothing more, for a newer file must not be there before an older one is complete. Then
come lineage and other small files, then landscape checkpoints and npy files, each whole.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator
from itertools import chain
from typing import IO, Any

from mindsummary_lightning.errors import DamagedFileError, ForeignFileError
from mindsummary_lightning.fileformat.file_names import is_summary_name, read_order, timestamp_of
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileio.append import is_locked
from mindsummary_lightning.fileio.blocks import blocks_of
from mindsummary_lightning.remote.store import Store

_CHUNK = 1 << 20  # bytes that are read at a time
_TAIL = 1 << 16  # bytes at the end that are compared
_SMALL = 16 << 20  # bytes of a file beside the summary files that belongs to the run, and not to a program
_PATIENCE = 9  # rounds for which a file waits that would be sent from its beginning
_SENT = ".mindsummary-sync"  # beside a copy: what was sent of files that are replaced, to know them again
_VERSIONS = 10  # of each of them: ours, the one that was there, and those of attempts that may have failed


class RunCopies:
    """The runs at or below a source, and their copies at a destination.

    ``runs`` has summary files and other files, in the order of sending; ``problems`` what failed in the last round.
    """

    def __init__(self, source: Store, destination: Store) -> None:
        self._source = source
        self._destination = destination
        self._files: dict[str, dict[str, Any]] = {}
        self._done: dict[str, dict[str, Any]] = {}
        self._there: dict[str, int] = {}  # bytes of ours at the destination, as far as is known
        self._borders: dict[str, int] = {}  # ends of records: what is before is not read again
        self._waited: dict[str, int] = {}  # rounds
        self.runs: dict[str, list[list[str]]] = {}
        self.problems: dict[str, Exception] = {}

    @property
    def missing(self) -> int:
        """Bytes of the runs that are not there."""
        paths = [path for path in chain(*chain(*self.runs.values())) if self._done.get(path) != self._files[path]]
        return sum(max(0, self._files[path]["size"] - self._there.get(path, 0)) for path in paths)

    def send(self, is_last: bool = True) -> bool:
        """Do one round; return whether the source has changed since the one before.

        Before ``is_last``, what would be sent from its beginning waits until it is three times as long, or nine rounds.
        """
        self.problems = {}
        try:
            files = self._source.list()
        except Exception as error:  # here and below: drivers raise whatever their libraries raise
            self.problems[self._source.address] = error
            return True
        has_changed, self._files = files != self._files, files
        self.runs = _runs(files)
        for run, (summaries, others) in self.runs.items():
            try:
                if any(self._done.get(path) != files[path] for path in summaries + others):
                    self._send_run(run, summaries, others, is_last)
            except Exception as error:
                self.problems[run or self._source.address] = error
        return has_changed

    def is_recorded(self) -> bool | None:
        """Whether a writer holds a run open, or none has begun; ``None`` where that cannot be known, as far away."""
        live = [self._source.path(summaries[-1]) for summaries, _ in self.runs.values() if summaries]
        locks = {is_locked(path) if self._source.is_local else None for path in live}
        return not self.runs or True in locks or (None if None in locks else False)

    def _send_run(self, run: str, summaries: list[str], others: list[str], is_last: bool) -> None:
        there = {path: info["size"] for path, info in self._destination.list(run).items()}
        self._there |= there
        sent_path = f"{run}/{_SENT}".lstrip("/")
        sent = self._sent(sent_path) if sent_path in there else {}
        for path in summaries + others:
            if path in there and self._done.get(path) == self._files[path]:
                continue
            with self._source.open(path) as file:
                if path not in summaries and file.seek(0, os.SEEK_END) <= _SMALL:
                    file.seek(0)
                    file = io.BytesIO(file.read())  # one that is written in place is sent as it was compared
                size, at, theirs = file.seek(0, os.SEEK_END), there.get(path, 0), ""
                ours, known = _fingerprint(file, size), sent.get(path, [])
                if path in there:
                    with self._destination.open(path) as copy:
                        theirs = _fingerprint(copy, at)
                if theirs not in ("", ours, _fingerprint(file, min(size, at)), *known):
                    self._there[path] = 0  # of ours
                    self.problems[path] = ForeignFileError(self._destination.path(path), self._source.path(path))
                elif path in summaries and theirs != ours:
                    if not self._extend(path, file, at, size, is_last or path != summaries[-1]):
                        continue
                elif theirs != ours:
                    is_noted = not path.endswith(".npy")  # these are many, and each has the name of its step
                    if is_noted:
                        self._note(sent_path, path, ours, theirs)
                    file.seek(0)
                    self._destination.put(path, (file.read(min(_CHUNK, size - at)) for at in range(0, size, _CHUNK)))
                    if is_noted:  # a second command may have noted its own in the meantime, without ours
                        self._note(sent_path, path, ours)
            if path not in self.problems:
                self._done[path] = self._files[path]
            elif path in summaries:
                break

    def _sent(self, sent_path: str) -> dict[str, list[str]]:
        try:
            with self._destination.open(sent_path) as file:
                return dict(json.load(file))
        except (FileNotFoundError, ValueError, TypeError, RecursionError):  # a part was seen, or it is somebody else's
            return {}

    def _note(self, sent_path: str, path: str, *versions: str) -> None:
        """Add versions to what is known of a file there."""
        sent = self._sent(sent_path)
        known = sent.get(path, [])
        sent[path] = [*versions, *(version for version in known if version not in versions)][:_VERSIONS]
        if sent[path] != known:
            self._destination.put(sent_path, [json.dumps(sent).encode()])

    def _extend(self, path: str, file: IO[bytes], at: int, size: int, is_last: bool) -> bool:
        """Send the records that are not there; return False if they wait for more of them."""
        kept, waited = self._destination.kept(at), self._waited.pop(path, 0)
        if kept < at < size < 3 * at and not is_last and waited < _PATIENCE:
            self._waited[path] = waited + 1
            return False
        records = self._records(path, file, kept)
        if first := next(records, b""):
            self._destination.put(path, chain([first], records), kept)
            self._there[path] = self._borders[path]
        return True

    def _records(self, path: str, file: IO[bytes], start: int) -> Iterator[bytes]:
        """Yield the bytes from ``start`` to the end of the last complete record."""
        border = self._borders.get(path, 0)
        border = border if border <= start else 0
        try:
            for end, payloads in blocks_of(file, self._source.path(path), border):
                if end > start:  # their checksums have been compared, so framed again they are the same bytes
                    records = b"".join(chain.from_iterable(frame([payload]) for payload in payloads))
                    yield records[max(0, start - border) :]
                border = end
        except DamagedFileError as error:
            reason = f"{error.reason}; nothing from there on is sent: run `mindsummary repair`"
            self.problems[path] = DamagedFileError(error.path, error.offset, reason)
        self._borders[path] = border


def _fingerprint(file: IO[bytes], size: int) -> str:
    """Of the first bytes of a file: how many they are, and a checksum of the last of them."""
    file.seek(max(0, size - _TAIL))
    tail = file.read(min(size, _TAIL))
    if len(tail) != min(size, _TAIL):
        raise OSError(f"{len(tail)} bytes arrived of {min(size, _TAIL)}")
    return f"{size}:{hashlib.sha256(tail).hexdigest()}"


def _runs(files: dict[str, dict[str, Any]]) -> dict[str, list[list[str]]]:
    """The directories with event files; of each the summary files and what else belongs to it, in order of sending."""
    # Hidden names are of programs at work, and ".." in an object's name would lead out of the destination.
    visible = sorted(path for path in files if not any(part[:1] in ("", ".") for part in path.split("/")))
    stages: dict[str, dict[str, int]] = {
        folder: {} for folder, name in map(os.path.split, visible) if timestamp_of(name) is not None
    }
    for path in visible:
        run = os.path.dirname(path)
        while run and run not in stages:
            run = os.path.dirname(run)
        if run in stages:
            name = path[len(run) + bool(run) :]
            stages[run][name] = _stage(name, files[path]["size"])
    runs = {}
    for run, staged in stages.items():
        summaries = read_order(name for name, stage in staged.items() if stage == 0)
        others = [name for name in sorted(staged, key=staged.__getitem__) if staged[name] > 0]
        runs[run] = [[f"{run}/{name}".lstrip("/") for name in names] for names in (summaries, others)]
    return runs


def _stage(name: str, size: int) -> int:
    """When a file of a run is sent; 0 is for summary files, -1 for what is not of the run."""
    if "/" in name:  # what is listed in a file is there before it: train_metadata.json, shortened_names.txt
        return 3 + name.endswith((".json", ".txt")) if name.startswith(("ckpt_dir/", "export_")) else -1
    if timestamp_of(name) is None:
        return 2 if size <= _SMALL else -1
    return 0 if is_summary_name(name) else 1
