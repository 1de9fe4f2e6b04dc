"""The command ``mindsummary``: one small module per verb, found by name and imported only when it is used.

A verb module has ``ARGUMENTS`` and ``run(arguments) -> Answer``, which is printed here, as text or
JSON. Exit codes: 0 all is well; 1 something is damaged, missing or could not be done (one line on
standard error says what); 2 the command line is wrong. Only errors that are expected become one
line (``--debug`` shows where they come from); any other exception is a fault of this package and
keeps its traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from mindsummary_lightning.cli.arguments import parsed
from mindsummary_lightning.cli.output import (
    Answer,
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
    """Run the words after ``mindsummary``, by default the process's own, and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    with writable_output():
        code = _run(words)
        try:
            sys.stdout.flush()
        except OSError as error:  # the reader has stopped, or the disk is full; the work is done
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if not isinstance(error, BrokenPipeError):
                say(f"mindsummary: {error_line(error)}", sys.stderr)
                code = code or 1
        return code


def _run(words: list[str]) -> int:
    try:
        arguments = parsed(words)
    except SystemExit as ended:  # argparse has printed the reason
        return ended.code if isinstance(ended.code, int) else 2
    answer = Answer()
    try:
        with escaped_log():
            answer = verb_module(arguments.verb).run(arguments)
            for problem in answer.problems:
                say(f"mindsummary: {problem}", sys.stderr)
            if getattr(arguments, "json", False):
                say_json(answer.json)
            else:
                for line in answer.lines:
                    say(line)
    except BrokenPipeError:  # `mindsummary dump ... | head`: the reader has stopped
        pass
    except KeyboardInterrupt:
        if arguments.verb in LEFT:
            say(
                f"mindsummary: interrupted: {LEFT[arguments.verb].format(**vars(arguments))}",
                sys.stderr,
            )
        return 130
    except (UsageError, MindSummaryError, OSError, ImportError) as error:
        if arguments.debug:
            raise
        say(f"mindsummary: {error_line(error)}", sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return answer.code
