"""Copy runs between local directories and remote stores.

The address of a remote store is, for example, ``s3://bucket/runs``.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from io import FileIO
from typing import Any

from mindsummary_lightning.errors import ForeignFileError, RemotePathError, imported
from mindsummary_lightning.fileformat.file_names import is_summary_name
from mindsummary_lightning.fileio.append import is_locked
from mindsummary_lightning.fileio.regular import files_below, open_regular, path_of_open
from mindsummary_lightning.fileio.replace import replacement
from mindsummary_lightning.fileio.salvage import copy_data
from mindsummary_lightning.reading.run_directory import files_by_run
from mindsummary_lightning.values.addresses import (
    is_remote,
    with_both_slashes,
    without_local_scheme,
)
from mindsummary_lightning.values.text import without_secrets

_WARN = partial(
    logging.getLogger(__name__).warning, "skipped a directory that cannot be listed: %s"
)
# Seconds without growth: where a lock cannot tell whether a writer lives, and where it can.
_REMOTE_SILENCE_S, _LOCAL_SILENCE_S = 600.0, 60.0
_TIMES = ("mtime", "LastModified", "last_modified", "created")  # in what drivers list


class Store:
    """A local directory or remote store, the source or destination of copies.

    It is accessed through fsspec. ``name`` is its address without passwords and tokens.

    Raises:
        RemotePathError: the store cannot be reached, or does not report when files changed.
    """

    def __init__(self, address: str) -> None:
        address = with_both_slashes(without_local_scheme(address))
        self.is_local: bool = not is_remote(address)
        self.name: str = without_secrets(address, address)
        fsspec = imported("fsspec", "sync")
        try:
            self.files, root = fsspec.core.url_to_fs("file:///" if self.is_local else address)
        except Exception as error:  # drivers raise whatever their libraries raise
            lack = re.search(r"install (\w+)", str(error), re.IGNORECASE)
            hint = f": pip install {lack[1]}" if lack and isinstance(error, ImportError) else ""
            advice = "OBS, OSS, MinIO: s3://BUCKET/PATH and AWS_ENDPOINT_URL"
            text = f"{self.name} cannot be reached ({advice}): {error}"
            raise RemotePathError(without_secrets(text + hint, address)) from None
        self.root: str = (os.path.realpath(address) if self.is_local else root).rstrip("/")
        if type(self.files).modified is fsspec.AbstractFileSystem.modified:
            raise RemotePathError(
                f"{self.name}: this store does not report when files changed; nothing was copied"
            )

    def list(
        self, on_error: Callable[[OSError], object] = _WARN
    ) -> dict[str, tuple[int, int, str]]:
        """Return size, time and ETag of all files in the store that are not hidden.

        The size is in bytes (-1: no regular file), the time of the last change in ns since 1970. A
        hidden run directly in the store counts, as in every list of runs.
        """
        listed = {}
        if self.is_local:
            for name, (size, ns) in files_below(self.root, on_error).items():
                listed[name] = size, ns, ""
        else:
            self.files.invalidate_cache()
            for path, info in self.files.find(self.root, detail=True).items():
                # the place itself may be listed when it has just been made
                if info["type"] != "directory":
                    size = info["size"] if info["type"] == "file" else -1
                    tag = info.get("ETag", "").strip('"')
                    name = path[len(self.root) + 1 :]
                    listed[name] = size, self._changed_ns(path, info), tag
        return {name: facts for name, facts in listed.items() if _is_visible(name)}

    def _changed_ns(self, path: str, info: Mapping[str, Any]) -> int:
        """Return the time of a remote file's last change, in ns since 1970."""
        for key in _TIMES:
            if isinstance(info.get(key), float | int | datetime):
                time = info[key]
                break
        else:
            time = self.files.modified(path)
        seconds = time.timestamp() if isinstance(time, datetime) else time
        return round(seconds * 1e9)

    def md5(self, name: str, size: int) -> str:
        """Return the MD5 of the first ``size`` bytes of a file, in hexadecimal digits.

        S3 has the MD5 of an object as its ETag if the object was sent in a single request.
        """
        digest = hashlib.md5(usedforsecurity=False)
        with self.opened(name, size) as file:
            chunk = file.read(min(1 << 20, size))
            while chunk:
                digest.update(chunk)
                chunk = file.read(min(1 << 20, size - file.tell()))
        return digest.hexdigest()

    @contextlib.contextmanager
    def opened(self, name: str, size: int) -> Iterator[FileIO]:
        """Open a file of the store; of a remote file, a temporary copy.

        Raises:
            OSError: the file has less than ``size`` bytes, or cannot be read.
        """
        with contextlib.ExitStack() as stack:
            root, path = self.root, os.path.join(self.root, name)
            if not self.is_local:
                root = stack.enter_context(tempfile.TemporaryDirectory())
                path = os.path.join(root, "file")
                self.files.get_file(f"{self.root}/{name}", path)
            file = stack.enter_context(open_regular(path, root=root))
            found = os.stat(file.fileno()).st_size
            if found < size:
                raise OSError(
                    f"{self.name}/{name}: the file must have at least {size} bytes, got {found}"
                )
            yield file

    def put(self, name: str, source: Store, size: int, ns: int) -> int:
        """Copy a file of another store to this store, and return its size in bytes.

        A local copy gets the time ``ns`` at which the original was changed.
        """
        with source.opened(name, size) as file:
            if self.is_local:
                path = os.path.join(self.root, name)
                with replacement(path, root=self.root, is_synced=False) as copy:
                    copy_data(file, 0, os.fstat(file.fileno()).st_size, copy)
                    target = copy.fileno() if os.utime in os.supports_fd else copy.name
                    os.utime(target, ns=(ns, ns))
            else:
                self.files.put_file(path_of_open(file), f"{self.root}/{name}")
            return os.fstat(file.fileno()).st_size


