from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mindsummary_lightning.mindinsight import process as process_module
from mindsummary_lightning.mindinsight.process import run_original

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the original MindInsight does not run on Windows")


def _server(tmp_path: Path, code: str) -> str:
    """A Python whose gunicorn is some code."""
    program = tmp_path / "server.py"
    program.write_text(code)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {program} "$@"\n')
    python.chmod(0o700)
    return str(python)


def test_a_server_that_ends_by_itself_says_why(tmp_path: Path) -> None:
    python = _server(tmp_path, "import sys; sys.exit('No module named gunicorn')")

    with pytest.raises(OSError, match="MindInsight ended with status 1: No module named gunicorn"):
        run_original(python, str(tmp_path), "127.0.0.1", 1, lambda: None)


_LISTEN = """
import os, signal, socket, sys
from pathlib import Path
note = Path(__file__).with_name("note")
host, port = sys.argv[sys.argv.index("-b") + 1].split(":")
listener = socket.create_server((host, int(port)))
note.write_text(f"{os.getpid()} {os.getcwd()} {sys.argv[1]} {os.environ['MINDINSIGHT_SUMMARY_BASE_DIR']}")
signal.pause()
"""


def _is_gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def test_an_interrupt_ends_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mindsummary_lightning.viewer.serve import listen

    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
    monkeypatch.chdir(tmp_path)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_original(_server(tmp_path, _LISTEN), str(tmp_path), "127.0.0.1", port, interrupt)

    process, folder, isolation, base = (tmp_path / "note").read_text().split()
    assert _is_gone(int(process))
    assert (isolation, base) == ("-I", str(tmp_path))
    assert not Path(folder).exists()  # its workspace, where gunicorn imports from, is not the user's directory


def test_a_stubborn_server_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mindsummary_lightning.viewer.serve import listen

    monkeypatch.setattr(process_module, "_END_LIMIT_S", 0.2)
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
    stubborn = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{_LISTEN}\nsignal.pause()"

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_original(_server(tmp_path, stubborn), str(tmp_path), "127.0.0.1", port, interrupt)

    assert _is_gone(int((tmp_path / "note").read_text().split()[0]))
