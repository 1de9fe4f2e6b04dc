"""Copies of runs: a ``Store`` is a local directory or an address as ``s3://bucket/runs``, ``RunCopies`` fills one."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from io import FileIO

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
_TIMES = ("mtime", "LastModified", "last_modified", "created")  # in what drivers list


class Store:
    """One side of a copy, through fsspec; ``name`` is its address without passwords and tokens."""

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
            text = f"{self.name} cannot be reached (OBS, OSS, MinIO: s3://BUCKET/PATH and AWS_ENDPOINT_URL): {error}"
            raise RemotePathError(without_secrets(text + hint, address)) from None
        self.root: str = (os.path.realpath(address) if self.is_local else root).rstrip("/")
        if type(self.files).modified is fsspec.AbstractFileSystem.modified:
            raise RemotePathError(
                f"{self.name}: its driver does not tell when a file was changed; nothing was copied"
            )

    def list(
        self, on_error: Callable[[OSError], object] = _WARN
    ) -> dict[str, tuple[int, int, str]]:
        """Size (-1: no regular file), time of the last change in ns since 1970, and ETag of all that is not hidden.

        A hidden run directly in the place counts, as in every list of runs.
        """
        if self.is_local:
            listed = {
                name: (*facts, "") for name, facts in files_below(self.root, on_error).items()
            }
        else:
            self.files.invalidate_cache()
            listed = {}
            for path, info in self.files.find(self.root, detail=True).items():
                # as the place itself may be listed when it has just been made
                if info["type"] != "directory":
                    times = [
                        info[key]
                        for key in _TIMES
                        if isinstance(info.get(key), float | int | datetime)
                    ]
                    time = times[0] if times else self.files.modified(path)
                    ns = round((time.timestamp() if isinstance(time, datetime) else time) * 1e9)
                    size = info["size"] if info["type"] == "file" else -1
                    listed[path[len(self.root) + 1 :]] = size, ns, info.get("ETag", "").strip('"')
        return {name: facts for name, facts in listed.items() if _is_visible(name)}

    def md5(self, name: str, size: int) -> str:
        """That of a file's first bytes, in hexadecimal digits: S3's ETag of an object that came in one request."""
        digest = hashlib.md5(usedforsecurity=False)
        with self.opened(name, size) as file:
            while chunk := file.read(min(1 << 20, size - file.tell())):
                digest.update(chunk)
        return digest.hexdigest()

    @contextlib.contextmanager
    def opened(self, name: str, size: int) -> Iterator[FileIO]:
        """A file of at least some bytes to read: itself, or a temporary copy."""
        with (
            contextlib.nullcontext(self.root)
            if self.is_local
            else tempfile.TemporaryDirectory() as root
        ):
            path = os.path.join(root, name if self.is_local else "file")
            if not self.is_local:
                self.files.get_file(f"{self.root}/{name}", path)
            with open_regular(path, root=root) as file:
                if (found := os.stat(file.fileno()).st_size) < size:
                    raise OSError(f"{self.name}/{name}: {found} bytes arrived of {size}")
                yield file

    def put(self, name: str, source: Store, size: int, ns: int) -> int:
        """Let a file of another store take the place of one here, with the time that was listed; return its size."""
        with source.opened(name, size) as file:
            if self.is_local:
                with replacement(
                    os.path.join(self.root, name), root=self.root, is_synced=False
                ) as copy:
                    copy_data(file, 0, os.fstat(file.fileno()).st_size, copy)
                    os.utime(
                        copy.fileno() if os.utime in os.supports_fd else copy.name, ns=(ns, ns)
                    )
            else:
                self.files.put_file(path_of_open(file), f"{self.root}/{name}")
            return os.fstat(file.fileno()).st_size


def _is_visible(name: str) -> bool:
    """Whether no part of a name is hidden or empty, apart from a directory in front: ``.run/file``.

    ``..`` in an object's name would lead out of the other side.
    """
    first, _, rest = name.partition("/")
    is_in_hidden = rest != "" and first.startswith(".") and first not in (".", "..")
    return re.search(r"(^|/)(/|\.|$)", rest if is_in_hidden else name) is None


class RunCopies:
    """The runs at or below a source; each file is copied as a whole if its copy is not up to date.

    ``runs``: the files of each, in order of sending; ``problems`` of the last round; bytes ``sent``
    and ``missing``.
    """

    def __init__(
        self, source: Store, destination: Store, *, force: bool = False, verify: bool = False
    ) -> None:
        self._source, self._destination, self._is_forced, self._verifies = (
            source,
            destination,
            force,
            verify,
        )
        self._files: dict[str, tuple[int, int]] = {}
        # what a file was when its copy was found, or made
        self._made: dict[str, tuple[int, int]] = {}
        self.runs: dict[str, list[str]] = {}
        self.problems: dict[str, Exception] = {}
        self.sent: int = 0
        self.missing: int = 0

    def send(self) -> bool:
        """Do one round; return whether the source has changed since the one before."""
        before, self.problems, closed = self._files, {}, list[OSError]()
        try:
            listed, there = self._source.list(), self._destination.list(closed.append)
        except Exception as error:
            self.problems = {f"{self._source.name} to {self._destination.name}": error}
            return False
        self.runs = files_by_run({name: size for name, (size, *_) in listed.items()})
        self._files = {name: listed[name][:2] for names in self.runs.values() for name in names}
        for names in self.runs.values():
            for name in names:
                try:
                    for blind in (
                        e
                        for e in closed
                        if f"{self._destination.root}/{name}".startswith(f"{e.filename}/")
                    ):
                        raise blind
                    if self._is_due(name, *self._files[name] + there.get(name, (-2, 0, ""))):
                        self.sent += self._destination.put(name, self._source, *self._files[name])
                    self._made[name] = self._files[name]
                except Exception as error:
                    self.problems[name] = error
                    if is_summary_name(os.path.basename(name)):
                        break
        self.missing = sum(
            ours[0] for name, ours in self._files.items() if self._made.get(name) != ours
        )
        return self._files != before

    def silence_s(self) -> float:
        """How long they must not have changed to have ended: for ever if a writer holds a file, or there is no run."""
        names = [name for name in self._files if is_summary_name(os.path.basename(name))]
        locks = {
            is_locked(f"{self._source.root}/{name}") if self._source.is_local else None
            for name in names
        }
        return math.inf if not self.runs or True in locks else 600.0 if None in locks else 60.0

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
        if (
            is_due
            and not is_ours
            and not (size_there < size and self._is_beginning(name, size_there))
        ):
            raise ForeignFileError(
                f"{self._destination.name}/{name}", f"{self._source.name}/{name}"
            )
        return is_due

    def _is_beginning(self, name: str, size: int, tag: str = "") -> bool:
        """Whether a copy is what its original begins with, as one that was made while the original grew."""
        return (
            original := self._source.md5(name, size)
        ) == tag or original == self._destination.md5(name, size)