def _is_visible(name: str) -> bool:
    """Tell whether no part of a file's name is hidden or empty.

    Only the first directory may be hidden: ``.run/file``.

    ``..`` in the name of an object would lead out of the destination.
    """
    first, _, rest = name.partition("/")
    is_in_hidden = rest != "" and first.startswith(".") and first not in (".", "..")
    return re.search(r"(^|/)(/|\.|$)", rest if is_in_hidden else name) is None


class RunCopies:
    """Copies of all runs in a source, which are sent to a destination.

    A file is copied as a whole if its copy is not up to date.

    Attributes:
        runs: the files of each run, in the order in which they are sent.
        problems: errors of the last round, by file.
        sent: number of bytes sent so far.
        missing: number of bytes of the files that could not be sent in the last round.
    """

    def __init__(
        self, source: Store, destination: Store, *, force: bool = False, verify: bool = False
    ) -> None:
        self._source = source
        self._destination = destination
        self._is_forced = force
        self._verifies = verify
        self._files: dict[str, tuple[int, int]] = {}
        # what a file was when its copy was found, or made
        self._made: dict[str, tuple[int, int]] = {}
        self.runs: dict[str, list[str]] = {}
        self.problems: dict[str, Exception] = {}
        self.sent: int = 0
        self.missing: int = 0

    def send(self) -> bool:
        """Copy once; return whether the source has changed since the previous call."""
        before, self.problems = self._files, {}
        closed: list[OSError] = []
        try:
            listed, there = self._source.list(), self._destination.list(closed.append)
        except Exception as error:
            self.problems = {f"{self._source.name} to {self._destination.name}": error}
            return False
        self.runs = files_by_run({name: size for name, (size, *_) in listed.items()})
        self._files = {}
        for names in self.runs.values():
            self._files.update((name, listed[name][:2]) for name in names)
        for names in self.runs.values():
            self._send_run(names, there, closed)
        self.missing = 0
        for name, state in self._files.items():
            if self._made.get(name) != state:
                self.missing += state[0]
        return self._files != before

    def _send_run(
        self,
        names: Sequence[str],
        there: Mapping[str, tuple[int, int, str]],
        closed: Sequence[OSError],
    ) -> None:
        """Send a run's files in order; stop if a summary file cannot be sent."""
        for name in names:
            try:
                self._raise_if_unlisted(name, closed)
                if self._is_due(name, *self._files[name] + there.get(name, (-2, 0, ""))):
                    self.sent += self._destination.put(name, self._source, *self._files[name])
                self._made[name] = self._files[name]
            except Exception as error:
                self.problems[name] = error
                if is_summary_name(os.path.basename(name)):
                    return

    def _raise_if_unlisted(self, name: str, closed: Sequence[OSError]) -> None:
        """Raise the error of the destination's directory if it could not be listed."""
        path = f"{self._destination.root}/{name}"
        for error in closed:
            if path.startswith(f"{error.filename}/"):
                raise error

    def silence_s(self) -> float:
        """Return the number of seconds without a change after which the runs have ended.

        The result is infinite if a writer has locked a file, or if there is no run.
        """
        names = [name for name in self._files if is_summary_name(os.path.basename(name))]
        if not self._source.is_local:
            if not self.runs:
                return math.inf
            return _REMOTE_SILENCE_S if names else _LOCAL_SILENCE_S
        locks = [is_locked(f"{self._source.root}/{name}") for name in names]
        if not self.runs or True in locks:
            return math.inf
        if None in locks:
            return _REMOTE_SILENCE_S
        return _LOCAL_SILENCE_S

    def _is_due(
        self, name: str, size: int, ns: int, size_there: int, ns_there: int, tag: str
    ) -> bool:
        is_ours = self._is_forced or name in self._made or (ns_there <= ns and size_there != -1)
        if size_there == size and name in self._made:
            return self._made[name] != (size, ns)
        is_due = size_there != size or ns > ns_there
        # S3 tells whole seconds
        if size_there == size and (self._verifies or ns_there == ns - ns % 10**9 < ns):
            is_due = not self._is_beginning(name, size, tag)
        if is_due and not is_ours:
            is_beginning = size_there < size and self._is_beginning(name, size_there)
            if not is_beginning:
                raise ForeignFileError(
                    f"{self._destination.name}/{name}", f"{self._source.name}/{name}"
                )
        return is_due

    def _is_beginning(self, name: str, size: int, tag: str = "") -> bool:
        """Tell whether the original file begins with the bytes of its copy.

        A copy that was made while the original was growing is such a beginning.
        """
        original = self._source.md5(name, size)
        return original == tag or original == self._destination.md5(name, size)
