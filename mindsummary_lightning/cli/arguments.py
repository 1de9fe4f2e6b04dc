"""The command line: a parser for the words of one verb, made from its module's ``ARGUMENTS``, and the help."""

from __future__ import annotations

import argparse
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
    """An argument of a verb, as :meth:`argparse.ArgumentParser.add_argument` takes it."""
    return names, options


def flag(name: str, text: str) -> Argument:
    """An option without a value."""
    return argument(name, action="store_true", help=text)


def positive(text: str) -> int:
    """A whole number of at least 1, as ``type=`` of an argument."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)


def json_of(what: str) -> Argument:
    """``--json`` of a verb that reports."""
    return flag("--json", f"print {what} as JSON")


FOLLOW = flag("--follow", "draw it again every two seconds, until Ctrl-C")
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
    """Says of a word that it does not take which option is meant, or what it takes."""

    def __init__(self, prog: str, **texts: str) -> None:
        super().__init__(prog, formatter_class=argparse.RawDescriptionHelpFormatter, **texts)  # type: ignore[arg-type]

    def refuse(self, unknown: list[str]) -> NoReturn:
        options = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        if options:
            known = [name for action in self._actions for name in action.option_strings]
            self.error(f"no option {options[0]}{closest(options[0], known)}")
        taken = [
            action.metavar or action.dest for action in self._actions if not action.option_strings
        ]
        self.error(
            f"it takes {' '.join(map(str, taken)) or 'no argument'}; there is {' '.join(unknown)} too"
        )


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The arguments that words after ``mindsummary`` give, and the attributes ``verb`` and ``debug``.

    Raises:
        SystemExit: a help or the version was asked for and is printed, or the words are wrong and
            that is said.
    """
    if not words or words[0] in ("help", "version"):  # as other programs have it
        words = ["--version"] if words[:1] == ["version"] else [*words[1:2], "--help"]
    at = next((index for index, word in enumerate(words) if not word.startswith("-")), len(words))
    codes = "Exit codes: 0 all is well; 1 something is damaged, missing or could not be done; 2 wrong command line."
    top = _Parser(
        "mindsummary",
        usage="mindsummary [-h] [-V] [--debug] VERB ...",
        description="Show, check, repair and convert MindInsight run directories.",
        epilog=f"{_overview()}\n\n{_wrapped(f'{codes} `mindsummary VERB --help` has examples.', '')}",
    )
    top.add_argument("-V", "--version", action="version", version=f"mindsummary {__version__}")
    top.add_argument("--debug", action="store_true", help=_DEBUG)
    given, unknown = top.parse_known_args(words[:at])
    if unknown:
        top.refuse(unknown)
    verb, *rest = [*words[at:], ""]
    if verb not in VERBS:
        top.error(f"no verb {verb!r}{closest(verb, VERBS)}; `mindsummary --help` lists them")
    is_help = {"-h", "--help"}.intersection(rest)
    made = _Parser(f"mindsummary {verb}", **(_texts(verb) if is_help else {}))
    for names, options in verb_module(verb).ARGUMENTS:
        made.add_argument(*names, **options)
    made.add_argument("--debug", action="store_true", default=given.debug, help=_DEBUG)
    arguments, unknown = made.parse_known_args(rest[:-1], argparse.Namespace(verb=verb))
    if unknown:
        made.refuse(unknown)
    for name, value in vars(arguments).items():
        setattr(arguments, name, _without_local_schemes(value))
    return arguments


def _without_local_schemes(value: Any) -> Any:
    """The value of an argument in which ``file:///path`` is the path, also in a list."""
    if isinstance(value, list):
        return [_without_local_schemes(one) for one in value]
    if not isinstance(value, str) or ":/" not in value:
        return value
    from mindsummary_lightning.values.addresses import without_local_scheme  # here: it loads NumPy

    return without_local_scheme(value)


def _wrapped(text: str, indent: str, first: str = "") -> str:
    width = max(30, shutil.get_terminal_size().columns - 2)
    return textwrap.fill(text, width, initial_indent=first or indent, subsequent_indent=indent)


def _overview() -> str:
    """The verbs with the first sentence of each, in groups."""
    lines = []
    for group, names in GROUPS.items():
        texts = (
            (name, VERBS[name].partition("; exit")[0].partition(": ")[0].rstrip("."))
            for name in names
        )
        lines += [f"{group}:", *(_wrapped(text, " " * 14, f"  {name:12}") for name, text in texts)]
    return "\n".join(lines)


def _texts(verb: str) -> dict[str, str]:
    """The description of a verb, its examples and its page."""
    *examples, page = MORE[verb]
    lines = "\n".join(f"  mindsummary {example}" for example in examples)
    return {
        "description": _wrapped(VERBS[verb], ""),
        "epilog": f"examples:\n{lines}\n\nmore: docs/{page}.md",
    }
