"""An environment in which the original MindInsight works; made once, in the user's cache, for ``view --original``.

A plain ``pip install mindinsight`` beside a current NumPy, pandas or marshmallow starts and then hides data; these
versions were found to work together.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator

from mindsummary_lightning.fileio.append import try_lock
from mindsummary_lightning.mindinsight.isolation import (
    cache_directory,
    find_program,
    output_tail,
    python_command,
    run_isolated,
)
from mindsummary_lightning.mindinsight.pins import PINS

PYTHON_VARIABLE = "MINDSUMMARY_VIEWER_PYTHON"
_PYTHONS = ((3, 11), (3, 10), (3, 9))  # pandas 1.5.3 has wheels for these, and MindInsight fails from 3.13 on
_NAME = "mindinsight-2.3.1"
_COMPLETE = "complete"  # written once MindInsight has been imported there; without it the environment is unfinished


def original_python(say: Callable[[str], object]) -> str:
    """A Python that imports MindInsight; its environment is made now if there is none.

    Args:
        say: called with a line about what is being done.

    Returns:
        Path of the executable: that of ``MINDSUMMARY_VIEWER_PYTHON`` if it is set, which is used as it is.

    Raises:
        FileNotFoundError: neither a Python 3.9 to 3.11 nor uv was found, or ``MINDSUMMARY_VIEWER_PYTHON`` is wrong.
        BlockingIOError: another process is making the environment.
        OSError: the environment could not be made; holds the end of the output.
    """
    given = os.environ.get(PYTHON_VARIABLE)
    if given:
        if (problem := _import_problem(os.path.abspath(given))) is not None:
            raise FileNotFoundError(f"{PYTHON_VARIABLE} is {given}, which cannot import MindInsight: {problem}")
        return os.path.abspath(given)
    path = os.path.join(cache_directory(), _NAME)
    with open(f"{path}.lock", "w", encoding="utf-8") as lock:
        if try_lock(lock.fileno()) is False:
            raise BlockingIOError(f"another `mindsummary view --original` is making {path}; wait for it")
        if not os.path.exists(os.path.join(path, _COMPLETE)):
            _make(path, say)
    return _python_in(path)


def _make(path: str, say: Callable[[str], object]) -> None:
    shutil.rmtree(path, ignore_errors=True)
    python = _python_in(path)
    for number, (name, command) in enumerate(_steps(path), start=1):
        say(f"making an environment for MindInsight, once (500 MB): {name} ({number} of 2)")
        done = run_isolated(command)
        if done.returncode:
            raise OSError(f"{name} failed: {output_tail(done)}")
    if (problem := _import_problem(python)) is not None:
        raise OSError(f"{path} was made, but MindInsight cannot be imported there: {problem}")
    with open(os.path.join(path, _COMPLETE), "w", encoding="utf-8") as marker:
        marker.write("\n".join(PINS) + "\n")


def _steps(path: str) -> list[tuple[str, list[str]]]:
    python = next((python for python in _candidates() if _version(python) in _PYTHONS), None)
    if python is not None:
        install = python_command(_python_in(path), "-m", "pip", "install", "--disable-pip-version-check", *PINS)
        return [("python -m venv", python_command(python, "-m", "venv", path)), ("pip install", install)]
    uv = find_program("uv")
    if uv is None:
        raise FileNotFoundError(
            "the original MindInsight needs Python 3.9, 3.10 or 3.11, but none was found on PATH, nor uv, which "
            f"fetches one. Install any of these, or set {PYTHON_VARIABLE} to a Python with a working MindInsight. "
            "`mindsummary view` without --original needs none of them"
        )
    install = [uv, "pip", "install", "--python", _python_in(path), *PINS]
    return [("uv venv", [uv, "venv", "--python", "3.11", path]), ("uv pip install", install)]


def _python_in(path: str) -> str:
    parts = ("Scripts", "python.exe") if sys.platform == "win32" else ("bin", "python")
    return os.path.join(path, *parts)


def _candidates() -> Iterator[str]:
    yield sys.executable
    for major, minor in _PYTHONS:
        if (found := find_program(f"python{major}.{minor}")) is not None:
            yield found


def _version(python: str) -> tuple[int, ...] | None:
    # Asked, because a pyenv shim is on the PATH for versions that are not active; Debian splits venv off.
    answer = _ask(python, "import sys, venv, ensurepip; print(*sys.version_info[:2])")
    return None if answer is None or answer.returncode else tuple(map(int, answer.stdout.split()))


def _import_problem(python: str) -> str | None:
    answer = _ask(python, "import gunicorn, mindinsight.backend.config")
    if answer is None:
        return "it cannot be started"
    return output_tail(answer) or "no reason given" if answer.returncode else None


def _ask(python: str, code: str) -> subprocess.CompletedProcess[str] | None:
    try:
        return run_isolated(python_command(python, "-c", code), timeout_s=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
