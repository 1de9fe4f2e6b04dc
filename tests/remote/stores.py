"""Stores for tests: one in memory that fails by a seed, and a real server of the S3 interface."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

from mindsummary_lightning.fileformat.file_names import is_summary_name, read_order
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.remote.run_copies import Store


class Clock:
    """Seconds that pass when somebody sleeps or stalls."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Faults:
    """What goes wrong: each call may fail before or after it has taken effect, halfway, or be late
    by 60 s.
    """

    def __init__(self, seed: int, probability: float = 0.3) -> None:
        self.random = random.Random(seed)
        self.probability = probability
        self.clock = Clock()
        self.after_call: Callable[[], None] = lambda: None
        self.happened: list[str] = []

    def draw(self) -> str:
        """What goes wrong in the next call."""
        if self.random.random() >= self.probability:
            return "nothing"
        self.happened.append(self.random.choice(["before", "after", "half", "stall"]))
        return self.happened[-1]

    def call(self, effect: Callable[[float], Any]) -> Any:
        """Call ``effect`` with the share of the bytes that arrive."""
        kind = self.draw()
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

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if mode == "rb" and self.faults.random.random() < self.faults.probability:
            self.faults.happened.append("short read")
            data = super().cat_file(path)
            return io.BytesIO(data[: len(data) // 2])
        return super().open(path, mode, **options)

    def find(self, path: str, **options: Any) -> Any:
        find = super().find
        return self.faults.call(lambda share: find(path, **options))


fsspec.register_implementation(RewritingStore.name, RewritingStore, clobber=True)


def far_files(store: Store) -> dict[str, bytes]:
    """What a run at an address of a store is, by name."""
    files = {}
    for name in store.list():
        with store.opened(name, 0) as file:
            files[name] = file.read()
    return files


def files_in_memory(kind: type[RewritingStore]) -> dict[str, bytes]:
    """The same of ``/run`` in a store in memory, past its faults."""
    named = {path.removeprefix("/run/"): file.getvalue() for path, file in kind.store.items()}
    return {name: data for name, data in named.items() if not name.startswith(".")}


def far_steps(files: dict[str, bytes], local: Path) -> list[int]:
    """The steps in the copy of a run, whose summary files are checked to be beginnings of ours and
    to have no hole.
    """
    summaries = read_order(name for name in files if is_summary_name(name))
    for number, name in enumerate(summaries):
        ours = (local / name).read_bytes()
        assert ours.startswith(files[name]), f"{name} is no beginning of ours"
        assert number == len(summaries) - 1 or len(files[name]) == len(ours), (
            f"a file overtook {name}"
        )
    if not summaries:
        return []
    with tempfile.TemporaryDirectory() as there:
        for name in summaries:
            (Path(there) / name).write_bytes(files[name])
        reader = SummaryReader(there)
        return reader.scalars("loss").steps.tolist() if "loss" in reader.tags()["scalar"] else []


class FaultyRequests:
    """What answers the requests to the server, between it and moto's application, while it has
    ``faults``.

    Half of a body is half of an answer; half of an upload is what S3 refuses. A stall is longer
    than the client waits.
    """

    STALL_S = 0.4
    PATIENCE_S = 0.2
    faults: ClassVar[Faults | None] = None

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        faults, method = type(self).faults, environ["REQUEST_METHOD"]
        if faults is None:
            return self._application(environ, start_response)
        kind = faults.draw()
        started: list[Any] = []
        body = b""
        if kind != "before" and not (kind == "half" and method in ("PUT", "POST")):
            body = b"".join(self._application(environ, lambda *answer: started.append(answer)))
        faults.after_call()
        if kind == "stall":
            time.sleep(self.STALL_S)
        if kind == "after" or not started:
            start_response("500 Internal Server Error", [("Connection", "close")])
            return [b"<Error><Code>InternalError</Code><Message>no</Message></Error>"]
        start_response(*started[0])
        return [body[: len(body) // 2] if kind == "half" else body]


def files_on_server(address: str) -> dict[str, bytes]:
    """The same of a run at an address of the server, past its requests."""
    from moto.s3.models import s3_backends

    bucket, prefix = address.removeprefix("s3://").split("/", 1)
    (account,) = s3_backends.values()
    objects = account["aws"].buckets[bucket].keys
    named = {
        key.removeprefix(f"{prefix}/"): value.value
        for key, value in objects.items()
        if key.startswith(f"{prefix}/")
    }
    return {name: data for name, data in named.items() if not name.startswith(".")}


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    """A server with S3's interface and an empty bucket ``bucket``; yields its address, which the
    environment names.
    """
    import pytest  # here: a benchmark uses this server without it

    pytest.importorskip("moto")
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    assert server._server is not None
    server._server.app = FaultyRequests(server._server.app)
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
        s3.makedirs("bucket", exist_ok=True)
        yield names["AWS_ENDPOINT_URL"]
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        server.stop()
