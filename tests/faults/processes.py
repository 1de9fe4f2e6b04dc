"""Victims: processes that record, say what they have recorded, and are then killed."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.warm_processes import ROOT, environment, run_warm, start_warm


def victim_command(name: str, *arguments: object) -> list[str]:
    """The command that runs a script of ``tests/faults/scripts``, in ``ROOT``."""
    return [sys.executable, "-m", f"tests.faults.scripts.{name}", *map(str, arguments)]


def run_victim(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a script of ``tests/faults/scripts`` to its end, whatever end that is; pytest's timeout
    bounds it.
    """
    return subprocess.run(
        victim_command(name, *arguments),
        cwd=ROOT,
        env=environment(),
        text=True,
        capture_output=True,
        check=False,
    )


def run_training_victim(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The same for a script that imports PyTorch, in a process that has imported it."""
    return run_warm(_be_victim, name, list(map(str, arguments)))


def kill_victim(
    name: str, *arguments: object, after_steps: int, by: signal.Signals = signal.SIGKILL
) -> int:
    """Run a script that writes each step, as a line, once the call that recorded it has returned;
    kill it.

    Args:
        name: the script.
        arguments: its arguments.
        after_steps: it is killed when this many lines have been read.
        by: the signal.

    Returns:
        The last step that it said was recorded.
    """
    listen, said = os.pipe()
    with os.fdopen(listen, "rb") as heard:
        victim = start_warm(_be_victim, name, list(map(str, arguments)), stdout=said)
        os.close(said)
        lines = [heard.readline() for _ in range(after_steps)]
        assert victim.pid is not None
        os.kill(victim.pid, by)
        lines += heard.readlines()  # what it had said before it died
    victim.join()
    whole = [line for line in lines if line.endswith(b"\n")]
    assert whole, f"{name} ended before it recorded anything"
    return int(whole[-1])


def _be_victim(name: str, arguments: list[str]) -> None:
    importlib.import_module(f"tests.faults.scripts.{name}").main(*arguments)


@dataclass(frozen=True)
class OpenPython:
    """A Python whose files another user reaches through open directories.

    Attributes:
        program: its path.
        variables: those of the environment that it needs.
        directories: descriptors that a process which runs it must have (``pass_fds``).
    """

    program: str
    variables: dict[str, str]
    directories: list[int]


@contextmanager
def open_python() -> Iterator[OpenPython]:
    """Open the directories of this Python and of what it can import: the way to them may be closed
    to other users.
    """
    parts = [path for path in sys.path if os.path.isdir(path)]
    directories = [
        os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (sys.base_prefix, *parts)
    ]
    prefix, *paths = (f"/proc/self/fd/{number}" for number in directories)
    program = f"{prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    variables = {
        "PYTHONHOME": prefix,
        "PYTHONPATH": os.pathsep.join(paths),
        "LD_LIBRARY_PATH": f"{prefix}/lib",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        yield OpenPython(program, variables, directories)
    finally:
        for number in directories:
            os.close(number)
