"""MindInsight's front end: its static files, read from MindInsight's wheel.

The wheel is downloaded once, and its checksum is checked at every start.

Nothing is unpacked or executed here. The wheel is Apache-licensed and stays a file of its authors,
with their LICENSE and NOTICE in it. This package contains no copy.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any

from mindsummary_lightning.fileio.replace import replace_file
from mindsummary_lightning.viewer.user_directories import cache_directory

_REQUIREMENT = "mindinsight==2.3.1"
WHEEL_NAME = "mindinsight-2.3.1-py3-none-any.whl"
WHEEL_SHA256 = "dc5a4a5a1031c866aa72550fdd6a699ffb6591ed8d2c77647d57c2fcbb4d627c"
_PAGES = "mindinsight/ui/dist"
# Not the system's table, which differs between Python versions and can be changed on Windows.
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".ttf": "font/ttf",
    ".wasm": "application/wasm",
    ".woff": "font/woff",
}
# The modules of the table of runs, each behind those that it uses.
RUN_TABLE_MODULES = (
    *("dom", "texts", "numbers", "colours", "names", "points", "address", "table", "columns"),
    *("curves", "search", "facts", "cells", "groups", "links", "saving", "tags", "legend"),
    *("plot", "panel", "main"),
)
_COMMENT_OR_INDENTATION = re.compile(rb"^[ ]*//.*\n|^[ ]+", re.MULTILINE)
_HASHED_NAME = re.compile(r"\.[0-9a-f]{8}\.\w+$")  # a new build has other names
_FOREVER = "private, max-age=31536000, immutable"
_REVALIDATED = "private, no-cache"
# Behind a proxy that maps `/prefix` to `/`, no request shows that the last slash of the address is
# missing. The page sees it, but only a script in the page itself: the addresses of all files are
# relative to the missing slash.
_FIRST_SCRIPT = b'if (!location.pathname.endsWith("/")) location.pathname += "/";'
_FIRST_ELEMENT = b"<script>" + _FIRST_SCRIPT + b"</script>"
FIRST_SCRIPT_HASH = f"sha256-{base64.b64encode(hashlib.sha256(_FIRST_SCRIPT).digest()).decode()}"
"""Hash of the only inline script that the Content-Security-Policy of the pages allows."""


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A static file that the viewer serves: name, content and checksum.

    Attributes:
        name: file name; a file of the wheel has its folders in the wheel.
        content: returns the bytes of the file.
        crc: CRC-32 of these bytes.
    """

    name: str
    content: Callable[[], bytes]
    crc: int

    def headers(self) -> dict[str, str]:
        """Return the HTTP headers of the file: content type, caching and ETag."""
        return {
            "Content-Type": _TYPES[os.path.splitext(self.name)[1]],
            "Cache-Control": _FOREVER if _HASHED_NAME.search(self.name) else _REVALIDATED,
            "ETag": f'"{self.crc:08x}"',
        }


def static_files(wheel: bytes) -> dict[str, StaticFile]:
    """Return the files of MindInsight's front end by URL path, from its wheel."""
    archive = zipfile.ZipFile(BytesIO(wheel))
    files = {
        info.filename.removeprefix(_PAGES): StaticFile(
            info.filename, partial(archive.read, info), info.CRC
        )
        for info in archive.infolist()
        if info.filename.startswith(f"{_PAGES}/static/")
        and os.path.splitext(info.filename)[1] in _TYPES
    }
    # The front end would ask for the browser's language after it has settled on English. It knows
    # no table of runs.
    scripts = b'<script src="language.js"></script><script src="back.js"></script>'
    index = archive.read(f"{_PAGES}/index.html")
    files["/"] = file_of("index.html", _with_in_head(index, _FIRST_ELEMENT + scripts))
    # The graph page asks for it beside its script, or beside itself, depending on which of its
    # parts comes first.
    files["/graphvizlib.wasm"] = files["/static/js/graphvizlib.wasm"]
    return files


def files_without_frontend() -> dict[str, StaticFile]:
    """Return the start page and the table of runs, for a viewer without MindInsight.

    Both are the table of runs, which tells the user that the front end is missing.
    """
    table = own_files()["/runs"].content().replace(b"<body>", b'<body data-front-end="missing">', 1)
    return {
        "/": file_of("index.html", _with_in_head(table, _FIRST_ELEMENT)),
        "/runs": file_of("runs.html", table),
    }


def _with_in_head(page: bytes, elements: bytes) -> bytes:
    return page.replace(b"<head>", b"<head>" + elements, 1)


def file_of(name: str, content: bytes) -> StaticFile:
    """Make a ``StaticFile`` from a name and bytes in memory."""
    return StaticFile(name, lambda: content, zlib.crc32(content))


def own_files() -> dict[str, StaticFile]:
    """Return the static files of this package's own pages, by URL path."""
    folder = importlib.resources.files("mindsummary_lightning.viewer").joinpath("static")
    names = [file.name for file in folder.iterdir() if os.path.splitext(file.name)[1] in _TYPES]
    files = {
        f"/{name.removesuffix('.html')}": file_of(name, folder.joinpath(name).read_bytes())
        for name in names
    }
    modules = [(folder / "table" / f"{name}.js").read_bytes() for name in RUN_TABLE_MODULES]
    # one file for the browser: a request for each module would take longer than what it holds
    files["/runs.js"] = file_of("runs.js", _without_comments(b"".join(modules)))
    return files


