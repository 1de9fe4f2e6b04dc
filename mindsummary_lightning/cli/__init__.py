"""The command ``mindsummary``, with one module for each subcommand.

A module is found by its subcommand's name, and imported only when the subcommand is used.

A module has ``ARGUMENTS`` and ``run(arguments) -> Answer``, which is printed here, as text or
JSON. Exit codes: 0 all is well; 1 something is damaged, missing or could not be done (one line on
standard error says what); 2 the command line is wrong. Only errors that are expected become one
line (``--debug`` shows where they come from); any other exception is a fault of this package and
keeps its traceback.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from mindsummary_lightning.cli.arguments import parsed
from mindsummary_lightning.cli.output import (
    UsageError,
    error_line,
    escaped_log,
    say,
    say_json,
    writable_output,
)
from mindsummary_lightning.cli.verbs import LEFT, verb_module
from mindsummary_lightning.errors import MindSummaryError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command ``mindsummary`` with arguments, and return its exit code.

    ``argv`` has the words after ``mindsummary``; by default it is ``sys.argv[1:]``.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    with writable_output():
        code = _run(words)
        try:
            sys.stdout.flush()
        except OSError as error:  # the reader has stopped, or the disk is full; the work is done
            _discard(sys.stdout)
            if not isinstance(error, BrokenPipeError):
                say(f"mindsummary: {error_line(error)}", sys.stderr)
                code = code or 1
        try:
            sys.stderr.flush()
        except OSError:  # Python 3.14 would end with exit code 120
            _discard(sys.stderr)
        return code


def _discard(stream: TextIO) -> None:
    """Let a stream that cannot be written end in the null device."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(words: list[str]) -> int:
    try:
        arguments = parsed(words)
    except SystemExit as ended:  # argparse has printed the reason
        return ended.code if isinstance(ended.code, int) else 2
    try:
        with escaped_log():
            return _answered(arguments)
    except BrokenPipeError:  # `mindsummary dump ... | head`: the reader has stopped
        return 0
    except KeyboardInterrupt:
        if arguments.verb in LEFT:
            left = LEFT[arguments.verb].format(**vars(arguments))
            say(f"mindsummary: interrupted: {left}", sys.stderr)
        return 130
    except (UsageError, MindSummaryError, OSError, ImportError) as error:
        if arguments.debug:
            raise
        say(f"mindsummary: {error_line(error)}", sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


def _answered(arguments: argparse.Namespace) -> int:
    """Run a subcommand, print its answer, and return its exit code."""
    answer = verb_module(arguments.verb).run(arguments)
    try:
        for problem in answer.problems:
            say(f"mindsummary: {problem}", sys.stderr)
        if getattr(arguments, "json", False):
            say_json(answer.json)
        else:
            for line in answer.lines:
                say(line)
    except BrokenPipeError:  # as in _run; the verb's own code counts
        pass
    return int(answer.code)
