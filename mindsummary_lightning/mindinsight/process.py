"""A MindInsight server: started in a process group of its own, waited for, ended without a rest.

Who it is stands in a small file in the cache, so that it can be found and ended from another terminal.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from mindsummary_lightning.fileio.replace import replace_file
from mindsummary_lightning.mindinsight.environment import cache_directory, clean_variables

__all__ = ["Server", "page_addresses", "pick_port", "running_server", "running_servers", "stop_server"]

_LIMIT_S = 120.0  # until it answers; a first start compiles everything
_END_S = 10.0  # for a polite end, before it is killed
_POLL_S = 0.1
_CUSTOMARY_PORT = 8080
_LOGGER = "mindinsight.backend.run.GunicornLogger"


@dataclass(frozen=True, slots=True)
class Server:
    """A server somebody started.

    Attributes:
        group: process group of the server, the number of its first process.
        address: where its pages are.
        port: its port.
        base: the directory it shows.
    """

    group: int
    address: str
    port: int
    base: str


def page_addresses(address: str, train_id: str | None) -> list[tuple[str, str]]:
    """Names and addresses of MindInsight's pages.

    Args:
        address: the server.
        train_id: the run whose pages are meant, or ``None`` for the pages over all runs.
    """
    if train_id is None:
        routes = {"runs": "summary-manage", "model lineage": "model-traceback", "data lineage": "data-traceback"}
        return [(name, f"{address}/#/{route}") for name, route in routes.items()]
    routes = {
        "dashboard": "training-dashboard?id",
        "scalars": "scalar?train_id",
        "histograms": "histogram?train_id",
        "images": "image?train_id",
        "tensors": "tensor?train_id",
        "graph": "graph?train_id",
        "dataset graph": "data-map?train_id",
        "loss landscape": "loss-analysis?train_id",
    }
    run = urllib.parse.quote(train_id, safe="")
    return [(name, f"{address}/#/train-manage/{route}={run}") for name, route in routes.items()]


def pick_port(host: str, wanted: int | None) -> int:
    """A port to listen on.

    Args:
        host: address of the interface.
        wanted: the port that must be free; ``None`` takes 8080, or any if that is taken.

    Raises:
        OSError: ``wanted`` cannot be listened on.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, _CUSTOMARY_PORT if wanted is None else wanted))
        except OSError as error:
            if wanted is not None:
                raise OSError(
                    error.errno, f"port {wanted} of {host} cannot be used ({error.strerror}); give another"
                ) from error
            with socket.socket() as other:
                other.bind((host, 0))
                return int(other.getsockname()[1])
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running_server(python: str, base: str, host: str, port: int) -> Iterator[tuple[Server, Callable[[], object]]]:
    """Run MindInsight; it has answered once when the body begins, and no process of it is left after it.

    The body gets the server and a function that waits until it ends by itself or from another terminal.

    Args:
        python: executable of an environment with a working MindInsight.
        base: directory whose direct subdirectories are the runs.
        host: address of the interface to listen on.
        port: a free port.

    Raises:
        OSError: it ended before it answered; holds the end of its output.
        TimeoutError: it did not answer in time.
    """
    if not hasattr(os, "killpg"):
        raise OSError("MindInsight's server runs on Linux and macOS only; on Windows use WSL or the container recipe")
    workspace = os.path.join(_state_directory(), f"workspace-{port}")
    shutil.rmtree(workspace, ignore_errors=True)
    os.makedirs(workspace)
    environment = clean_variables() | {
        "MINDINSIGHT_PORT": str(port),
        "MINDINSIGHT_SUMMARY_BASE_DIR": base,
        "MINDINSIGHT_WORKSPACE": workspace,
    }
    output = os.path.join(workspace, "output.txt")
    with open(output, "wb") as sink:
        process = subprocess.Popen(
            _command(python, host, port),
            cwd=workspace,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # one group with its workers and parsers; Ctrl-C reaches us, not them
        )
    shown = "127.0.0.1" if host == "0.0.0.0" else host
    server = Server(process.pid, f"http://{shown}:{port}", port, base)
    try:
        replace_file(_state_file(port), json.dumps(asdict(server)).encode())
        _wait_until_it_answers(server, process, output)
        yield server, process.wait
    finally:
        _end_group(process.pid, process)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_state_file(port))
        shutil.rmtree(workspace, ignore_errors=True)


def running_servers() -> list[Server]:
    """The servers this user has started and that still run, by port."""
    servers = []
    for name in sorted(os.listdir(_state_directory())):
        if not name.endswith(".json"):
            continue
        path = os.path.join(_state_directory(), name)
        with contextlib.suppress(OSError, ValueError, TypeError), open(path, encoding="utf-8") as file:
            server = Server(**json.load(file))
            if _is_mindinsight(server.group):
                servers.append(server)
                continue
        with contextlib.suppress(OSError):  # left behind by a process that was killed
            os.unlink(path)
    return servers


def stop_server(server: Server) -> None:
    """End a server that another process started; returns when it is gone."""
    _end_group(server.group, None)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_state_file(server.port))


def _command(python: str, host: str, port: int) -> list[str]:
    config = "python:mindinsight.backend.config.gunicorn_conf"
    options = ["-b", f"{host}:{port}", "-c", config, "--logger-class", _LOGGER]
    return [python, "-m", "gunicorn", *options, "mindinsight.backend.application:APP"]


def _wait_until_it_answers(server: Server, process: subprocess.Popen[bytes], output: str) -> None:
    url = f"{server.address}/v1/mindinsight/datavisual/train-jobs?offset=0&limit=1"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a company's proxy does not know this port
    deadline = time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            with open(output, encoding="utf-8", errors="replace") as file:
                said = " ".join(file.read().split())[-500:]
            raise OSError(f"MindInsight ended with status {process.returncode} before it answered: {said}")
        try:
            with opener.open(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(_POLL_S)
    raise TimeoutError(f"MindInsight did not answer at {url} within {_LIMIT_S:.0f} s")


def _end_group(group: int, process: subprocess.Popen[bytes] | None) -> None:
    for number, patience in ((signal.SIGTERM, _END_S), (signal.SIGKILL, _END_S)):
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            break
        deadline = time.monotonic() + patience
        with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C ends the patience, not the duty
            while time.monotonic() < deadline and _has_members(group, process):
                time.sleep(_POLL_S)
    if process is not None:
        process.wait()


def _has_members(group: int, process: subprocess.Popen[bytes] | None) -> bool:
    if process is not None:
        process.poll()  # a child nobody has waited for would keep its group alive
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _is_mindinsight(process: int) -> bool:
    """Whether a process number still belongs to MindInsight; numbers are used again."""
    try:
        with open(f"/proc/{process}/cmdline", encoding="utf-8", errors="replace") as file:
            return "mindinsight" in file.read()
    except FileNotFoundError:  # it is gone, or this system has no /proc
        command = ["ps", "-o", "command=", "-p", str(process)]
    try:
        return "mindinsight" in subprocess.run(command, check=False, capture_output=True, text=True).stdout
    except OSError:
        return False


def _state_directory() -> str:
    path = os.path.join(cache_directory(), "servers")
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def _state_file(port: int) -> str:
    return os.path.join(_state_directory(), f"{port}.json")
