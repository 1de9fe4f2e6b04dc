"""Python's interactive prompt on a terminal, and code that is pasted into it line by line."""

from __future__ import annotations

import codeop
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

_PROMPT = re.compile(r"(?:>>> |\.\.\. )\Z")


def refused_line(code: str) -> str | None:
    """The line at which a prompt would refuse what is pasted, with its reason; ``None`` if it takes everything."""
    pending: list[str] = []
    for line in [*code.splitlines(), ""]:
        pending.append(line)
        try:
            statement = codeop.compile_command("\n".join(pending), symbol="single")
        except SyntaxError as error:
            return f"{line!r}: {error}"
        if statement is not None:
            pending = []
    return None


class InteractivePrompt:
    """A Python that is started on a terminal of its own, without its error output, which goes to a file."""

    def __init__(self, folder: Path, errors: IO[str]) -> None:
        import pty
        import termios

        self._terminal, its_end = pty.openpty()
        settings = termios.tcgetattr(its_end)
        settings[1] &= ~termios.OPOST
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(its_end, termios.TCSANOW, settings)
        variables = {**os.environ, "TERM": "dumb", "PYTHON_BASIC_REPL": "1", "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
        self._process = subprocess.Popen(
            [sys.executable, "-i", "-q"], cwd=folder, env=variables, stdin=its_end, stdout=its_end, stderr=errors
        )
        os.close(its_end)
        self._wait()

    def paste(self, lines: Iterable[str]) -> str:
        """What is printed while lines are pasted, without prompts."""
        return "".join(self._answers(lines))

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)

    def _answers(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            os.write(self._terminal, f"{line}\n".encode())
            yield self._wait()

    def _wait(self) -> str:
        text = ""
        while not _PROMPT.search(text):
            text += os.read(self._terminal, 65536).decode()
        return _PROMPT.sub("", text)
