"""``mindsummary completion SHELL``: print a shell completion script.

It is made from the arguments of the subcommands; zsh reads the script of bash.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from mindsummary_lightning.cli.arguments import argument
from mindsummary_lightning.cli.output import Answer
from mindsummary_lightning.cli.verbs import VERBS, verb_module

ARGUMENTS = (
    argument("shell", choices=["bash", "zsh", "fish"], help="the shell to print a script for"),
)
_BASH = """_mindsummary() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{verbs} --help --version --debug"
    else
        case "${{COMP_WORDS[1]}}:${{COMP_WORDS[COMP_CWORD-1]}}:$cur" in
{cases}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o bashdefault -o default -F _mindsummary mindsummary"""


def run(arguments: argparse.Namespace) -> Answer:
    """Print the completion script for a shell."""
    if arguments.shell == "fish":
        return Answer(lines=_fish())
    first = ["autoload -U +X bashcompinit && bashcompinit"] if arguments.shell == "zsh" else []
    words: dict[str, list[str]] = {verb: ["--help", "--debug"] for verb in VERBS}
    for verb, names, _ in _arguments():
        words[verb] += [name for name in names if name.startswith("--")]
    cases = [*_choices(), *((f"{verb}:*:-*", names) for verb, names in words.items())]
    lines = "\n".join(f'            {case}) words="{" ".join(names)}" ;;' for case, names in cases)
    return Answer(lines=[*first, *_BASH.format(verbs=" ".join(VERBS), cases=lines).split("\n")])


def _choices() -> Iterator[tuple[str, list[str]]]:
    """Yield for each argument with choices the words before it, and the choices."""
    for verb, names, options in _arguments():
        if "choices" in options:
            for before in names if names[0].startswith("-") else [verb]:
                yield f"{verb}:{before}:*", options["choices"]


def _arguments() -> Iterator[tuple[str, tuple[str, ...], dict[str, Any]]]:
    """Yield every argument: its subcommand, its names and its argparse options."""
    for verb in VERBS:
        for names, options in verb_module(verb).ARGUMENTS:
            yield verb, names, options


def _fish() -> Iterator[str]:
    for verb, text in VERBS.items():
        yield f"complete -c mindsummary -f -n __fish_use_subcommand -a {verb} -d {_quoted(text)}"
    for verb, names, options in _arguments():
        completed = "".join(map(_fish_flag, names))
        if "choices" in options:
            completed += f" -xa {_quoted(' '.join(options['choices']))}"
        elif completed and options.get("action") != "store_true":
            completed += " -r"
        if completed:
            line = f"complete -c mindsummary -n '__fish_seen_subcommand_from {verb}'"
            yield f"{line}{completed} -d {_quoted(options['help'])}"


def _fish_flag(name: str) -> str:
    """Format an option's name for fish; empty for a positional argument."""
    if not name.startswith("-"):
        return ""
    kind = "l" if name.startswith("--") else "s"
    return f" -{kind} {name.lstrip('-')}"


def _quoted(text: str) -> str:
    for old, new in (
        ("\\", "\\\\"),
        ("'", "\\'"),
        ("%(default)s", "its default"),
        ("%(default)g", "its default"),
    ):
        text = text.replace(old, new)
    return f"'{text}'"
