"""Show the viewer in a Jupyter notebook: :func:`show` embeds its pages in a cell."""

from __future__ import annotations

import asyncio
import html
import os
import threading

from mindsummary_lightning.conversion.arguments import positive_int
from mindsummary_lightning.reading.run_directory import (
    lineage_file_paths,
    local_path,
    summary_files,
)
from mindsummary_lightning.viewer.access import RUN_TABLE_PATH, Access, new_token, page_addresses
from mindsummary_lightning.viewer.app import create_app
from mindsummary_lightning.viewer.frontend import available_frontend
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.serve import listen, serve_until

_LOOPBACK = "127.0.0.1"
_END_S = 2.0
# pixels that MindInsight's pages need; narrower ones cut the column with the links away
_PAGE_WIDTH = 1260
_running: dict[str, Shown] = {}


def show(directory: str | os.PathLike[str], *, height: int = 800) -> Shown:
    """Show runs in the output of a notebook cell.

    The server runs in a thread of the kernel and ends with the kernel. A second call with the same
    directory uses the same server.

    Args:
        directory: a run, or a directory that contains runs at any depth.
        height: height of the embedded pages, pixels.

    Returns:
        An object that a notebook displays as the pages. Its ``close()`` ends the server.

    Raises:
        TypeError, ValueError: ``directory`` is not a path, or ``height`` is not a positive int.
        NotADirectoryError: ``directory`` is not an existing directory.
        OSError: the server cannot listen on a port.

    Example:
        >>> from mindsummary_lightning.viewer import show  # doctest: +SKIP
        >>> show("runs")  # doctest: +SKIP
    """
    path = os.path.realpath(local_path("directory", directory))
    if not os.path.isdir(path):
        raise NotADirectoryError(
            f"{os.fspath(directory)} is not a directory (the working directory is {os.getcwd()})"
        )
    positive_int("height", height, "an int of pixels")
    shown = _running.get(path)
    if shown is None or not shown.is_running:
        shown = _running[path] = Shown(path, available_frontend(print), height)
    shown.height = height
    return shown


class Shown:
    """A viewer that runs in a thread; notebooks display it as an embedded page.

    Attributes:
        address: URL of the pages, token included; under JupyterHub a path without a host.
        height: height of the embedded pages, pixels.
    """

    def __init__(self, directory: str, frontend: bytes | None, height: int) -> None:
        token = new_token()
        listener = listen(_LOOPBACK, 0)
        app = create_app(LoadedRuns(directory), frontend, Access(token))
        self.address: str = f"{_server_address(listener.getsockname()[1])}/{token}/"
        self.height = height
        self._page = RUN_TABLE_PATH if frontend is None else _first_page(directory)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        ended_or_ready = threading.Event()

        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            await serve_until(self._stop, app, listener, ended_or_ready.set)

        def run() -> None:
            try:
                asyncio.run(serve())
            finally:
                ended_or_ready.set()

        self._thread = threading.Thread(target=run, name="mindsummary-view", daemon=True)
        self._thread.start()
        ended_or_ready.wait()

    @property
    def is_running(self) -> bool:
        """Whether the thread of the server is alive."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Stop the server."""
        if self.is_running and self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_END_S)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"

    def _repr_html_(self) -> str:
        source = html.escape(f"{self.address}{self._page}", quote=True)
        return (
            f'<a href="{source}" target="_blank" rel="noopener">open in a tab</a>'
            f'<div style="overflow-x: auto"><iframe src="{source}" height="{self.height}" '
            f'style="border: 0; width: 100%; min-width: {_PAGE_WIDTH}px"></iframe></div>'
        )


def _first_page(directory: str) -> str:
    """Return the relative URL of a run's dashboard, or of the list of runs."""
    is_run = summary_files(directory) or lineage_file_paths(directory)
    pages = dict(page_addresses("", None, "./" if is_run else None))
    return pages["dashboard" if is_run else "runs"].lstrip("/")


def _server_address(port: int) -> str:
    # A hub's users reach the kernel's machine through jupyter-server-proxy only.
    prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX")
    return f"{prefix.rstrip('/')}/proxy/{port}" if prefix else f"http://{_LOOPBACK}:{port}"
