"""``mindsummary sync SOURCE DESTINATION``: when rounds are made, once or again and again, and what is said of them."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator

from mindsummary_lightning.cli.output import UsageError, counted, error_line, progress_bar, readable_size, say, say_json
from mindsummary_lightning.errors import MindSummaryError, missing_packages

try:
    from mindsummary_lightning.remote.run_copies import RunCopies
    from mindsummary_lightning.remote.store import Store
except ImportError as error:
    raise missing_packages("sync", "fsspec") from error

_ATTEMPTS = 8  # of one call without --follow: two minutes of pauses
_LONGEST_PAUSE_S = 60.0
_QUIET_S = 60.0  # without a writer and a change, a run has ended: between fit and test there is no writer either
_QUIET_WITHOUT_LOCKS_S = 600.0
_LOOK_S = 0.5  # how soon a request to stop is seen


def run(arguments: argparse.Namespace) -> int:
    """Copy once, or until the runs have ended or SIGTERM; 1 if anything is not there at the end."""
    if not arguments.every > 0:
        raise UsageError(f"--every {arguments.every:g} is not a number of seconds")
    source, total = Store(arguments.source), 0
    signals: list[int] = []
    problems: list[str] = []
    with contextlib.suppress(Exception):  # the first round says what is wrong
        total = 0 if arguments.follow else sum(info["size"] for info in source.list().values())
    with progress_bar("sending", total) as advance:
        destination = Store(arguments.destination, advance)
        if f"{destination.address}/".startswith(f"{source.address}/"):
            raise UsageError(f"{arguments.destination} is in {arguments.source}: its copies would be copied")
        copies = RunCopies(source, destination)
        before = signal.signal(signal.SIGTERM, lambda number, frame: signals.append(number))
        try:
            for _ in rounds(copies, arguments.every if arguments.follow else None, lambda: bool(signals)):
                told = problems
                problems = [f"{name}: {error_line(error)}" for name, error in copies.problems.items()]
                for problem in sorted({*problems} - {*told}):
                    say(f"mindsummary: {problem}", sys.stderr)
        finally:
            signal.signal(signal.SIGTERM, before)
    if not copies.runs and not problems:
        raise FileNotFoundError(f"no run in {arguments.source}: nothing was sent")
    missing = copies.missing if problems else 0
    if arguments.json:
        numbers = {"runs": len(copies.runs), "sent_bytes": destination.sent, "missing_bytes": missing}
        say_json({**numbers, "problems": sorted(problems)})
    else:
        say(f"{counted(len(copies.runs), 'run')}: {readable_size(destination.sent)} sent to {arguments.destination}")
        if not destination.kept(sys.maxsize):
            say("this store cannot append: a summary file that grew was sent again from its beginning")
    if problems:
        say(f"mindsummary: {readable_size(missing)} are not there yet", sys.stderr)
    return 1 if problems else 0


def rounds(copies: RunCopies, every_s: float | None, is_stopped: Callable[[], bool]) -> Iterator[None]:
    """Bring copies up to date, yielding after each round, until all is there or eight attempts have failed.

    Every ``every_s``: until the runs have ended and all is there, or it is stopped and tries once more.
    """
    failures, changed_at = 0, time.monotonic()
    while True:
        began, is_stopping = time.monotonic(), is_stopped()
        quiet_s = began - changed_at
        is_recorded = copies.is_recorded() if quiet_s >= _QUIET_S else True
        has_ended = every_s is None or (quiet_s >= _QUIET_WITHOUT_LOCKS_S if is_recorded is None else not is_recorded)
        if has_changed := copies.send(is_stopping or has_ended):
            changed_at = began
        yield
        has_failed = not all(isinstance(problem, MindSummaryError) for problem in copies.problems.values())
        failures = failures + 1 if has_failed else 0  # what the files are does not change soon
        is_there = has_ended and not has_failed and (every_s is None or not has_changed)
        if is_stopping or is_there or (every_s is None and failures == _ATTEMPTS):
            return
        until = time.monotonic() + min(_LONGEST_PAUSE_S, 2 ** (failures - 1)) if failures else began + (every_s or 0)
        while not is_stopped() and (rest := until - time.monotonic()) > 0:
            time.sleep(min(rest, _LOOK_S))
