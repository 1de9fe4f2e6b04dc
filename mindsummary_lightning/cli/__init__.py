"""The command ``mindsummary``: one small module per verb, found by name and imported only when it is used.

A verb module has ``NAME``, ``HELP``, ``add_arguments(parser)`` and ``run(arguments) -> int``. Exit codes: 0 all is
well; 1 something is damaged, missing or could not be done (one line on standard error says what); 2 the command line
is wrong. Only errors that are expected become one line (``--debug`` shows where they come from); any other exception is
a fault of this package and keeps its traceback.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from mindsummary_lightning import __version__
from mindsummary_lightning.cli.output import UsageError, escaped_log, say
from mindsummary_lightning.errors import MindSummaryError

__all__ = ["VERBS", "main"]

VERBS = {
    "view": "view",
    "doctor": "doctor",
    "list": "list_runs",
    "show": "show",
    "dump": "dump",
    "verify": "verify",
    "repair": "repair",
    "lineage": "lineage",
    "landscape": "landscape",
    "export": "export",
    "import": "import_runs",
    "report": "report",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line.

    Args:
        argv: the words after ``mindsummary``; ``None`` takes the process's own.

    Returns:
        The exit code.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    wanted = next((word for word in words if not word.startswith("-")), None)
    parser = _parser([wanted] if wanted in VERBS else list(VERBS))
    if not words:
        parser.print_help()
        return 0
    try:
        arguments = parser.parse_args(words)
    except SystemExit as ended:  # argparse has printed the reason
        return ended.code if isinstance(ended.code, int) else 2
    try:
        with escaped_log():
            code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # `mindsummary dump ... | head`: the reader has stopped
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except (UsageError, MindSummaryError, OSError, ImportError) as error:
        if arguments.debug:
            raise
        say(f"mindsummary: {_one_line(error)}", sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


def _parser(names: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mindsummary",
        description="Show, check, repair and convert MindInsight run directories.",
        epilog="Exit codes: 0 all is well; 1 something is damaged, missing or could not be done; 2 wrong command line.",
    )
    parser.add_argument("--version", action="version", version=f"mindsummary {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error instead of one line")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for name in names:
        module = _verb(name)
        verb = verbs.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(verb)
        verb.set_defaults(run=module.run)
    return parser


def _verb(name: str) -> ModuleType:
    return importlib.import_module(f"mindsummary_lightning.cli.{VERBS[name]}")


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror[:1].lower()}{error.strerror[1:]}"
    return " ".join(str(error).split()) or type(error).__name__
