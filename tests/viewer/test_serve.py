from __future__ import annotations

import asyncio
import atexit
import errno
import gc
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mindsummary_lightning.viewer import serve
from mindsummary_lightning.viewer.access import Access
from mindsummary_lightning.viewer.app import API_PREFIX, create_app
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.serve import lacks_ipv4, listen
from tests.viewer.serving import serving
from tests.viewer.small_frontend import SMALL_WHEEL

_HANDLERS = {"GET count": lambda runs, request: len(request.query.get("train_id", ()))}


@contextmanager
def _serving(folder: Path) -> Iterator[int]:
    """A server in a thread; gives its port."""
    app = create_app(LoadedRuns(str(folder)), SMALL_WHEEL, Access(None), _HANDLERS)
    with serving(app) as port:
        yield port


def test_an_address_may_name_thousands_of_runs(tmp_path: Path) -> None:
    query = "&".join(f"train_id=./experiment/version_{number}" for number in range(10_000))
    with (
        _serving(tmp_path) as port,
        closing(http.client.HTTPConnection("127.0.0.1", port)) as connection,
    ):
        connection.request("GET", f"{API_PREFIX}count?{query}")

        assert connection.getresponse().read() == b"10000\n"
        connection.request("GET", f"{API_PREFIX}count?{'a&' * 100_000}a")
        assert connection.getresponse().status == 414


def test_a_malformed_request_is_refused_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with _serving(tmp_path) as port:
        for request in (
            b"nonsense\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost\r\n\r\n",
            b"\x16\x03\x01\x02\x00",
        ):
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(request)
                client.shutdown(socket.SHUT_WR)
                assert client.recv(12) in (b"HTTP/1.1 400", b"HTTP/1.0 400", b"")

    assert caplog.records == []


def _is_ended_there(client: socket.socket) -> bool:
    """Whether the other side has ended a connection, or does so within a second."""
    client.settimeout(1)
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def test_the_server_ends_while_connections_are_open(tmp_path: Path) -> None:
    with ExitStack() as clients:
        with _serving(tmp_path) as port:
            idle = [
                clients.enter_context(socket.create_connection(("127.0.0.1", port)))
                for _ in range(3)
            ]
            started = time.monotonic()

        assert time.monotonic() - started < 10
        assert all(map(_is_ended_there, idle))


def test_a_wanted_port_that_is_taken_is_refused() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(
            OSError, match=f"cannot listen on port {port} of 127.0.0.1 .*Choose another port"
        ):
            listen("127.0.0.1", port)


def test_another_port_is_taken_where_none_was_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    with listen("127.0.0.1", 0) as taken:
        monkeypatch.setattr(serve, "CUSTOMARY_PORT", taken.getsockname()[1])

        with listen("127.0.0.1", None) as other:
            assert other.getsockname()[1] != taken.getsockname()[1]


@pytest.mark.parametrize(
    ("number", "ports"),
    [(errno.EADDRINUSE, [8080, 0]), (errno.EACCES, [8080, 0]), (errno.EADDRNOTAVAIL, [8080])],
)
def test_port_8080_is_wanted_and_any_free_one_if_it_is_taken_or_forbidden(
    number: int, ports: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    create_server = socket.create_server

    def refuse_the_first(address: tuple[str, int], **options: Any) -> socket.socket:
        asked.append(address[1])
        if len(asked) == 1:
            raise OSError(number, "not this one")
        return create_server(address, **options)

    monkeypatch.setattr(socket, "create_server", refuse_the_first)

    if len(ports) == 1:
        with pytest.raises(OSError, match=r"port 8080 of 127\.0\.0\.1 \(not this one\)") as refused:
            listen("127.0.0.1", None)
        assert refused.value.errno == number
    else:
        listen("127.0.0.1", None).close()
    assert asked == ports


def test_an_error_of_the_event_loop_is_said_once_in_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        stop = asyncio.Event()

        def fail() -> None:
            for message in ("no file is left", "no file is left", "another"):
                error = {"message": message, "exception": OSError("too many")}
                asyncio.get_running_loop().call_exception_handler(error)
            stop.set()

        app = create_app(LoadedRuns("."), SMALL_WHEEL, Access(None), _HANDLERS)
        await serve.serve_until(stop, app, listen("127.0.0.1", 0), fail)

    asyncio.run(run())

    messages, causes = zip(*(said.split(": ") for said in caplog.messages), strict=True)
    assert messages == ("no file is left", "another")
    assert all("too many" in cause for cause in causes)
    assert [record.exc_info for record in caplog.records] == [None, None]


def test_an_answer_that_does_not_end_holds_the_end_of_the_server_up_for_a_moment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "_END_S", 0.02)
    begun, release = threading.Event(), threading.Event()
    handlers = {"GET stall": lambda *_: begun.set() or release.wait(60)}
    app = create_app(LoadedRuns(str(tmp_path)), SMALL_WHEEL, Access(None), handlers)

    with ExitStack() as clients:
        clients.callback(release.set)
        with serving(app) as port:
            client = http.client.HTTPConnection("127.0.0.1", port)
            clients.enter_context(closing(client))
            client.request("GET", f"{API_PREFIX}stall")
            assert begun.wait(30)
            started = time.monotonic()

        assert time.monotonic() - started < 20


def test_a_connection_that_asks_for_nothing_more_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "_IDLE_S", 0.02)
    with _serving(tmp_path) as port, socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        with client.makefile("rb") as answer:
            client.settimeout(20)
            assert answer.read().startswith(b"HTTP/1.1 404")  # up to the end


