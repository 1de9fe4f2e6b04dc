"""Victims: processes that record, say what they have recorded, and are then killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def run_victim(name: str, *arguments: object, timeout_s: float = 250) -> subprocess.CompletedProcess[str]:
    """Run a script of ``tests/faults/scripts`` to its end, whatever end that is."""
    return subprocess.run(
        _command(name, arguments),
        cwd=ROOT,
        env=environment(),
        text=True,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )


def kill_victim(name: str, *arguments: object, after_steps: int, by: signal.Signals = signal.SIGKILL) -> int:
    """Run a script that writes each step, as a line, once the call that recorded it has returned; kill it.

    Args:
        name: the script.
        arguments: its arguments.
        after_steps: it is killed when this many lines have been read.
        by: the signal.

    Returns:
        The last step that it said was recorded.
    """
    with subprocess.Popen(_command(name, arguments), cwd=ROOT, env=environment(), stdout=subprocess.PIPE) as victim:
        assert victim.stdout is not None
        lines = [victim.stdout.readline() for _ in range(after_steps)]
        victim.send_signal(by)
        lines += victim.stdout.readlines()  # what it had said before it died
        victim.wait(20)
    whole = [line for line in lines if line.endswith(b"\n")]
    assert whole, f"{name} ended before it recorded anything"
    return int(whole[-1])


def _command(name: str, arguments: tuple[object, ...]) -> list[str]:
    return [sys.executable, "-m", f"tests.faults.scripts.{name}", *map(str, arguments)]
