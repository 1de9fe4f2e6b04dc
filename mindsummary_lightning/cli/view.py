"""``mindsummary view DIR``."""

from __future__ import annotations

import argparse

__all__ = ["HELP", "NAME", "add_arguments", "run"]

NAME = "view"
HELP = "Open runs in MindInsight, in an environment of its own that is made once; Ctrl-C ends it."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "directory", metavar="DIR", nargs="?", help="a run, a directory of runs, or a save_dir above it"
    )
    parser.add_argument("--port", type=int, help="port to listen on; without it 8080, or any if that is taken")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    parser.add_argument("--status", action="store_true", help="list the servers that are running, and do nothing else")
    parser.add_argument("--stop", action="store_true", help="end the servers that are running (with --port: that one)")
    parser.add_argument("--reinstall", action="store_true", help="make MindInsight's environment again")
    parser.add_argument("--wheelhouse", metavar="DIR", help="install from the wheels in DIR, without a network")


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted, or list or end servers."""
    if arguments.status or arguments.stop:
        return _status_or_stop(arguments)
    if arguments.directory is None:
        raise ValueError("view needs a directory, --status or --stop")
    return _serve(arguments)


def _status_or_stop(arguments: argparse.Namespace) -> int:
    from mindsummary_lightning.mindinsight.process import running_servers, stop_server

    servers = [server for server in running_servers() if arguments.port in (None, server.port)]
    for server in servers:
        if arguments.stop:
            stop_server(server)
        print(f"{server.address} {'stopped' if arguments.stop else 'shows'} {server.base}")
    if not servers:
        print("no server is running")
    return 0 if servers or arguments.stop else 1


def _serve(arguments: argparse.Namespace) -> int:
    import signal
    import sys
    import webbrowser

    from mindsummary_lightning.mindinsight.environment import viewer_python
    from mindsummary_lightning.mindinsight.process import page_addresses, pick_port, running_server
    from mindsummary_lightning.reading.base_directory import find_base

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    base = find_base(arguments.directory)
    port = pick_port(arguments.host, arguments.port)
    python = viewer_python(say, reinstall=arguments.reinstall, wheelhouse=arguments.wheelhouse)
    say(f"starting MindInsight on {base.path} ...")
    # A polite end from outside and a closed terminal leave no server either; under nohup the latter is ignored already.
    wanted = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    ends = [number for number in wanted if signal.getsignal(number) != signal.SIG_IGN]
    previous = {number: signal.signal(number, interrupt) for number in ends}
    try:
        with running_server(python, base.path, arguments.host, port) as (server, wait):
            print(f"{len(base.train_ids)} run{'' if len(base.train_ids) == 1 else 's'} in {base.path}")
            pages = page_addresses(server.address, None)
            if len(base.train_ids) == 1:
                pages += page_addresses(server.address, base.train_ids[0])
            for name, address in pages:
                print(f"  {name:14}  {address}")
            print("Ctrl-C ends it", flush=True)
            if not arguments.no_browser:
                webbrowser.open(f"{server.address}/#/summary-manage")
            wait()
    except KeyboardInterrupt:
        pass  # the way a user ends it
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    say("MindInsight has ended")
    return 0