def _without_comments(script: bytes) -> bytes:
    """Remove comment lines and indentation from a JavaScript source.

    No string of the source may continue at the beginning of a line.
    """
    return b'"use strict";\n' + _COMMENT_OR_INDENTATION.sub(b"", script)


def has_frontend() -> bool:
    """Tell whether MindInsight's wheel is in the cache directory."""
    return os.path.isfile(os.path.join(cache_directory(), WHEEL_NAME))


def available_frontend(say: Callable[[str], object], wheel: str | None = None) -> bytes | None:
    """Return MindInsight's wheel; on failure report the reason and return ``None``.

    Args:
        say: called with a line about the download or the failure.
        wheel: as for :func:`frontend_wheel`.

    Raises:
        OSError: ``wheel`` is given and cannot be used.
    """
    try:
        return frontend_wheel(say, wheel)
    except OSError as error:
        if wheel is not None:
            raise
        say(f"only the table of runs is shown: {error}")
        return None


def frontend_wheel(say: Callable[[str], object], wheel: str | None = None) -> bytes:
    """Return the bytes of MindInsight's wheel; download it if the cache lacks it.

    Args:
        say: called with a line about the download.
        wheel: path or URL (``https://...``) of MindInsight's wheel, for machines whose package
            index does not have it; ``None`` downloads it from pip's index.

    Raises:
        FileNotFoundError: ``wheel`` does not exist.
        OSError: the wheel cannot be downloaded, or its checksum is wrong.
    """
    path = os.path.join(cache_directory(), WHEEL_NAME)
    if os.path.isfile(path):
        try:
            return _checked(path)
        except OSError as error:
            say(f"fetching the front end again: {error}")
    with tempfile.TemporaryDirectory(dir=cache_directory(), prefix="unfinished-") as folder:
        content = _checked(
            _download(wheel, folder, say) if wheel is None or "://" in wheel else wheel
        )
    replace_file(path, content)
    say(f"MindInsight's front end is in {path}")
    return content


def _checked(path: str) -> bytes:
    with open(path, "rb") as file:
        content = file.read()
    digest = hashlib.sha256(content).hexdigest()
    if digest != WHEEL_SHA256:
        raise OSError(
            f"{path} is not the wheel of {_REQUIREMENT}: its sha256 is {digest}, not {WHEEL_SHA256}"
        )
    return content


def find_pip() -> list[str] | None:
    """Find a pip command: of this Python, or ``pip3``, ``pip`` or ``uv`` on ``PATH``.

    Any pip can download the wheel, which is the same for every Python. Environments made by uv have
    no pip.

    Returns:
        The first arguments of a pip command line; ``None`` without a pip.
    """
    own = [sys.executable, "-I", "-m", "pip"]
    if not _run([*own, "--version"]).returncode:
        return own
    for name, arguments in (("pip3", []), ("pip", []), ("uv", ["tool", "run", "pip"])):
        if (program := shutil.which(name)) is not None:
            return [program, *arguments]
    return None


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program in the cache directory, without a terminal.

    In that directory, Python imports no file that is stored next to the runs.
    """
    pipes: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "capture_output": True,
        "text": True,
        "errors": "replace",
    }
    return subprocess.run(command, check=False, cwd=cache_directory(), **pipes)


def _download(address: str | None, folder: str, say: Callable[[str], object]) -> str:
    pip = find_pip()
    if pip is None:
        raise OSError(_failed("this environment has no pip, and neither pip nor uv is on PATH"))
    requirement = os.path.join(folder, "requirements.txt")
    with open(requirement, "w", encoding="utf-8") as file:
        file.write(f"{address or _REQUIREMENT} --hash=sha256:{WHEEL_SHA256}\n")
    options = ["--no-deps", "--only-binary=:all:", "--dest", folder, "--requirement", requirement]
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check"]
    command = f"pip download --no-deps {address or _REQUIREMENT}"
    say(f"fetching MindInsight's front end, once (6.8 MB): {command}")
    done = _run([*pip, "download", *options, *quiet])
    wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
    if done.returncode or not wheels:
        lines = f"{done.stdout}\n{done.stderr}".splitlines()
        said = [line for line in lines if not line.startswith("WARNING")]  # of retries
        raise OSError(_failed(" ".join(" ".join(said).split())[-400:]))
    return os.path.join(folder, wheels[0])


def _failed(reason: str) -> str:
    return (
        f"MindInsight's front end could not be fetched: {reason}. "
        "On a machine with internet access, run "
        f"`python -m pip download --no-deps {_REQUIREMENT}`. Copy the downloaded file to this "
        f"machine, and run `mindsummary view RUNS --wheel {WHEEL_NAME}` once. "
        "--wheel also takes the address of a mirror (https://...)"
    )
