"""MindInsight's front end: the static files in its wheel, fetched once, checked, and unpacked into the user's cache.

Nothing else of the wheel is used, and none of it is executed here. It is Apache-licensed and stays a file of its
authors, with their LICENSE and NOTICE beside it; this package contains no copy.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import PurePosixPath

from mindsummary_lightning.mindinsight.isolation import (
    cache_directory,
    find_program,
    output_tail,
    python_command,
    run_isolated,
)

_REQUIREMENT = "mindinsight==2.3.1"
WHEEL_SHA256 = "dc5a4a5a1031c866aa72550fdd6a699ffb6591ed8d2c77647d57c2fcbb4d627c"
_NAME = "mindinsight-frontend-2.3.1"
_PAGES = "mindinsight/ui/dist"
_NOTICES = ("LICENSE", "NOTICE")
_INFO = "mindinsight-2.3.1.dist-info"
_MAX_BYTES = 64 * 2**20  # it has 20 MB
_COMPRESSED = {".css", ".html", ".js", ".svg", ".wasm"}


def has_frontend() -> bool:
    """Whether the front end is in the cache."""
    return os.path.isdir(os.path.join(cache_directory(), _NAME))


def frontend_directory(say: Callable[[str], object], wheel: str | None = None) -> str:
    """The directory with ``index.html`` and ``static/``; fetched now if it is not in the cache.

    Args:
        say: called with a line about what is being done.
        wheel: path of MindInsight's wheel, for machines without an index; ``None`` downloads it.

    Raises:
        FileNotFoundError: ``wheel`` does not exist.
        OSError: the wheel cannot be downloaded, is another one, or cannot be unpacked.
    """
    path = os.path.join(cache_directory(), _NAME)
    if not os.path.isdir(path):
        with tempfile.TemporaryDirectory(dir=cache_directory(), prefix="unfinished-") as folder:
            _unpack(wheel or _download(folder, say), os.path.join(folder, _NAME))
            _publish(os.path.join(folder, _NAME), path)
        say(f"unpacked MindInsight's front end into {path}")
    return os.path.join(path, "dist")


def find_pip() -> list[str] | None:
    """Start of a pip command line: this Python's own pip, or one on ``PATH``; ``None`` if there is none.

    Any pip will do, as the wheel is the same for every Python; environments made by uv have none of their own.
    """
    own = python_command(sys.executable, "-m", "pip")
    if not run_isolated([*own, "--version"]).returncode:
        return own
    for name, arguments in (("pip3", []), ("pip", []), ("uv", ["tool", "run", "pip"])):
        if (program := find_program(name)) is not None:
            return [program, *arguments]
    return None


def _download(folder: str, say: Callable[[str], object]) -> str:
    pip = find_pip()
    if pip is None:
        raise OSError(_failed("this environment has no pip, and neither pip nor uv is on PATH"))
    requirement = os.path.join(folder, "requirements.txt")
    with open(requirement, "w", encoding="utf-8") as file:
        file.write(f"{_REQUIREMENT} --hash=sha256:{WHEEL_SHA256}\n")
    options = ["--no-deps", "--only-binary=:all:", "--dest", folder, "--requirement", requirement]
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check"]
    say(f"fetching MindInsight's front end, once (6.8 MB): pip download --no-deps {_REQUIREMENT}")
    done = run_isolated([*pip, "download", *options, *quiet], PIP_REQUIRE_VIRTUALENV="0")  # nothing is installed
    wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
    if done.returncode or not wheels:
        raise OSError(_failed(output_tail(done)))
    return os.path.join(folder, wheels[0])


def _failed(reason: str) -> str:
    return (
        f"MindInsight's front end could not be fetched: {reason}. Without an index, run "
        f"`pip download --no-deps {_REQUIREMENT}` on another machine, copy the wheel, and pass it as --wheel FILE"
    )


def _unpack(wheel: str, target: str) -> None:
    with open(wheel, "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
        if found != WHEEL_SHA256:
            raise OSError(f"{wheel} is not the wheel of {_REQUIREMENT}: its sha256 is {found}, not {WHEEL_SHA256}")
        with zipfile.ZipFile(file) as archive:
            unpack_pages(archive, target)


def unpack_pages(archive: zipfile.ZipFile, target: str) -> None:
    """Write the front end of an open wheel into a new directory, with a gzip copy beside each text file.

    Raises:
        OSError: a name leads out of the directory, or the files are far larger than MindInsight's.
    """
    left = _MAX_BYTES
    for info in archive.infolist():
        parts = _target_parts(info.filename)
        if parts is None or info.is_dir():
            continue
        left -= info.file_size
        if left < 0:
            raise OSError(f"{archive.filename}: the front end is larger than {_MAX_BYTES} bytes")
        path = os.path.join(target, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        content = archive.read(info)
        with open(path, "xb") as file:
            file.write(content)
        if os.path.splitext(path)[1] in _COMPRESSED:
            with open(f"{path}.gz", "xb") as file:
                file.write(gzip.compress(content, compresslevel=6))


def _target_parts(name: str) -> tuple[str, ...] | None:
    """Parts of the path below the target; ``None`` for what is not unpacked."""
    path = PurePosixPath(name)
    if path.parent == PurePosixPath(_INFO) and path.name in _NOTICES:
        return (path.name,)
    if not name.startswith(f"{_PAGES}/"):
        return None
    parts = path.parts
    if any(part == ".." or "\\" in part or ":" in part or "\0" in part for part in parts):
        raise OSError(f"the wheel holds a file named {name!r}, which would be written elsewhere")
    return ("dist", *parts[len(PurePosixPath(_PAGES).parts) :])


def _publish(made: str, path: str) -> None:
    try:
        os.rename(made, path)
    except OSError:
        if not os.path.isdir(path):
            raise
        shutil.rmtree(made, ignore_errors=True)  # another `view` was faster
