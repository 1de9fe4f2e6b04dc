"""``mindsummary view DIR``."""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.util
import os
import socket
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mindsummary_lightning.cli.arguments import DIRECTORY, argument, flag
from mindsummary_lightning.cli.output import Answer, UsageError, say
from mindsummary_lightning.errors import missing_packages
from mindsummary_lightning.reading.run_directory import (
    lineage_file_paths,
    local_path,
    summary_files,
)
from mindsummary_lightning.viewer.browser import opened_in_browser
from mindsummary_lightning.viewer.frontend import available_frontend

if TYPE_CHECKING:
    from mindsummary_lightning.viewer.loaded_runs import LoadedRuns

ARGUMENTS = (
    DIRECTORY,
    argument("--port", type=int, help="port to listen on (default: 8080, or any free port)"),
    argument(
        "--host", default="127.0.0.1", help="address to listen on (default: this machine only)"
    ),
    flag("--no-browser", "do not open a browser"),
    flag("--no-token", "let everyone who can reach the port see the runs"),
    argument(
        "--memory",
        type=int,
        default=480,
        metavar="MB",
        help="memory for runs kept loaded (%(default)s)",
    ),
    argument(
        "--wheel", metavar="FILE", help="path or URL of MindInsight's wheel, for the first start"
    ),
)
_FEW_RUNS = 20  # lineage of more is read ahead


def run(arguments: argparse.Namespace) -> Answer:
    """Serve the pages of the viewer until interrupted."""
    if not os.path.isdir(local_path("DIR", arguments.directory)):
        raise NotADirectoryError(f"{arguments.directory} is not a directory")
    if arguments.port is not None and not 0 <= arguments.port <= 65535:
        raise UsageError(f"--port must be between 0 and 65535, not {arguments.port}")
    if arguments.memory < 1:
        raise UsageError(f"--memory must be at least 1 MB, not {arguments.memory}")
    if importlib.util.find_spec("aiohttp") is None:
        raise missing_packages("the viewer", "aiohttp")
    _serve(arguments)
    _report("the viewer has ended")
    return Answer()


def _serve(arguments: argparse.Namespace) -> None:
    """Listen, print the address of the pages, and serve until a signal."""
    from mindsummary_lightning.viewer import access
    from mindsummary_lightning.viewer.app import create_app
    from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
    from mindsummary_lightning.viewer.serve import listen, serve_until_signal

    # a graph of 20,000 nodes is a million objects, none of them in a cycle
    gc.set_threshold(100_000)
    token = None if arguments.no_token else access.new_token()
    with listen(arguments.host, arguments.port) as listener, contextlib.ExitStack() as ending:
        port = listener.getsockname()[1]
        if not access.is_loopback(arguments.host):
            _warn_of_open_host(arguments.host, listener, token)
        frontend = available_frontend(_report, arguments.wheel)
        checked = access.Access(token, access.host_names(arguments.host))
        runs = LoadedRuns(arguments.directory, arguments.memory * 10**6)
        server = access.server_address(arguments.host, port)

        def ready() -> None:
            number = len(runs.listing())
            if frontend is None:
                pages = [(access.RUN_TABLE, access.table_address(server, token))]
            else:
                train_id = "./" if _is_run(arguments.directory) else None
                pages = access.page_addresses(server, token, train_id)
            _say_pages(arguments.directory, number, pages)
            if number > _FEW_RUNS:
                threading.Thread(target=_read_lineage, args=(runs,), daemon=True).start()
            if not arguments.no_browser:
                shown = dict(pages)[access.RUN_TABLE] if number > 1 else pages[0][1]
                ending.enter_context(opened_in_browser(shown))

        serve_until_signal(create_app(runs, frontend, checked), listener, ready)


def _is_run(directory: str) -> bool:
    return bool(summary_files(directory) or lineage_file_paths(directory))


def _say_pages(directory: str, number: int, pages: Sequence[tuple[str, str]]) -> None:
    """Print the addresses of the pages; ``number`` is the number of runs."""
    if not number:
        from mindsummary_lightning.cli.runs import links_note

        links = links_note([directory])
        _report(f"no run in {directory} yet; the pages will show a run when it begins{links}")
    say(f"runs in {os.path.abspath(directory)}")
    for name, address in pages:
        say(f"  {name:14}  {address}")
    say("Ctrl-C ends the viewer")
    sys.stdout.flush()


def _warn_of_open_host(host: str, listener: socket.socket, token: str | None) -> None:
    from mindsummary_lightning.viewer.serve import lacks_ipv4

    port = listener.getsockname()[1]
    who = f"anyone who reaches port {port} of {host} {'and knows the token ' if token else ''}"
    _report(f"warning: {who}can read the runs, and the connections are not encrypted")
    if lacks_ipv4(listener):
        _report(
            "warning: with --host ::, this system accepts only IPv6 connections. To accept IPv4 "
            "connections instead, give --host 0.0.0.0"
        )


def _read_lineage(runs: LoadedRuns) -> None:
    # Here, in its thread: pages are served before NumPy and protobuf are loaded.
    from mindsummary_lightning.viewer.pages.run_table import read_lineage

    read_lineage(runs)


def _report(line: str) -> None:
    say(line, sys.stderr)
