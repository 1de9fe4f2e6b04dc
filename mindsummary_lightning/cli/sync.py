"""``mindsummary sync SOURCE DESTINATION``."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading

from mindsummary_lightning.cli.output import UsageError, counted, progress_bar, readable_size, say, say_json
from mindsummary_lightning.errors import missing_packages


def run(arguments: argparse.Namespace) -> int:
    """Copy once, or until the runs have ended or SIGTERM; 1 if anything is not there at the end."""
    if arguments.every <= 0:
        raise UsageError(f"--every {arguments.every:g} is not a number of seconds")
    try:
        from mindsummary_lightning.remote.rounds import carry
        from mindsummary_lightning.remote.run_copies import RunCopies
        from mindsummary_lightning.remote.store import Store
    except ImportError as error:
        raise missing_packages("sync", "fsspec") from error

    source = Store(arguments.source)
    total = 0
    with contextlib.suppress(Exception):  # the first round says what is wrong
        total = 0 if arguments.follow else sum(file.size for file in source.list().values())
    told: set[str] = set()

    def tell_what_is_new() -> None:
        problems = {f"{name}: {problem or type(problem).__name__}" for name, problem in copies.problems.items()}
        for problem in sorted(problems - told):
            say(f"mindsummary: {problem}", sys.stderr)
        told.clear()
        told.update(problems)

    with progress_bar("sending", total) as advance:
        destination = Store(arguments.destination, advance)
        copies = RunCopies(source, destination)
        is_stopped = threading.Event()
        before = signal.signal(signal.SIGTERM, lambda number, frame: is_stopped.set())
        try:
            carry(copies, arguments.every if arguments.follow else None, is_stopped.is_set, tell_what_is_new)
        finally:
            signal.signal(signal.SIGTERM, before)
    if not copies.runs and not copies.problems:
        raise FileNotFoundError(f"no run in {arguments.source}: nothing was sent")
    if arguments.json:
        numbers = {"runs": copies.runs, "sent_bytes": destination.sent, "missing_bytes": copies.missing}
        say_json({**numbers, "problems": sorted(told)})
    else:
        say(f"{counted(copies.runs, 'run')}: {readable_size(destination.sent)} sent to {arguments.destination}")
        if destination.rewrites:
            say("this store cannot append: a summary file that grew was sent again from its beginning")
    if copies.problems:
        say(f"mindsummary: {readable_size(copies.missing)} are not there yet", sys.stderr)
    return 1 if copies.problems else 0