def test_the_33rd_request_at_a_time_begins_once_the_client_of_another_one_has_left(
    tmp_path: Path,
) -> None:
    begun, release = threading.Semaphore(0), threading.Event()
    handlers = {"GET stall": lambda *_: begun.release() or release.wait(60)}
    app = create_app(LoadedRuns(str(tmp_path)), SMALL_WHEEL, Access(None), handlers)

    with serving(app) as port, ExitStack() as clients:
        clients.callback(release.set)
        stalled = [
            clients.enter_context(closing(http.client.HTTPConnection("127.0.0.1", port)))
            for _ in range(33)
        ]
        for client in stalled:
            client.request("GET", f"{API_PREFIX}stall")
        assert all(begun.acquire(timeout=30) for _ in range(32))
        assert not begun.acquire(timeout=0.03)
        stalled[0].close()

        assert begun.acquire(timeout=20)


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(OSError, match=r"cannot listen on port 80 of no\.such\.host\.invalid"):
        listen("no.such.host.invalid", 80)


_SCRIPT = """
import sys, time
from mindsummary_lightning.viewer.access import Access
from mindsummary_lightning.viewer.app import create_app
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.serve import listen, serve_until_signal
from tests.viewer.small_frontend import SMALL_WHEEL
listener = listen("127.0.0.1", 0)
loaded = []
def compute(runs, request):
    loaded.extend([number] for number in range(500_000))
    print("begun", flush=True)
    while True:
        sum(range(1000))
handlers = {"GET compute": compute, "GET stall": lambda runs, request: print("begun", flush=True) or time.sleep(600)}
app = create_app(LoadedRuns(sys.argv[1]), SMALL_WHEEL, Access(None), handlers)
serve_until_signal(app, listener, lambda: print(listener.getsockname()[1], flush=True))
print("ended")
"""


@pytest.fixture
def _own_signals() -> Iterator[None]:
    """What an ending server changes in its process stays as it is."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before, interval = [signal.getsignal(number) for number in numbers], sys.getswitchinterval()
    for number in numbers:
        signal.signal(number, signal.default_int_handler)
    yield
    sys.setswitchinterval(interval)
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
    atexit.unregister(gc.freeze)


@pytest.mark.usefixtures("_own_signals")
@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals to send")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_server_answers_in_its_thread_until_a_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    app = create_app(LoadedRuns(str(tmp_path)), SMALL_WHEEL, Access(None), _HANDLERS)
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    answers: list[bytes] = []

    def ask_and_end() -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
            connection.request("GET", f"{API_PREFIX}count?train_id=a&train_id=b")
            answers.append(connection.getresponse().read())
        os.kill(os.getpid(), number)

    client = threading.Thread(target=ask_and_end)
    serve.serve_until_signal(app, listener, client.start)
    client.join()

    assert answers == [b"2\n"]
    assert listener.fileno() == -1
    # threads that compute take turns so soon that they do not delay the end
    assert sys.getswitchinterval() < 1e-3
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@pytest.mark.usefixtures("_own_signals")
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal")
def test_a_signal_that_the_process_ignores_does_not_end_the_server(tmp_path: Path) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    sent: list[signal.Signals] = []

    def end() -> None:
        for number in (signal.SIGHUP, signal.SIGTERM):
            time.sleep(0.02)
            sent.append(number)
            os.kill(os.getpid(), number)

    client = threading.Thread(target=end)
    app = create_app(LoadedRuns(str(tmp_path)), SMALL_WHEEL, Access(None), _HANDLERS)
    serve.serve_until_signal(app, listen("127.0.0.1", 0), client.start)

    assert sent == [signal.SIGHUP, signal.SIGTERM]
    client.join()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals to send")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_process_even_if_a_read_is_stuck(
    tmp_path: Path, number: signal.Signals
) -> None:
    command = [sys.executable, "-c", _SCRIPT, str(tmp_path)]

    # It takes 0.1 on a machine with nothing else to do; the read takes 600.
    assert _seconds_until_the_end(command, number, ["stall"]) < 5.0


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals to send")
def test_a_signal_ends_the_process_soon_even_if_all_its_threads_compute(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _SCRIPT, str(tmp_path)]

    # The threads take turns: at Python's own interval each step of the end would wait for eight of
    # them.
    assert any(
        _seconds_until_the_end(command, signal.SIGTERM, ["compute"] * 8) < 2.0 for _ in range(3)
    )


def _seconds_until_the_end(command: list[str], number: signal.Signals, asked: list[str]) -> float:
    # whoever started pytest may ignore it
    hear = {"preexec_fn": lambda: signal.signal(number, signal.SIG_DFL)}
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **hear) as process,  # type: ignore[call-overload]
        ExitStack() as open_connections,
    ):
        assert process.stdout is not None
        port = int(process.stdout.readline())
        for name in asked:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            open_connections.callback(connection.close)
            connection.request("GET", f"{API_PREFIX}{name}")
            assert process.stdout.readline() == "begun\n"
        started = time.monotonic()
        process.send_signal(number)

        assert process.wait(20) == 0
        seconds = time.monotonic() - started
        assert process.stdout.read() == "ended\n"
        return seconds


@pytest.mark.skipif(
    not socket.has_dualstack_ipv6(), reason="this system has no IPv6, or keeps it apart from IPv4"
)
def test_every_address_of_ipv6_is_every_address_of_ipv4_too() -> None:
    with listen("::", 0) as listener:
        port = listener.getsockname()[1]
        for address in ("127.0.0.1", "::1"):
            socket.create_connection((address, port), timeout=5).close()
        assert not lacks_ipv4(listener)


@pytest.mark.skipif(not socket.has_ipv6, reason="this system has no IPv6")
def test_a_system_that_keeps_ipv6_apart_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)

    with listen("::", 0) as listener, listen("::1", 0) as loopback, listen("127.0.0.1", 0) as ipv4:
        assert [lacks_ipv4(one) for one in (listener, loopback, ipv4)] == [True, False, False]
