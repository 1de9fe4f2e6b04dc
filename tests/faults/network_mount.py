"""A network mount's errors for a subprocess and its children: a C library that is preloaded, built
where it is used.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_suffix(".c")


def build_mount(directory: Path) -> str:
    """The library's path; skips the test where there is no compiler or no way to preload it."""
    compiler = os.environ.get("CC", "cc")
    if not sys.platform.startswith("linux") or shutil.which(compiler) is None:
        pytest.skip(f"needs Linux and a C compiler, and {compiler} is not on the PATH")
    library = directory / "network_mount.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, _SOURCE, "-ldl"], check=True)
    return str(library)


def mount(
    directory: str | Path, fails: str, after: int, error: int, locks: int = errno.ENOLCK
) -> None:
    """From now on let calls on this process's files below a directory fail; the library is
    preloaded.
    """
    variables = {"FAILS": fails, "AFTER": str(after), "ERRNO": str(error), "LOCKS": str(locks)}
    os.environ.update({f"MOUNT_{name}": text for name, text in variables.items()})
    os.environ["MOUNT"] = os.path.realpath(directory)


def unmount() -> int:
    """Let everything work again; how many calls of the failing kind there were."""
    del os.environ["MOUNT"]
    return int(ctypes.CDLL(None).mount_calls())
