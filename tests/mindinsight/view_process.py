"""``mindsummary view`` as a user has it: a command in a terminal of its own, ended with Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mindsummary_lightning.mindinsight.process import pick_port

__all__ = ["View", "viewing"]

_END_LIMIT_S = 60


@dataclass(frozen=True)
class View:
    """A command that shows runs.

    Attributes:
        address: where MindInsight's pages are.
        printed: the lines up to its addresses.
        cache: the user's cache directory; named in the environment of the command and of whatever it starts.
    """

    process: subprocess.Popen[str]
    address: str
    printed: Sequence[str]
    cache: Path

    @property
    def addresses(self) -> dict[str, str]:
        """Page -> address, as printed."""
        pairs = (line.strip().rpartition("  ") for line in self.printed if "/#/" in line)
        return {name.strip(): address for name, _, address in pairs}

    def end(self, number: signal.Signals) -> int:
        """Send a signal the way a terminal does, to the foreground process group; returns the exit code."""
        os.killpg(self.process.pid, number)
        return self.process.wait(_END_LIMIT_S)

    def processes(self) -> dict[int, str]:
        """The command's own process and all that came from it, in whatever group: number -> command line."""
        return {
            int(entry.name): _read(entry / "cmdline").replace("\0", " ")
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and f"XDG_CACHE_HOME={self.cache}\0" in _read(entry / "environ")
        }


@contextlib.contextmanager
def viewing(directory: Path, python: str, cache: Path, variables: Mapping[str, str] | None = None) -> Iterator[View]:
    """Run the command on a free port; the body begins when it has printed its addresses.

    Args:
        directory: what is passed to it.
        python: of an environment with a working MindInsight.
        cache: an empty directory, for its notes.
        variables: environment variables the user has besides.

    Raises:
        AssertionError: it ended before; says what it printed.
    """
    port = pick_port("127.0.0.1", 0)
    environment = {**os.environ, **(variables or {}), "XDG_CACHE_HOME": str(cache), "MINDSUMMARY_VIEWER_PYTHON": python}
    process = subprocess.Popen(
        [*_command(), "view", str(directory), "--no-browser", "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,  # a group of its own, as a shell gives it; not pytest's
        preexec_fn=_hear_signals,
    )
    printed: list[str] = []
    view = View(process, f"http://127.0.0.1:{port}", printed, cache)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            printed.append(line)
            if line.startswith("Ctrl-C"):
                break
        else:
            raise AssertionError(f"view ended with {process.wait()}: {''.join(printed)}")
        yield view
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=_END_LIMIT_S)
        for left in view.processes():  # of a command that is broken; the test has said so
            with contextlib.suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)


def _hear_signals() -> None:
    # As in the foreground: what a shell starts with "&", or nohup starts, and its children ignore these.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _command() -> list[str]:
    script = shutil.which("mindsummary", path=os.path.dirname(sys.executable))
    in_place = "import sys; from mindsummary_lightning.cli import main; sys.exit(main())"  # where nothing is installed
    return [script] if script else [sys.executable, "-c", in_place]


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:  # it has just ended, or it is somebody else's
        return ""
