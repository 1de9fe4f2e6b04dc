"""The user's cache directory, and a safe start for other programs: environment variables, paths, working directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

# Another Python's packages, or code that runs at the start.
_LETS_CODE_IN = {
    "PYTHONBREAKPOINT",
    "PYTHONEXECUTABLE",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PYTHONPATH",
    "PYTHONPLATLIBDIR",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
    "PYTHONWARNINGS",  # may name a class to import
    "VIRTUAL_ENV",
}
# What pip and uv would install besides, elsewhere, or not at all.
_REDIRECTS_PIP = {
    "PIP_ABI",
    "PIP_DEST",
    "PIP_DOWNLOAD_DIR",
    "PIP_DRY_RUN",
    "PIP_EDITABLE",
    "PIP_IMPLEMENTATION",
    "PIP_NO_DEPS",
    "PIP_PLATFORM",
    "PIP_PREFIX",
    "PIP_PYTHON",
    "PIP_PYTHON_VERSION",
    "PIP_REPORT",
    "PIP_REQUIREMENT",
    "PIP_ROOT",
    "PIP_SRC",
    "PIP_TARGET",
    "PIP_USER",
    "UV_BREAK_SYSTEM_PACKAGES",
    "UV_PROJECT_ENVIRONMENT",
    "UV_PYTHON",
    "UV_SYSTEM_PYTHON",
}


def cache_directory() -> str:
    """Directory for what can be made again, made with mode 0700."""
    path = user_directory("XDG_CACHE_HOME", "~/.cache", "~/Library/Caches")
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def user_directory(variable: str, default: str, on_macos: str) -> str:
    """This package's directory below the one that an XDG variable names, or below the platform's own for such files."""
    if sys.platform == "darwin":
        base = os.path.expanduser(on_macos)
    elif sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
    else:
        base = os.environ.get(variable) or os.path.expanduser(default)
    return os.path.abspath(os.path.join(base, "mindsummary-lightning"))


def isolated_variables() -> dict[str, str]:
    """This process's environment variables for another Python.

    Those that name indexes, proxies and certificates are kept, and so are those that make Python or pip stricter
    (``PYTHONSAFEPATH``, ``PIP_REQUIRE_HASHES``); those that let other code in or redirect an installation are not.
    """
    dropped = _LETS_CODE_IN | _REDIRECTS_PIP
    kept = {name: value for name, value in os.environ.items() if name.upper() not in dropped}
    # -I holds for one interpreter; these also hold for those that it starts.
    return kept | {"PYTHONNOUSERSITE": "1", "PYTHONSAFEPATH": "1"}


def python_command(python: str, *arguments: str) -> list[str]:
    """A command line of another Python, which imports nothing from the working directory or the user's site."""
    return [python, "-I", *arguments]


def run_isolated(
    command: Sequence[str], timeout_s: float | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run another program to its end, without a terminal, in the cache directory, with some more variables.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it took longer than ``timeout_s``.
    """
    return subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=cache_directory(),
        env=isolated_variables() | variables,
        text=True,
        errors="replace",
        timeout=timeout_s,
    )


def output_tail(done: subprocess.CompletedProcess[str]) -> str:
    """The end of what a program printed, in one line."""
    return " ".join(f"{done.stdout} {done.stderr}".split())[-400:]


def find_program(name: str) -> str | None:
    """Absolute path of a program on ``PATH``; the working directory is not searched, nor is a relative entry."""
    entries = [entry for entry in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(entry)]
    found = shutil.which(name, path=os.pathsep.join(entries)) if entries else None
    # Windows searches the working directory first, whatever the path.
    if found is None or os.path.normcase(os.path.dirname(os.path.abspath(found))) not in map(os.path.normcase, entries):
        return None
    return found
