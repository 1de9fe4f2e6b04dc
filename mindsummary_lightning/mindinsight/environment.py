"""An isolated Python environment with a MindInsight under which every page works; made once, kept in the user's cache.

A plain ``pip install mindinsight`` next to a current NumPy, pandas or marshmallow opens and then hides data; the
versions here are those that were found to work together.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from mindsummary_lightning.fileio.append import try_lock

__all__ = ["PINS", "PYTHON_VARIABLE", "cache_directory", "clean_variables", "environment_python", "viewer_python"]

PYTHON_VARIABLE = "MINDSUMMARY_VIEWER_PYTHON"
PINS = (
    "mindinsight==2.3.1",
    "numpy==1.26.4",
    "pandas==1.5.3",
    "scipy<1.14",
    "scikit-learn<1.6",
    "marshmallow<4",
    "protobuf==3.20.1",
)
_PYTHONS = ((3, 11), (3, 10), (3, 9))  # pandas 1.5.3 has wheels for these, and MindInsight fails from 3.13 on
_NAME = "mindinsight-2.3.1"
_COMPLETE = "complete"  # written last; without it an environment is half made


def cache_directory() -> str:
    """Where this package keeps what can be made again; follows the platform's custom."""
    if sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    elif sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "mindsummary-lightning")


def clean_variables() -> dict[str, str]:
    """This process's environment variables without those that would let another Python's packages into MindInsight's.

    PYTHONPATH is set on many clusters; pip would take what lies there for installed, and MindInsight would import it.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | {"PIP_USER": "0"}  # a user's default that pip refuses inside an environment


def environment_python() -> str | None:
    """The Python of the environment in the cache, or ``None`` if it has not been made."""
    path = os.path.join(cache_directory(), _NAME)
    return _python_in(path) if os.path.exists(os.path.join(path, _COMPLETE)) else None


def viewer_python(say: Callable[[str], object], *, reinstall: bool = False, wheelhouse: str | None = None) -> str:
    """A Python with a working MindInsight; made now if there is none.

    Args:
        say: called with a line about what is going on.
        reinstall: make the environment again.
        wheelhouse: a directory with wheels to install from, without a network; ``None`` uses pip's own sources.

    Returns:
        Path of the executable: that of ``MINDSUMMARY_VIEWER_PYTHON`` if it is set, which is used as it is.

    Raises:
        FileNotFoundError: neither a Python 3.9 to 3.11 nor ``uv`` was found, there is no ``wheelhouse``, or
            ``MINDSUMMARY_VIEWER_PYTHON`` is wrong.
        OSError: the environment could not be made; holds the end of pip's output.
    """
    given = os.environ.get(PYTHON_VARIABLE)
    if given:
        test = [given, "-c", "import mindinsight"]
        if subprocess.run(test, check=False, capture_output=True, env=clean_variables()).returncode:
            raise FileNotFoundError(f"{PYTHON_VARIABLE} is {given}, which has no MindInsight that can be imported")
        return given
    if wheelhouse is not None and not os.path.isdir(wheelhouse):
        raise FileNotFoundError(f"--wheelhouse {wheelhouse} is no directory")
    os.makedirs(cache_directory(), mode=0o700, exist_ok=True)
    with open(os.path.join(cache_directory(), f"{_NAME}.lock"), "w", encoding="utf-8") as lock:
        if try_lock(lock.fileno()) is False:
            raise BlockingIOError(
                f"another `mindsummary view` is making {os.path.join(cache_directory(), _NAME)}; wait for it"
            )
        found = None if reinstall else environment_python()
        return found or _make(os.path.join(cache_directory(), _NAME), say, wheelhouse)


def _make(path: str, say: Callable[[str], object], wheelhouse: str | None) -> str:
    shutil.rmtree(path, ignore_errors=True)
    started = time.monotonic()
    with open(f"{path}.log", "w+", encoding="utf-8") as log:
        steps = _steps(path, wheelhouse)
        for number, (what, command) in enumerate(steps, start=1):
            say(f"making an environment for MindInsight, once: {what} ({number} of {len(steps)})")
            done = subprocess.run(command, check=False, stdout=log, stderr=subprocess.STDOUT, env=clean_variables())
            if done.returncode:
                log.seek(0)
                last = " ".join(log.read().split())[-500:]
                way_out = "" if wheelhouse else " (without a network use --wheelhouse)"
                raise OSError(f"{what} failed{way_out}; all of its output is in {path}.log and ends: {last}")
    with open(os.path.join(path, _COMPLETE), "w", encoding="utf-8") as marker:
        marker.write("\n".join(PINS) + "\n")
    say(f"made {path} in {time.monotonic() - started:.0f} s")
    return _python_in(path)


def _steps(path: str, wheelhouse: str | None) -> list[tuple[str, Sequence[str]]]:
    source = ["--no-index", "--find-links", os.path.abspath(wheelhouse)] if wheelhouse else []
    python = _find_python()
    if python is not None:
        install = [_python_in(path), "-m", "pip", "install", "--disable-pip-version-check", *source, *PINS]
        return [("python -m venv", [python, "-m", "venv", path]), ("pip install", install)]
    uv = shutil.which("uv")
    if uv is None:
        raise FileNotFoundError(
            "MindInsight needs Python 3.9, 3.10 or 3.11, but none was found on PATH or in pyenv, nor uv, "
            f"which fetches one. Install any of these, or set {PYTHON_VARIABLE} to a Python with a working MindInsight"
        )
    install = [uv, "pip", "install", "--python", _python_in(path), *source, *PINS]
    return [("uv venv", [uv, "venv", "--python", "3.11", path]), ("uv pip install", install)]


def _python_in(path: str) -> str:
    return (
        os.path.join(path, "Scripts", "python.exe") if sys.platform == "win32" else os.path.join(path, "bin", "python")
    )


def _find_python() -> str | None:
    for python in _candidates():
        # Asked and not guessed: a pyenv shim is on the PATH for versions that are not active.
        code = "import sys, venv, ensurepip; print(*sys.version_info[:2])"
        try:
            command = [python, "-c", code]
            answer = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=30, env=clean_variables()
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        version = tuple(map(int, answer.stdout.split())) if not answer.returncode else ()
        if version in _PYTHONS:
            return python
    return None


def _candidates() -> Iterator[str]:
    yield sys.executable
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    for major, minor in _PYTHONS:
        found = shutil.which(f"python{major}.{minor}")
        if found:
            yield found
        yield from sorted(
            glob.glob(os.path.join(pyenv, "versions", f"{major}.{minor}.*", "bin", "python")), reverse=True
        )
