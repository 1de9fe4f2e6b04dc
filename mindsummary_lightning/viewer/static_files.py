"""The front end's files: found once at the start, so that no path of a request reaches the file system."""

from __future__ import annotations

import os
import re

from aiohttp import web

__all__ = ["StaticFiles"]

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


class StaticFiles:
    """The files below a directory, by the path of their address.

    The directory holds ``index.html`` and ``static/``. Conditional requests, byte ranges and compressed copies
    (``<file>.gz``) are served by aiohttp.
    """

    def __init__(self, directory: str) -> None:
        self._files: dict[str, str] = {}
        for folder, _, names in os.walk(os.path.join(directory, "static")):
            for name in names:
                if os.path.splitext(name)[1] in _TYPES:
                    path = os.path.join(folder, name)
                    self._files["/" + os.path.relpath(path, directory).replace(os.sep, "/")] = path
        self._files["/"] = os.path.join(directory, "index.html")
        # The graph page asks for it beside its script, or beside itself, depending on which of its parts comes first.
        wasm = "/static/js/graphvizlib.wasm"
        if wasm in self._files:
            self._files["/graphvizlib.wasm"] = self._files[wasm]

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def response(self, path: str) -> web.FileResponse:
        """The answer for a path.

        Raises:
            KeyError: there is no such file.
        """
        file = self._files[path]
        headers = {
            "Content-Type": _TYPES[os.path.splitext(file)[1]],
            "Cache-Control": _FOREVER if _HASHED_NAME.search(file) else _REVALIDATED,
        }
        return web.FileResponse(file, headers=headers)
