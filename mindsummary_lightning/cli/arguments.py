"""Makes a subcommand's parser and help from its constant ``ARGUMENTS``."""

from __future__ import annotations

import argparse
import itertools
import shutil
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias

from mindsummary_lightning import __version__
from mindsummary_lightning.cli.verbs import GROUPS, MORE, VERBS, verb_module
from mindsummary_lightning.errors import closest

# what ArgumentParser.add_argument takes
Argument: TypeAlias = "tuple[tuple[str, ...], dict[str, Any]]"


def argument(*names: str, **options: Any) -> Argument:
    """Describe an argument for :meth:`argparse.ArgumentParser.add_argument`."""
    return names, options


def flag(name: str, text: str) -> Argument:
    """Describe an option that takes no value."""
    return argument(name, action="store_true", help=text)


def positive(text: str) -> int:
    """Parse a whole number of at least 1; for ``type=`` of an argument."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)


def json_of(what: str) -> Argument:
    """Describe the option ``--json``."""
    return flag("--json", f"print {what} as JSON")


LANGUAGE = argument(
    "--language",
    choices=("en", "zh"),  # of values.page_words, which would load NumPy
    default="en",
    help="language of the page (default: en)",
)
FOLLOW = flag("--follow", "redraw the output every two seconds, until Ctrl-C")
OUT = argument(
    "-o",
    "--out",
    "--output",
    required=True,
    metavar="DIR",
    help="directory to write into; new or empty",
)
FORCE = flag("--force", "replace what an earlier call left in --out")
RUNS_IN = "a run, or a directory that contains runs at any depth"
DIRECTORY = argument(
    "directory", metavar="DIR", nargs="?", default=".", help=f"{RUNS_IN} (default: here)"
)
DIRECTORIES = argument(
    "directories", metavar="DIR", nargs="*", default=["."], help=f"{RUNS_IN} (default: here)"
)
_DEBUG = "show the traceback of an error instead of one line"


class _Parser(argparse.ArgumentParser):
    """A parser that suggests the closest option after a wrong option.

    For a superfluous word, the error lists the arguments of the subcommand.
    """

    def __init__(self, prog: str, **texts: str) -> None:
        lines_as_written = argparse.RawDescriptionHelpFormatter
        super().__init__(prog, formatter_class=lines_as_written, **texts)  # type: ignore[arg-type]

    def refuse(self, unknown: list[str]) -> NoReturn:
        known: list[str] = []
        taken: list[str] = []
        for action in self._actions:
            if action.option_strings:
                known += action.option_strings
            else:
                taken.append(str(action.metavar or action.dest))
        for word in unknown:
            if word.startswith("-"):
                option = word.partition("=")[0]
                self.error(f"there is no option {option}{closest(option, known)}")
        arguments = " ".join(taken) or "no argument"
        self.error(f"expected {arguments}, but got the additional words: {' '.join(unknown)}")


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Parse the words that follow ``mindsummary`` on the command line.

    The result has the subcommand's arguments, and the attributes ``verb`` and ``debug``.

    Raises:
        SystemExit: help or the version was printed, or the words are wrong and
            that is said.
    """
    if not words or words[0] in ("help", "version"):  # as other programs have it
        words = ["--version"] if words[:1] == ["version"] else [*words[1:2], "--help"]
    before_verb = list(itertools.takewhile(lambda word: word.startswith("-"), words))
    top = _top_parser()
    given, unknown = top.parse_known_args(before_verb)
    if unknown:
        top.refuse(unknown)
    verb, *rest = words[len(before_verb) :] or [""]
    if verb not in VERBS:
        top.error(
            f"there is no subcommand {verb!r}{closest(verb, VERBS)}; "
            "`mindsummary --help` lists all subcommands"
        )
    is_help = {"-h", "--help"}.intersection(rest)
    parser = _Parser(f"mindsummary {verb}", **(_texts(verb) if is_help else {}))
    for names, options in verb_module(verb).ARGUMENTS:
        parser.add_argument(*names, **options)
    parser.add_argument("--debug", action="store_true", default=given.debug, help=_DEBUG)
    arguments, unknown = parser.parse_known_args(rest, argparse.Namespace(verb=verb))
    if unknown:
        parser.refuse(unknown)
    for name, value in vars(arguments).items():
        setattr(arguments, name, _without_local_schemes(value))
    return arguments


def _top_parser() -> _Parser:
    """Make the parser for the options that precede the subcommand."""
    codes = (
        "Exit codes: 0 all is well; 1 something is damaged, missing or could not be done; "
        "2 wrong command line. `mindsummary VERB --help` has examples."
    )
    parser = _Parser(
        "mindsummary",
        usage="mindsummary [-h] [-V] [--debug] VERB ...",
        description="Show, check, repair and convert MindInsight run directories.",
        epilog=f"{_overview()}\n\n{_wrapped(codes, '')}",
    )
    parser.add_argument("-V", "--version", action="version", version=f"mindsummary {__version__}")
    parser.add_argument("--debug", action="store_true", help=_DEBUG)
    return parser


def _without_local_schemes(value: Any) -> Any:
    """Replace ``file:///path`` with the path, in one value or in a list of values."""
    if isinstance(value, list):
        return [_without_local_schemes(item) for item in value]
    if not isinstance(value, str) or ":/" not in value:
        return value
    from mindsummary_lightning.values.addresses import without_local_scheme  # here: it loads NumPy

    return without_local_scheme(value)


def _wrapped(text: str, indent: str, first: str = "") -> str:
    width = max(30, shutil.get_terminal_size().columns - 2)
    return textwrap.fill(text, width, initial_indent=first or indent, subsequent_indent=indent)


def _overview() -> str:
    """List the subcommands and their short descriptions, in groups."""
    lines = []
    for group, names in GROUPS.items():
        lines.append(f"{group}:")
        for name in names:
            text = VERBS[name].partition("; exit")[0].partition(": ")[0].rstrip(".")
            lines.append(_wrapped(text, " " * 14, f"  {name:12}"))
    return "\n".join(lines)


def _texts(verb: str) -> dict[str, str]:
    """Return the help texts of a subcommand: description, examples and page."""
    *examples, page = MORE[verb]
    lines = "\n".join(f"  mindsummary {example}" for example in examples)
    return {
        "description": _wrapped(VERBS[verb], ""),
        "epilog": f"examples:\n{lines}\n\nmore: docs/{page}.md",
    }
