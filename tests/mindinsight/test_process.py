from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mindsummary_lightning.mindinsight import process as server_module
from mindsummary_lightning.mindinsight.process import page_addresses, pick_port, running_servers
from tests.cli.command import mindsummary
from tests.cli.demo_run import write_demo_run


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


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


def test_a_second_ctrl_c_kills_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
    command = [sys.executable, "-c", stubborn]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        sleep, interrupts = server_module.time.sleep, iter([KeyboardInterrupt])

        def interrupted(duration_s: float) -> None:
            for interrupt in interrupts:
                raise interrupt
            sleep(duration_s)

        monkeypatch.setattr(server_module.time, "sleep", interrupted)
        server_module._end_group(process.pid, process)

        assert process.returncode == -signal.SIGKILL
