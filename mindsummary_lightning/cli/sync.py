"""``mindsummary sync SOURCE DESTINATION``: when rounds are made, once or again and again, and what is said of them."""

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
    flag(
        "--follow", "go on until the runs have ended, or until Ctrl-C or SIGTERM and a last round"
    ),
    argument(
        "--every",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="from round to round (default: %(default)g)",
    ),
    flag("--force", "replace copies that differ and are newer than what is sent"),
    flag("--verify", "compare whole contents, too, once; each copy is read"),
    json_of("what was sent"),
)


def run(arguments: argparse.Namespace) -> Answer:
    """Copy once, or until the runs have ended or a signal; 1 if anything is not there at the end."""
    if not arguments.every > 0 or (arguments.verify and arguments.follow):
        raise UsageError(
            "--every takes a number of seconds, and --verify reads once, without --follow"
        )
    source, destination = Store(arguments.source), Store(arguments.destination)
    if type(source.files) is type(destination.files) and f"{destination.root}/".startswith(
        f"{source.root}/"
    ):
        raise UsageError(f"{destination.name} is in {source.name}: its copies would be copied")
    copies = RunCopies(source, destination, force=arguments.force, verify=arguments.verify)
    problems = list[str]()
    with _ending_signals(arguments.follow) as signals:
        for _ in rounds(copies, arguments.every if arguments.follow else None, signals):
            told, lines = (
                problems,
                (f"{name}: {error_line(error)}" for name, error in copies.problems.items()),
            )
            problems = sorted(
                {without_secrets(line, arguments.source, arguments.destination) for line in lines}
            )
            for problem in sorted({*problems} - {*told}):
                say(f"mindsummary: {problem}", sys.stderr)
    if not copies.runs and not problems:
        raise FileNotFoundError(f"{_lack(source)}: nothing was sent")
    facts = {
        "runs": len(copies.runs),
        "sent_bytes": copies.sent,
        "missing_bytes": copies.missing,
        "problems": problems,
    }
    sent = f"{counted(len(copies.runs), 'run')}: {readable_size(copies.sent)} sent to {destination.name}"
    lack = [f"{readable_size(copies.missing)} are not there yet"] if problems else []
    return Answer(facts, [sent], len(lack), lack)


@contextlib.contextmanager
def _ending_signals(is_followed: bool) -> Iterator[list[int]]:
    """Collect the signals that ask for an end after one last round.

    SIGTERM is one. Of ``--follow`` the first Ctrl-C is one too, and the second ends the command at
    once.
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
    """Why a source has no run to send."""
    if not source.is_local:
        return f"no run in {source.name}"
    if os.path.isdir(source.root):
        return f"no run in {source.name}{links_note([source.root])}"
    is_file = os.path.exists(source.root)
    return (
        f"{source.name} is a file; give its directory"
        if is_file
        else f"there is no directory {source.name}"
    )


def rounds(copies: RunCopies, every_s: float | None, signals: Sequence[int]) -> Iterator[None]:
    """Do one round, or one every some seconds until the runs have ended and are there, or there is a signal."""
    changed_at = time.monotonic()
    while True:
        began, is_last = time.monotonic(), every_s is None or bool(signals)
        changed_at = began if copies.send() else changed_at
        yield
        if is_last or (not copies.problems and began - changed_at >= copies.silence_s()):
            return
        while not signals and (rest := began + (every_s or 0) - time.monotonic()) > 0:
            time.sleep(min(rest, 0.5))
