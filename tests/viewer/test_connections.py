from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mindsummary_lightning.viewer import serve
from mindsummary_lightning.viewer.access import Access
from mindsummary_lightning.viewer.app import API_PREFIX, create_app
from mindsummary_lightning.viewer.connections import LimitedConnections, max_connections
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from tests.viewer.serving import serving
from tests.viewer.small_frontend import SMALL_WHEEL

_TOKEN = "a-token"
_HANDLERS = {
    "GET hello": lambda runs, request: "hello",
    "GET slow": lambda runs, request: time.sleep(float(request.first("seconds"))),
}
_PATH = f"/{_TOKEN}{API_PREFIX}hello"


def _connected(port: int) -> contextlib.closing[http.client.HTTPConnection]:
    """A connection that is closed at the end of its block."""
    return contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60))


def _status_of_another(port: int, path: str = "") -> int:
    with _connected(port) as connection:
        return _status(connection, path or _PATH)


@contextlib.contextmanager
def _serving(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limit: int, first_request_s: float
) -> Iterator[int]:
    monkeypatch.setattr(
        serve, "LimitedConnections", lambda _: LimitedConnections(limit, first_request_s)
    )
    app = create_app(LoadedRuns(str(folder)), SMALL_WHEEL, Access(_TOKEN), _HANDLERS)
    with serving(app) as port:
        yield port


def _status(connection: http.client.HTTPConnection, path: str = _PATH) -> int:
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def _is_closed(client: socket.socket) -> bool:
    client.settimeout(30)
    with contextlib.suppress(ConnectionError):
        return client.recv(1) == b""
    return True


def test_connections_that_wait_give_way_and_one_that_was_answered_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        _serving(tmp_path, monkeypatch, limit=8, first_request_s=600) as port,
        _connected(port) as known,
    ):
        assert _status(known) == 200
        waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
        assert all(map(_is_closed, waiting[:16]))

        assert _status_of_another(port) == 200
        sock = known.sock
        assert _status(known) == 200
        assert known.sock is sock
        for client in waiting:
            client.close()


def test_a_connection_whose_request_is_refused_is_closed_with_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        _serving(tmp_path, monkeypatch, limit=8, first_request_s=600) as port,
        _connected(port) as refused,
        _connected(port) as unknown,
    ):
        assert (_status(refused, "/"), refused.sock) == (403, None)
        assert _status(unknown, f"/{_TOKEN}/nothing") == 404
        assert unknown.sock is not None


def test_a_connection_whose_first_request_never_ends_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        _serving(tmp_path, monkeypatch, limit=8, first_request_s=0.05) as port,
        socket.create_connection(("127.0.0.1", port)) as slow,
    ):
        slow.sendall(b"GET / HTTP/1.1\r\nHost: 127.0")

        assert _is_closed(slow)
    assert caplog.records == []


def test_connections_that_gave_way_or_never_asked_are_closed_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        _serving(tmp_path, monkeypatch, limit=2, first_request_s=0.05) as port,
        contextlib.ExitStack() as clients,
    ):
        waiting = [
            clients.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(40)
        ]

        assert all(map(_is_closed, waiting))
    assert caplog.records == []


def test_a_connection_whose_answer_takes_long_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def is_answered(first_request_s: float) -> bool:
        path = _PATH.replace("hello", f"slow?seconds={1.5 * first_request_s}")
        with _serving(tmp_path, monkeypatch, limit=8, first_request_s=first_request_s) as port:
            try:
                return _status_of_another(port, path) == 200
            except ConnectionError:
                return False

    # a busy machine may take longer even to pass a request on
    assert any(map(is_answered, (0.05, 0.5, 2.0)))
    assert caplog.records == []


def test_where_all_connections_were_answered_another_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        _serving(tmp_path, monkeypatch, limit=2, first_request_s=600) as port,
        _connected(port) as first,
        _connected(port) as second,
    ):
        assert [_status(first), _status(second)] == [200, 200]
        with socket.create_connection(("127.0.0.1", port)) as another:
            assert _is_closed(another)
        first.close()
        deadline = time.monotonic() + 30
        while True:  # until the server has noticed
            with contextlib.suppress(OSError, http.client.HTTPException):
                assert _status_of_another(port) == 200
                break
            assert time.monotonic() < deadline


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit of open files")
def test_the_limit_leaves_files_for_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    for files, expected in (
        *((2, 16), (33, 16), (34, 17), (257, 128), (1024, 512), (1026, 512)),
        (resource.RLIM_INFINITY, 512),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        assert max_connections() == expected


_SCRIPT = """
import logging, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[2])))
from mindsummary_lightning.viewer.access import Access
from mindsummary_lightning.viewer.app import create_app
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer import connections
from mindsummary_lightning.viewer.serve import listen, serve_until_signal
from tests.viewer.small_frontend import SMALL_WHEEL
listener = listen("127.0.0.1", 0)
app = create_app(LoadedRuns(sys.argv[1]), SMALL_WHEEL, Access("a-token"), {"GET hello": lambda runs, request: "hello"})
serve_until_signal(app, listener, lambda: print(listener.getsockname()[1], flush=True))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit of open files")
@pytest.mark.parametrize(
    ("files", "count"),
    [(128, 300), (30, 60)],
    ids=["enough files for the limit", "fewer files than the limit"],
)
def test_more_idle_connections_than_files_do_not_keep_a_visitor_out(
    tmp_path: Path, files: int, count: int
) -> None:
    command = [sys.executable, "-c", _SCRIPT, str(tmp_path), str(files)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
        try:
            if files == 128:
                assert _status_of_another(port) == 200
        finally:
            server.terminate()
            _, said = server.communicate(timeout=60)
            for client in idle:
                client.close()

    assert server.returncode == 0
    assert said.count("\n") <= (0 if files == 128 else 2), said[-2000:]
    assert "Traceback" not in said
