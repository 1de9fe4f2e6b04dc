"""``mindsummary completion SHELL``: a script made from the table of the command line; zsh reads that of bash."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from mindsummary_lightning.cli.arguments import VERBS

_BASH = """_mindsummary() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{verbs} --help --version --debug"
    else
        case "${{COMP_WORDS[1]}}:${{COMP_WORDS[COMP_CWORD-1]}}:$cur" in
{choices}
{options}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o bashdefault -o default -F _mindsummary mindsummary"""


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    if arguments.shell == "fish":
        print("\n".join(_fish()))
        return 0
    if arguments.shell == "zsh":
        print("autoload -U +X bashcompinit && bashcompinit")
    choices = (
        f'            {verb}:{before}:*) words="{" ".join(options["choices"])}" ;;'
        for verb, names, options in _arguments()
        if "choices" in options
        for before in (names if names[0].startswith("-") else [verb])
    )
    words: dict[str, list[str]] = {verb: ["--help", "--debug"] for verb in VERBS}
    for verb, names, _ in _arguments():
        words[verb] += [name for name in names if name.startswith("--")]
    options = (f'            {verb}:*:-*) words="{" ".join(names)}" ;;' for verb, names in words.items())
    print(_BASH.format(verbs=" ".join(VERBS), choices="\n".join(choices), options="\n".join(options)))
    return 0


def _arguments() -> Iterator[tuple[str, tuple[str, ...], dict[str, Any]]]:
    for name, (_, arguments) in VERBS.items():
        for names, options in arguments:
            yield name, names, options


def _fish() -> Iterator[str]:
    for name, (text, _) in VERBS.items():
        yield f"complete -c mindsummary -f -n __fish_use_subcommand -a {name} -d {_quoted(text)}"
    for name, names, options in _arguments():
        line = f"complete -c mindsummary -n '__fish_seen_subcommand_from {name}'"
        flags = "".join(
            f" -l {one[2:]}" if one.startswith("--") else f" -s {one[1:]}" for one in names if one[0] == "-"
        )
        values = f" -xa {_quoted(' '.join(options['choices']))}" if "choices" in options else ""
        takes_value = " -r" if flags and not values and options.get("action") != "store_true" else ""
        if flags or values:
            yield f"{line}{flags}{values}{takes_value} -d {_quoted(options['help'])}"


def _quoted(text: str) -> str:
    for old, new in (("\\", "\\\\"), ("'", "\\'"), ("%(default)s", "its default"), ("%(default)g", "its default")):
        text = text.replace(old, new)
    return f"'{text}'"
