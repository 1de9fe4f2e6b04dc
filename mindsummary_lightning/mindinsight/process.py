"""The original MindInsight as a child process in the foreground; it ends with its caller."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable

from mindsummary_lightning.mindinsight.isolation import isolated_variables, python_command

_LISTEN_LIMIT_S = 60.0
_END_LIMIT_S = 10.0
_POLL_S = 0.1


def run_original(python: str, base: str, host: str, port: int, ready: Callable[[], object]) -> None:
    """Run MindInsight until it ends or ``KeyboardInterrupt`` is raised.

    Args:
        python: executable of an environment with a working MindInsight.
        base: directory whose direct subdirectories are the runs.
        host: address of the interface to listen on.
        port: a free port.
        ready: called once it listens.

    Raises:
        OSError: it ended by itself; holds the end of its output.
    """
    if os.name != "posix":
        raise OSError("MindInsight's own server runs on Linux and macOS only; leave out --original")
    with tempfile.TemporaryDirectory(prefix="mindsummary-original-") as workspace:
        output = os.path.join(workspace, "output.txt")
        variables = {
            "MINDINSIGHT_PORT": str(port),
            "MINDINSIGHT_SUMMARY_BASE_DIR": base,
            "MINDINSIGHT_WORKSPACE": workspace,
        }
        with open(output, "wb") as sink:
            process = subprocess.Popen(
                _command(python, host, port),
                cwd=workspace,  # gunicorn imports from its working directory
                env=isolated_variables() | variables,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
        try:
            _wait_until_it_listens(process, host, port)
            ready()
            process.wait()
        finally:
            _end(process)
        with open(output, encoding="utf-8", errors="replace") as file:
            printed = " ".join(file.read().split())[-500:]
        raise OSError(f"MindInsight ended with status {process.returncode}: {printed}")


def _command(python: str, host: str, port: int) -> list[str]:
    options = ["-b", f"{host}:{port}", "-c", "python:mindinsight.backend.config.gunicorn_conf"]
    logger = ["--logger-class", "mindinsight.backend.run.GunicornLogger"]
    return python_command(python, "-m", "gunicorn", *options, *logger, "mindinsight.backend.application:APP")


def _wait_until_it_listens(process: subprocess.Popen[bytes], host: str, port: int) -> None:
    deadline = time.monotonic() + _LISTEN_LIMIT_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
            return
        time.sleep(_POLL_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C: no more patience
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_LIMIT_S)
    process.kill()
    process.wait()
