"""``mindsummary view DIR``."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
import threading
from typing import TYPE_CHECKING

from mindsummary_lightning.cli.arguments import DIRECTORY, argument, flag
from mindsummary_lightning.cli.output import Answer, UsageError, say
from mindsummary_lightning.errors import missing_packages
from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files
from mindsummary_lightning.viewer.browser import opened_in_browser
from mindsummary_lightning.viewer.frontend import frontend_wheel

if TYPE_CHECKING:
    from mindsummary_lightning.viewer.loaded_runs import LoadedRuns

ARGUMENTS = (
    DIRECTORY,
    argument("--port", type=int, help="port to listen on; without it 8080, or any if that is taken"),
    argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)"),
    flag("--no-browser", "do not open a browser"),
    flag("--no-token", "answer everyone who reaches the port"),
    argument("--memory", type=int, metavar="MB", help="memory for the runs that are kept loaded (default: 480)"),
    argument("--wheel", metavar="FILE", help="MindInsight's wheel or its address, for the first start"),
)
_FEW_RUNS = 20  # lineage of more is read ahead


def run(arguments: argparse.Namespace) -> Answer:
    """Serve until interrupted."""
    if not os.path.isdir(arguments.directory):
        raise NotADirectoryError(f"{arguments.directory} is not a directory")
    if arguments.port is not None and not 0 <= arguments.port <= 65535:
        raise UsageError(f"--port {arguments.port} is not between 0 and 65535")
    if arguments.memory is not None and arguments.memory < 1:
        raise UsageError(f"--memory {arguments.memory} is less than 1 MB")
    try:
        import aiohttp  # noqa: F401
    except ImportError as error:
        raise missing_packages("the viewer", "aiohttp") from error

    from mindsummary_lightning.viewer.access import Access, new_token
    from mindsummary_lightning.viewer.addresses import RUN_TABLE, host_names, page_addresses, server_address
    from mindsummary_lightning.viewer.app import create_site
    from mindsummary_lightning.viewer.loaded_runs import DEFAULT_MEMORY_BYTES, LoadedRuns
    from mindsummary_lightning.viewer.serve import listen, serve_until_signal

    gc.set_threshold(100_000)  # a graph of 20,000 nodes is a million objects, none of them in a cycle
    token = None if arguments.no_token else new_token()
    memory_bytes = DEFAULT_MEMORY_BYTES if arguments.memory is None else arguments.memory * 10**6
    with listen(arguments.host, arguments.port) as listener, contextlib.ExitStack() as ending:
        port = listener.getsockname()[1]
        _warn_of_others(arguments.host, port, token)
        frontend = frontend_wheel(_report, arguments.wheel)
        access = Access(token, host_names(arguments.host))
        runs = LoadedRuns(arguments.directory, memory_bytes)
        server = server_address(arguments.host, port)
        is_run = summary_files(arguments.directory) or lineage_file_paths(arguments.directory)
        train_id = "./" if is_run else None

        def ready() -> None:
            number = len(runs.listing())
            if not number:
                _report(f"no run in {arguments.directory} yet; the pages show one when it begins")
            pages = page_addresses(server, token, train_id)
            _print_pages(f"runs in {os.path.abspath(arguments.directory)}", pages)
            if number > _FEW_RUNS:
                threading.Thread(target=_read_lineage, args=(runs,), daemon=True).start()
            if not arguments.no_browser:
                ending.enter_context(opened_in_browser(dict(pages)[RUN_TABLE] if number > 1 else pages[0][1]))

        serve_until_signal(create_site(runs, frontend, access), listener, ready)
    _report("the viewer has ended")
    return Answer()


def _read_lineage(runs: LoadedRuns) -> None:
    """Read all lineage before a page asks for it, and make the rows of the table; wait while a page reads lineage."""
    # Here: pages are served before protobuf and NumPy are loaded.
    from mindsummary_lightning.lineage.search import CACHE, READING
    from mindsummary_lightning.viewer.api import ApiRequest
    from mindsummary_lightning.viewer.pages.run_table import run_table

    gc.disable()  # it would look at everything that was read, again and again
    try:
        for directory in runs.run_directories():
            if READING.locked():
                with READING:
                    pass
            CACHE.lineage(directory.path, directory.files)
        runs.scan_again()  # of thousands of runs this took seconds: the directories need not be listed at the next look
        while run_table(runs, ApiRequest())["unread"]:
            pass
    finally:
        gc.freeze()  # what was read stays until the end
        gc.enable()


def _report(line: str) -> None:
    say(line, sys.stderr)


def _print_pages(title: str, pages: list[tuple[str, str]]) -> None:
    for line in (title, *(f"  {name:14}  {address}" for name, address in pages), "Ctrl-C ends it"):
        say(line)
    sys.stdout.flush()


def _warn_of_others(host: str, port: int, token: str | None) -> None:
    from mindsummary_lightning.viewer.addresses import is_loopback

    if not is_loopback(host):
        who = "and knows the token " if token else ""
        _report(f"warning: anyone who reaches port {port} of {host} {who}can read the runs; nothing is encrypted")
