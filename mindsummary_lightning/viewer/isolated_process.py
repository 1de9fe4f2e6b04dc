"""A safe start for other programs: environment variables, paths, working directory."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from mindsummary_lightning.viewer.user_directories import cache_directory

# Variables that let another Python's packages in, or code that runs at the start.
_LETS_CODE_IN = {
    "PYTHONBREAKPOINT", "PYTHONEXECUTABLE", "PYTHONHOME", "PYTHONINSPECT", "PYTHONPATH", "PYTHONPLATLIBDIR",
    "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONWARNINGS", "VIRTUAL_ENV",
}  # fmt: skip
# Variables that let pip and uv fetch something else, into another place, or nothing.
_REDIRECTS_PIP = {
    "PIP_ABI", "PIP_DEST", "PIP_DOWNLOAD_DIR", "PIP_DRY_RUN", "PIP_EDITABLE", "PIP_IMPLEMENTATION", "PIP_NO_DEPS",
    "PIP_PLATFORM", "PIP_PREFIX", "PIP_PYTHON", "PIP_PYTHON_VERSION", "PIP_REPORT", "PIP_REQUIREMENT", "PIP_ROOT",
    "PIP_SRC", "PIP_TARGET", "PIP_USER", "UV_BREAK_SYSTEM_PACKAGES", "UV_PROJECT_ENVIRONMENT", "UV_PYTHON",
    "UV_SYSTEM_PYTHON",
}  # fmt: skip


def run_isolated(command: Sequence[str], **variables: str) -> subprocess.CompletedProcess[str]:
    """Run another program to its end, without a terminal, in the cache directory, with some more variables."""
    return subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=cache_directory(),
        env=isolated_variables() | variables,
        text=True,
        errors="replace",
    )


def isolated_variables() -> dict[str, str]:
    """This process's environment variables for another Python.

    Those that name indexes, proxies and certificates are kept, and so are those that make Python or pip stricter
    (``PYTHONSAFEPATH``, ``PIP_REQUIRE_HASHES``); those that let other code in or redirect an installation are not.
    """
    dropped = _LETS_CODE_IN | _REDIRECTS_PIP
    variables = {name: value for name, value in os.environ.items() if name.upper() not in dropped}
    # -I holds for one interpreter; these also hold for those that it starts.
    return variables | {"PYTHONNOUSERSITE": "1", "PYTHONSAFEPATH": "1"}


def python_command(python: str, *arguments: str) -> list[str]:
    """A command line of another Python, which imports nothing from the working directory or the user's site."""
    return [python, "-I", *arguments]


def output_tail(done: subprocess.CompletedProcess[str]) -> str:
    """The end of what a program printed, in one line."""
    return " ".join(f"{done.stdout} {done.stderr}".split())[-400:]


def find_program(name: str) -> str | None:
    """Absolute path of a program on ``PATH``; the working directory is not searched, nor is a relative entry."""
    entries = [entry for entry in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(entry)]
    path = shutil.which(name, path=os.pathsep.join(entries)) if entries else None
    # Windows searches the working directory first, whatever the path.
    if path is None or os.path.normcase(os.path.dirname(os.path.abspath(path))) not in map(os.path.normcase, entries):
        return None
    return path
