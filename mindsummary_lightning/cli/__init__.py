"""The command ``mindsummary``: one small module per verb, found by name and imported only when it is used.

A verb module has ``run(arguments) -> int``. Exit codes: 0 all is well; 1 something is damaged, missing or could not be
done (one line on standard error says what); 2 the command line is wrong. Only errors that are expected become one line
(``--debug`` shows where they come from); any other exception is a fault of this package and keeps its traceback.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Sequence
from types import ModuleType

from mindsummary_lightning.cli.arguments import LEFT, VERBS, describe, parser
from mindsummary_lightning.cli.output import UsageError, error_line, escaped_log, say, writable_output
from mindsummary_lightning.errors import MindSummaryError, RemotePathError, closest

_RUNS = ("directory", "directories", "run_dir", "runs", "a", "b")  # the arguments that name local runs
_MODULES = {"list": "list_runs", "import": "import_runs"}  # where a module cannot be called like its verb


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
    made, verbs = parser()
    if not words:
        made.print_help()
        return 0
    if words[0] in ("help", "version"):  # as other programs have it
        words = [*words[1:2], "--help"] if words[0] == "help" else ["--version"]
    verb = next((word for word in words if not word.startswith("-")), None)
    try:
        if verb is not None and verb not in VERBS:
            made.error(f"no verb {verb!r}{closest(verb, VERBS)}; `mindsummary --help` lists them")
        if verb is not None and {"-h", "--help"}.intersection(words):
            describe(verbs[verb], verb)
        arguments, unknown = made.parse_known_args(words)
        if unknown:
            verbs[arguments.verb].refuse(unknown)
    except SystemExit as ended:  # argparse has printed the reason
        return ended.code if isinstance(ended.code, int) else 2
    try:
        with escaped_log():
            _refuse_addresses(arguments)
            code: int = verb_module(arguments.verb).run(arguments)
        return code
    except BrokenPipeError:  # `mindsummary dump ... | head`: the reader has stopped
        return 0
    except KeyboardInterrupt:
        if arguments.verb in LEFT:
            say(f"mindsummary: interrupted: {LEFT[arguments.verb].format(**vars(arguments))}", sys.stderr)
        return 130
    except (UsageError, MindSummaryError, OSError, ImportError) as error:
        if arguments.debug:
            raise
        say(f"mindsummary: {error_line(error)}", sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


def _refuse_addresses(arguments: argparse.Namespace) -> None:
    named = [getattr(arguments, name, None) or [] for name in _RUNS]
    for path in (path for value in named for path in ([value] if isinstance(value, str) else value)):
        if re.match("[a-zA-Z][a-zA-Z0-9+.-]+://", path):
            text = (
                f"{path} is in a remote store, and `{arguments.verb}` takes local runs; bring it here first: "
                f"`mindsummary sync {path} runs`, then `mindsummary {arguments.verb} runs`"
            )
            from mindsummary_lightning.values.text import without_secrets  # here: with it comes NumPy

            raise RemotePathError(without_secrets(text, path))


def verb_module(verb: str) -> ModuleType:
    """The module of a verb."""
    return importlib.import_module(f"{__name__}.{_MODULES.get(verb, verb)}")
