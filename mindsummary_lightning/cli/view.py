"""``mindsummary view DIR``."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
import webbrowser

from mindsummary_lightning.cli.output import UsageError, counted, say
from mindsummary_lightning.mindinsight.environment import original_python
from mindsummary_lightning.mindinsight.frontend import frontend_directory
from mindsummary_lightning.mindinsight.process import run_original
from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files
from mindsummary_lightning.reading.summary_base_dir import find_base


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    if not os.path.isdir(arguments.directory):
        raise NotADirectoryError(f"{arguments.directory} is not a directory")
    if arguments.port is not None and not 0 <= arguments.port <= 65535:
        raise UsageError(f"--port {arguments.port} is not between 0 and 65535")
    if arguments.memory is not None and arguments.memory < 1:
        raise UsageError(f"--memory {arguments.memory} is less than 1 MB")
    return _run_original(arguments) if arguments.original else _run_viewer(arguments)


def _run_viewer(arguments: argparse.Namespace) -> int:
    try:
        import aiohttp  # noqa: F401
    except ImportError as error:
        raise ImportError("the viewer needs aiohttp: pip install 'mindsummary-lightning[viewer]'") from error

    from mindsummary_lightning.viewer.access import Access, new_token
    from mindsummary_lightning.viewer.addresses import host_names, page_addresses, server_address
    from mindsummary_lightning.viewer.app import create_site
    from mindsummary_lightning.viewer.loaded_runs import DEFAULT_MEMORY_BYTES
    from mindsummary_lightning.viewer.serve import listen, serve_until_signal

    gc.set_threshold(100_000)  # a graph of 20,000 nodes is a million objects, none of them in a cycle
    token = None if arguments.no_token else new_token()
    memory_bytes = DEFAULT_MEMORY_BYTES if arguments.memory is None else arguments.memory * 10**6
    with listen(arguments.host, arguments.port) as listener:
        port = listener.getsockname()[1]
        _warn_of_others(arguments.host, port, token)
        frontend = frontend_directory(_report, arguments.wheel)
        access = Access(token, host_names(arguments.host))
        app = create_site(arguments.directory, frontend, access, memory_bytes)
        server = server_address(arguments.host, port)
        is_run = summary_files(arguments.directory) or lineage_file_paths(arguments.directory)
        train_id = "./" if is_run else None

        def ready() -> None:
            _print_pages(f"runs in {os.path.abspath(arguments.directory)}", page_addresses(server, token, train_id))
            if not arguments.no_browser:
                webbrowser.open(page_addresses(server, access.single_use_token())[0][1])

        serve_until_signal(app, listener, ready)
    _report("the viewer has ended")
    return 0


def _run_original(arguments: argparse.Namespace) -> int:
    from mindsummary_lightning.viewer.addresses import page_addresses, server_address
    from mindsummary_lightning.viewer.serve import listen, on_end_signals

    def interrupt() -> None:
        raise KeyboardInterrupt

    try:
        base = find_base(arguments.directory)
    except ValueError as error:  # runs in several directories: the original shows those of one
        raise UsageError(str(error)) from error
    with listen(arguments.host, arguments.port) as listener:
        port = listener.getsockname()[1]
    _warn_of_others(arguments.host, port, None)
    python = original_python(_report)
    train_id = base.train_ids[0] if len(base.train_ids) == 1 else None
    pages = page_addresses(server_address(arguments.host, port), None, train_id)

    def ready() -> None:
        _print_pages(f"{counted(len(base.train_ids), 'run')} in {base.path}", pages)
        if not arguments.no_browser:
            webbrowser.open(pages[0][1])

    _report(f"starting MindInsight on {base.path}")
    with contextlib.suppress(KeyboardInterrupt), on_end_signals(interrupt):
        run_original(python, base.path, arguments.host, port, ready)
    _report("MindInsight has ended")
    return 0


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
