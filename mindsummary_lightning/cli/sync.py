"""``mindsummary sync SOURCE DESTINATION``: copy runs, once or in rounds."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence

from mindsummary_lightning.cli.arguments import argument, flag, json_of
from mindsummary_lightning.cli.output import Answer, UsageError, error_line, readable_size, say
from mindsummary_lightning.cli.runs import links_note
from mindsummary_lightning.remote.run_copies import RunCopies, Store
from mindsummary_lightning.values.text import counted, without_secrets

ARGUMENTS = (
    argument(
        "source",
        metavar="SOURCE",
        help="a run or a directory of runs: a path, or an address as s3://...",
    ),
    argument("destination", metavar="DESTINATION", help="a directory or address for the copies"),
    flag("--follow", "continue until the runs have ended, or until Ctrl-C or SIGTERM"),
    argument(
        "--every",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="time between two rounds (default: %(default)g)",
    ),
    flag("--force", "replace copies that differ from the source and are newer"),
    flag("--verify", "also compare whole contents, once; this reads each copy"),
    json_of("what was sent"),
)


def run(arguments: argparse.Namespace) -> Answer:
    """Copy runs once, or with ``--follow`` until they have ended or a signal arrives.

    The exit code is 1 if a file is missing in the destination at the end.
    """
    source, destination = _stores(arguments)
    copies = RunCopies(source, destination, force=arguments.force, verify=arguments.verify)
    problems = list[str]()
    with _ending_signals(arguments.follow) as signals:
        for _ in rounds(copies, arguments.every if arguments.follow else None, signals):
            reported = problems
            problems = _problems(copies, arguments)
            for problem in sorted(set(problems).difference(reported)):
                say(f"mindsummary: {problem}", sys.stderr)
    if not copies.runs and not problems:
        raise FileNotFoundError(f"{_lack(source)}: nothing was sent")
    facts = {
        "runs": len(copies.runs),
        "sent_bytes": copies.sent,
        "missing_bytes": copies.missing,
        "problems": problems,
    }
    runs = counted(len(copies.runs), "run")
    sent = f"{runs}: {readable_size(copies.sent)} sent to {destination.name}"
    lack = [f"{readable_size(copies.missing)} are not there yet"] if problems else []
    return Answer(facts, [sent], len(lack), lack)


def _stores(arguments: argparse.Namespace) -> tuple[Store, Store]:
    """Open the source and the destination of the copies.

    Raises:
        UsageError: the arguments contradict each other, or the destination is in the source.
    """
    if not arguments.every > 0:
        raise UsageError("--every must be greater than 0 seconds")
    if arguments.verify and arguments.follow:
        raise UsageError(
            "--verify cannot be combined with --follow. Give only one of the two options"
        )
    source, destination = Store(arguments.source), Store(arguments.destination)
    is_same_store = type(source.files) is type(destination.files)
    if is_same_store and f"{destination.root}/".startswith(f"{source.root}/"):
        raise UsageError(
            f"the destination must be outside of the source {source.name}, got {destination.name}. "
            "Otherwise the copies would be copied again"
        )
    return source, destination


def _problems(copies: RunCopies, arguments: argparse.Namespace) -> list[str]:
    """Describe the files that could not be copied, without secrets in addresses."""
    problems = set()
    for name, error in copies.problems.items():
        line = f"{name}: {error_line(error)}"
        problems.add(without_secrets(line, arguments.source, arguments.destination))
    return sorted(problems)


@contextlib.contextmanager
def _ending_signals(is_followed: bool) -> Iterator[list[int]]:
    """Return a context that collects signals, so that one last round can follow.

    These are SIGTERM and, with ``--follow``, the first Ctrl-C. The second Ctrl-C ends the command
    at once.
    """
    signals = list[int]()

    def end(number: int, frame: object) -> None:
        signals.append(number)
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, end)}
    # Ignored in the background of a script, where Ctrl-C is for the script.
    if is_followed and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, end)
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _lack(source: Store) -> str:
    """Explain that a source has no run to send."""
    if not source.is_local:
        return f"no run in {source.name}"
    if os.path.isdir(source.root):
        return f"no run in {source.name}{links_note([source.root])}"
    if os.path.exists(source.root):
        return f"{source.name} is a file; give its directory"
    return f"there is no directory {source.name}"


def rounds(copies: RunCopies, every_s: float | None, signals: Sequence[int]) -> Iterator[None]:
    """Copy again and again until all runs have ended or a signal arrives.

    ``every_s`` is the time from round to round; ``None`` makes a single round.
    """
    changed_at = time.monotonic()
    while True:
        began, is_last = time.monotonic(), every_s is None or bool(signals)
        changed_at = began if copies.send() else changed_at
        yield
        if is_last or (not copies.problems and began - changed_at >= copies.silence_s()):
            return
        _wait_until(began + (every_s or 0), signals)


def _wait_until(end: float, signals: Sequence[int]) -> None:
    """Sleep until a time of the monotonic clock; a signal ends the sleep early."""
    while not signals:
        rest = end - time.monotonic()
        if rest <= 0:
            return
        time.sleep(min(rest, 0.5))
