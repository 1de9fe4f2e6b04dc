"""Stores for tests: one in memory that fails by a seed, and a real server of the S3 interface."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

from mindsummary_lightning.fileformat.file_names import is_summary_name, read_order
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.remote.store import Store


class Clock:
    """Seconds that pass when somebody sleeps or stalls."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Faults:
    """What goes wrong: each call may fail before or after it has taken effect, halfway, or be late by 60 s."""

    def __init__(self, seed: int, probability: float = 0.3) -> None:
        self.random = random.Random(seed)
        self.probability = probability
        self.clock = Clock()
        self.after_call: Callable[[], None] = lambda: None
        self.happened: list[str] = []

    def call(self, effect: Callable[[float], Any]) -> Any:
        """Call ``effect`` with the share of the bytes that arrive."""
        kind = "nothing"
        if self.random.random() < self.probability:
            kind = self.random.choice(["before", "after", "half", "stall"])
            self.happened.append(kind)
        try:
            if kind == "before":
                raise OSError("500: nothing was done")
            if kind == "stall":
                self.clock.now += 60
            answer = effect(self.random.random() if kind == "half" else 1.0)
            if kind in ("after", "half"):
                raise OSError(f"500: {kind}, and no answer")
            return answer
        finally:
            self.after_call()


class _FaultyFile:
    """Of an open file in memory, every write is a call."""

    def __init__(self, file: Any, faults: Faults) -> None:
        self._file, self._faults = file, faults

    def __enter__(self) -> _FaultyFile:
        return self

    def __exit__(self, *raised: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: bytes) -> Any:
        return self._faults.call(lambda share: self._file.write(data[: int(len(data) * share)]))


class RewritingStore(MemoryFileSystem):
    """A store in memory that cannot append."""

    name: ClassVar[str] = "rewriting"
    protocol: ClassVar[Any] = "rewriting"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    faults: ClassVar[Faults] = Faults(0, 0.0)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace(f"{cls.name}://", "memory://")))

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        data = Path(lpath).read_bytes()
        put = super().pipe_file
        self.faults.call(lambda share: put(rpath, data[: int(len(data) * share)]))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        data = super().cat_file(path, start, end, **options)
        if self.faults.random.random() < self.faults.probability:
            self.faults.happened.append("short read")
            return data[: len(data) // 2]
        return data

    def find(self, path: str, **options: Any) -> Any:
        find = super().find
        return self.faults.call(lambda share: find(path, **options))


class AppendingStore(RewritingStore):
    """A store in memory that appends."""

    name: ClassVar[str] = "appending"
    protocol: ClassVar[Any] = ("appending", "memory")
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        file = super().open(path, mode, **options)
        return _FaultyFile(file, self.faults) if mode == "ab" else file


for _kind in (RewritingStore, AppendingStore):
    fsspec.register_implementation(_kind.name, _kind, clobber=True)


def far_files(store: Store) -> dict[str, bytes]:
    """What a run at an address of a store is, by name, without what only sync reads."""
    return {name: store.read(name, 0, file.size) for name, file in store.list().items() if not name.startswith(".")}


def files_in_memory(kind: type[RewritingStore]) -> dict[str, bytes]:
    """The same of ``/run`` in a store in memory, past its faults."""
    named = {path.removeprefix("/run/"): file.getvalue() for path, file in kind.store.items()}
    return {name: data for name, data in named.items() if not name.startswith(".")}


def far_steps(files: dict[str, bytes], local: Path) -> list[int]:
    """The steps in the copy of a run, whose summary files are checked to be beginnings of ours and to have no hole."""
    summaries = read_order(name for name in files if is_summary_name(name))
    for number, name in enumerate(summaries):
        ours = (local / name).read_bytes()
        assert ours.startswith(files[name]), f"{name} is no beginning of ours"
        assert number == len(summaries) - 1 or len(files[name]) == len(ours), f"a file overtook {name}"
    if not summaries:
        return []
    with tempfile.TemporaryDirectory() as there:
        for name in summaries:
            (Path(there) / name).write_bytes(files[name])
        reader = SummaryReader(there)
        return reader.scalars("loss").steps.tolist() if "loss" in reader.tags()["scalar"] else []


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    """A server with S3's interface and an empty bucket ``bucket``; yields its address, which the environment names."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    names = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        s3 = fsspec.filesystem("s3", skip_instance_cache=True)
        s3.mkdir("bucket")
        yield names["AWS_ENDPOINT_URL"]
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        server.stop()
