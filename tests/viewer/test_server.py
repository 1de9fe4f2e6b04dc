from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from mindsummary_lightning.viewer import server as server_module
from mindsummary_lightning.viewer.server import page_addresses, pick_port, running_servers
from tests.cli.command import mindsummary
from tests.cli.demo_run import write_demo_run
from tests.reader.runs import write_mindspore_run

_RUN_MAIN = "import sys; from mindsummary_lightning.cli import main; sys.exit(main())"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def mindinsight_python(monkeypatch: pytest.MonkeyPatch) -> str:
    python = os.environ.get("MINDINSIGHT_PYTHON")
    if not python:
        pytest.skip("MINDINSIGHT_PYTHON names no Python with MindInsight 2.3.1")
    monkeypatch.setenv("MINDSUMMARY_VIEWER_PYTHON", python)
    return python


@contextlib.contextmanager
def _viewing(directory: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """``mindsummary view`` in a process of its own, once it has printed its addresses; and its port."""
    port = pick_port("127.0.0.1", 0)
    command = [sys.executable, "-c", _RUN_MAIN, "view", str(directory), "--no-browser", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            printed = []
            for line in process.stdout:
                printed.append(line)
                if line.startswith("Ctrl-C"):
                    break
            else:
                pytest.fail(f"view ended: {printed} {process.stderr.read() if process.stderr else ''}")
            yield process, port
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.wait(60)


def _jobs(port: int) -> dict[str, str]:
    url = f"http://127.0.0.1:{port}/v1/mindinsight/datavisual/train-jobs?offset=0&limit=10"
    with urllib.request.urlopen(url) as answer:
        return {job["train_id"]: job["cache_status"] for job in json.load(answer)["train_jobs"]}


def _processes_of(group: int) -> list[str]:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, 0)
        return [str(group)]
    return []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_view_serves_the_runs_and_leaves_no_process(
    number: signal.Signals, tmp_path: Path, mindinsight_python: str, cache: Path
) -> None:
    write_demo_run(tmp_path / "runs" / "version_0")
    write_mindspore_run(tmp_path / "runs" / "mindspore")
    with _viewing(tmp_path) as (process, port):
        (server,) = running_servers()
        assert set(_jobs(port)) == {"./mindspore", "./version_0"}
        assert (server.port, server.base) == (port, str(tmp_path / "runs"))

        process.send_signal(number)
        assert process.wait(60) == 0

    assert _processes_of(server.group) == []
    assert list(cache.rglob("servers/*")) == []


def test_a_single_run_is_served(tmp_path: Path, mindinsight_python: str) -> None:
    write_demo_run(tmp_path / "version_0")
    with _viewing(tmp_path / "version_0") as (_, port):
        assert set(_jobs(port)) == {"./"}


def test_a_server_is_stopped_from_another_terminal(
    tmp_path: Path, mindinsight_python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_demo_run(tmp_path / "version_0")
    with _viewing(tmp_path) as (process, port):
        status = mindsummary(capsys, "view", "--status")
        stop = mindsummary(capsys, "view", "--stop")

        assert status.out == f"http://127.0.0.1:{port} shows {tmp_path}\n"
        assert stop.out == f"http://127.0.0.1:{port} stopped {tmp_path}\n"
        assert process.wait(60) == 0
    assert mindsummary(capsys, "view", "--status").code == 1


def test_a_server_that_cannot_start_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "mindinsight"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "site"} exec {sys.executable} "$@"\n')
    python.chmod(0o700)
    monkeypatch.setenv("MINDSUMMARY_VIEWER_PYTHON", str(python))
    write_demo_run(tmp_path / "version_0")

    answer = mindsummary(capsys, "view", tmp_path, "--no-browser", "--port", str(pick_port("127.0.0.1", 0)))

    assert answer.code == 1
    assert "before it answered" in answer.err
    assert "gunicorn" in answer.err


def test_a_wanted_port_that_is_taken_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(OSError, match=f"port {port} of 127.0.0.1 cannot be used"):
            pick_port("127.0.0.1", port)


def test_another_port_is_taken_where_none_was_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(server_module, "_CUSTOMARY_PORT", taken.getsockname()[1])

        assert pick_port("127.0.0.1", None) != taken.getsockname()[1]


def test_what_a_killed_view_left_behind_is_no_server(cache: Path) -> None:
    path = cache / "mindsummary-lightning" / "servers" / "8080.json"
    path.parent.mkdir(parents=True)
    facts = {"group": os.getpid(), "address": "http://127.0.0.1:8080", "port": 8080, "base": "/x"}
    path.write_text(json.dumps(facts))

    assert running_servers() == []
    assert not path.exists()


def test_view_needs_a_directory(capsys: pytest.CaptureFixture[str]) -> None:
    answer = mindsummary(capsys, "view")

    assert (answer.code, answer.err) == (2, "mindsummary: view needs a directory, --status or --stop\n")


def test_the_addresses_name_the_run() -> None:
    assert ("scalars", "http://h:1/#/train-manage/scalar?train_id=.%2Frun%201") in page_addresses(
        "http://h:1", "./run 1"
    )
