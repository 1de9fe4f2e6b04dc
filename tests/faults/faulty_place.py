"""A place whose file system fails by a plan: a layer between the package and ``os``, for the files
below a directory.

It knows handles: one that was opened before :meth:`FaultyPlace.forget_handles` fails for ever, as
those of a FUSE daemon that was restarted, while a file that is opened after it works. Nothing else
in the process is touched.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any
from unittest import mock

_BY_HANDLE = ("write", "writev", "fsync", "ftruncate", "fstat", "dup", "lseek", "read")
_BY_PATH = ("stat", "lstat", "listdir", "mkdir", "unlink", "replace", "statvfs")
# a file of Python's own open writes past `os`
_OPEN_IN_C = "mindsummary_lightning.fileio.replace.open"


class FaultyPlace:
    """The faults below one directory, in a ``with`` statement.

    Attributes:
        down: the errno of every call, or ``None``.
        room: bytes that still fit, and the errno of a write for which there is none.
        failing: errno by name of the call that fails (``"fsync"``, ``"close"``).
        write_s: seconds that a write takes.
        time_out_s: seconds that a call takes while the place is down.
        is_read_only: whether nothing may be written.
        calls: how many calls came to the place.
    """

    def __init__(self, directory: Path, sleep: Callable[[float], None]) -> None:
        self.directory = os.path.realpath(directory)
        self._sleep = sleep
        self.down: int | None = None
        self.room: tuple[int, int] | None = None
        self.failing: dict[str, int] = {}
        self.write_s = self.time_out_s = 0.0
        self.is_read_only = False
        self.calls = 0
        self._handles: set[int] = set()
        self._written: set[int] = set()  # of them, those that are open for writing
        self._dead: dict[int, int] = {}  # errno by descriptor
        self._real = {name: getattr(os, name) for name in (*_BY_HANDLE, *_BY_PATH, "open", "close")}
        self._stack = ExitStack()

    def forget_handles(self, error: int) -> None:
        """From now on each call on a handle that is open now fails, for ever."""
        self._dead.update(dict.fromkeys(self._handles, error))

    # ---- the layer

    def _is_here(self, path: object) -> bool:
        if isinstance(path, int):
            return path in self._handles
        return os.path.abspath(os.fsdecode(path)).startswith(self.directory)  # type: ignore[arg-type]

    def _check(self, name: str, is_writing: bool) -> None:
        self.calls += 1
        if self.down is not None:
            self._sleep(self.time_out_s)
            raise OSError(self.down, os.strerror(self.down))
        if name in self.failing:
            raise OSError(self.failing[name], os.strerror(self.failing[name]))
        if self.is_read_only and is_writing:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def _on_handle(self, name: str) -> Callable[..., Any]:
        def call(descriptor: int, *arguments: Any) -> Any:
            if descriptor not in self._handles:
                return self._real[name](descriptor, *arguments)
            if descriptor in self._dead:
                self.calls += 1
                raise OSError(self._dead[descriptor], os.strerror(self._dead[descriptor]))
            self._check(name, name in ("write", "writev", "ftruncate"))
            if name == "write":
                return self._write(descriptor, arguments[0])
            if name == "writev":
                return self._write(descriptor, b"".join(arguments[0]))
            answer = self._real[name](descriptor, *arguments)
            if name == "dup":
                self._dead.pop(answer, None)
                self._handles.add(answer)
                self._written.add(answer)
            return answer

        return call

    def _write(self, descriptor: int, data: bytes) -> int:
        self._sleep(self.write_s)
        if self.room is None:
            return int(self._real["write"](descriptor, data))
        left, error = self.room
        fits = min(left, len(data))
        if not fits:
            raise OSError(error, os.strerror(error))
        self.room = left - fits, error
        return int(self._real["write"](descriptor, bytes(data)[:fits]))

    def _on_path(self, name: str) -> Callable[..., Any]:
        def call(path: Any = ".", *arguments: Any, **options: Any) -> Any:
            directories = [options.get(key) for key in ("dir_fd", "src_dir_fd")]
            if self._is_here(path) or any(each in self._handles for each in directories):
                self._check(name, name in ("mkdir", "unlink", "replace"))
            return self._real[name](path, *arguments, **options)

        return call

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        is_here = self._is_here(path) if dir_fd is None else dir_fd in self._handles
        if is_here:
            self._check("open", bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)))
        descriptor: int = self._real["open"](path, flags, mode, dir_fd=dir_fd)
        self._forget(descriptor)  # the number of one that C code closed
        if is_here:
            self._handles.add(descriptor)
        if is_here and flags & (os.O_WRONLY | os.O_RDWR):
            self._written.add(descriptor)
        return descriptor

    def _forget(self, descriptor: int) -> None:
        self._handles.discard(descriptor)
        self._written.discard(descriptor)
        self._dead.pop(descriptor, None)

    def _close(self, descriptor: int) -> None:
        self._real["close"](descriptor)  # it is closed all the same
        error = self._dead.get(descriptor)
        if error is None and descriptor in self._written:
            error = self.failing.get("close")
        self._forget(descriptor)
        if error is not None:
            raise OSError(error, os.strerror(error))

    def _python_open(
        self, path: str, mode: str, opener: Callable[[str, int], int]
    ) -> io.BufferedRandom:
        assert mode == "x+b"
        return io.BufferedRandom(
            _Raw(opener(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
        )

    def __enter__(self) -> FaultyPlace:
        wrappers: dict[str, Callable[..., Any]] = {
            **{name: self._on_handle(name) for name in _BY_HANDLE},
            **{name: self._on_path(name) for name in _BY_PATH},
            "open": self._open,
            "close": self._close,
        }
        for name, wrapper in wrappers.items():
            self._stack.enter_context(mock.patch.object(os, name, wrapper))
        supported = {wrappers[name] for name in ("open", "stat", "mkdir", "unlink")}
        self._stack.enter_context(
            mock.patch.object(os, "supports_dir_fd", os.supports_dir_fd | supported)
        )
        self._stack.enter_context(mock.patch(_OPEN_IN_C, self._python_open, create=True))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()


class _Raw(io.RawIOBase):
    """A file whose every call goes through ``os``."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return os.lseek(self._descriptor, offset, whence)

    def readinto(self, buffer: Any) -> int:
        data = os.read(self._descriptor, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def write(self, data: Any) -> int:
        return os.write(self._descriptor, bytes(data))

    def truncate(self, size: int | None = None) -> int:
        size = self.tell() if size is None else size
        os.ftruncate(self._descriptor, size)
        return size

    def close(self) -> None:
        if not self.closed:
            super().close()
            os.close(self._descriptor)
