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

from tests.viewer.small_frontend import COMMAND, is_in_cache

_END_LIMIT_S = 60


@dataclass(frozen=True)
class View:
    """A command that shows runs.

    Attributes:
        process: the command.
        printed: its lines up to its addresses.
    """

    process: subprocess.Popen[str]
    printed: Sequence[str]

    @property
    def addresses(self) -> dict[str, str]:
        """MindInsight's page -> address, as printed."""
        pairs = (line.strip().rpartition("  ") for line in self.printed if "#/" in line)
        return {name.strip(): address for name, _, address in pairs}

    @property
    def table(self) -> str:
        """Address of the table of runs, as printed."""
        (line,) = (line for line in self.printed if line.startswith("  table of runs "))
        return line.split()[-1]

    @property
    def server(self) -> str:
        """Address of the server, with the token and without a page."""
        return self.table.removesuffix("/runs")

    def end(self, number: signal.Signals) -> int:
        """Send a signal the way a terminal does, to the foreground process group; returns the exit
        code.
        """
        os.killpg(self.process.pid, number)
        return self.process.wait(_END_LIMIT_S)

    def is_alone(self) -> bool:
        """Whether no process is left in the command's group once it has ended."""
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return True
        return False


@contextlib.contextmanager
def viewing(
    directory: Path,
    cache: Path,
    *options: str,
    variables: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    opens_browser: bool = False,
) -> Iterator[View]:
    """Run the command on a free port; the body begins when it has printed its addresses.

    Args:
        directory: what is passed to it.
        cache: the user's cache directory, which may hold the front end already.
        *options: of the command, besides ``--no-browser`` and ``--port``.
        variables: environment variables the user has besides.
        cwd: where the user is; ``None`` for where pytest is.
        opens_browser: whether it opens the user's browser.

    Raises:
        AssertionError: it ended before; says what it printed.
    """
    process = subprocess.Popen(
        [
            *_command(cache),
            "view",
            str(directory),
            *([] if opens_browser else ["--no-browser"]),
            "--port",
            "0",
            *options,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env={**os.environ, "XDG_CACHE_HOME": str(cache), **(variables or {})},
        start_new_session=True,  # a group of its own, as a shell gives it; not pytest's
        preexec_fn=_hear_signals,
    )
    printed: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            printed.append(line)
            if line.startswith("Ctrl-C"):
                break
        else:
            raise AssertionError(f"view ended with {process.wait()}: {''.join(printed)}")
        yield View(process, printed)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        try:
            process.communicate(timeout=_END_LIMIT_S)
        finally:
            # of a command that is broken; the test has said so
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _hear_signals() -> None:
    # As in the foreground: what a shell starts with "&", or nohup starts, and its children ignore
    # these.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _command(cache: Path) -> list[str]:
    if is_in_cache(cache):
        return [sys.executable, "-c", COMMAND]
    script = shutil.which("mindsummary", path=os.path.dirname(sys.executable))
    # Where nothing is installed; without the working directory, which -c would search.
    in_place = (
        "import sys; sys.path.pop(0); from mindsummary_lightning.cli import main; sys.exit(main())"
    )
    return [script] if script else [sys.executable, "-c", in_place]
