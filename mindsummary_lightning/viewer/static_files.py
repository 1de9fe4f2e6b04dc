"""The front end's files: found once at the start, so that no path of a request reaches the file system."""

from __future__ import annotations

import os
import re

from aiohttp import web

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
_HASHED_NAME = re.compile(r"\.[0-9a-f]{8}\.\w+$")  # a new build has other names
_FOREVER = "private, max-age=31536000, immutable"
_REVALIDATED = "private, no-cache"


def static_files(directory: str) -> dict[str, str]:
    """The files below a directory that holds ``index.html`` and ``static/``, by the path of their address."""
    files = {}
    for folder, _, names in os.walk(os.path.join(directory, "static")):
        for name in names:
            if os.path.splitext(name)[1] in _TYPES:
                path = os.path.join(folder, name)
                files["/" + os.path.relpath(path, directory).replace(os.sep, "/")] = path
    files["/"] = os.path.join(directory, "index.html")
    # The graph page asks for it beside its script, or beside itself, depending on which of its parts comes first.
    wasm = "/static/js/graphvizlib.wasm"
    if wasm in files:
        files["/graphvizlib.wasm"] = files[wasm]
    return files


def file_response(file: str) -> web.FileResponse:
    """The answer that sends one of the files; aiohttp knows conditional requests, byte ranges and ``<file>.gz``."""
    headers = {
        "Content-Type": _TYPES[os.path.splitext(file)[1]],
        "Cache-Control": _FOREVER if _HASHED_NAME.search(file) else _REVALIDATED,
    }
    return web.FileResponse(file, headers=headers)
