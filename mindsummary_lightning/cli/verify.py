"""``mindsummary verify DIR``."""

from __future__ import annotations

import argparse

__all__ = ["HELP", "NAME", "add_arguments", "run"]

NAME = "verify"
HELP = "Check every record of every run in a directory; exit 1 if anything is damaged."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("directory", metavar="DIR", help="a run, or a directory that contains runs at any depth")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; 1 if one of them is damage."""
    from mindsummary_lightning.cli.output import progress_bar, say, say_json
    from mindsummary_lightning.cli.runs import files_size, runs_below
    from mindsummary_lightning.maintenance.verify import verify_run

    runs = runs_below(arguments.directory)
    with progress_bar("checking", sum(map(files_size, runs))) as advance:
        findings = [finding for path in runs for finding in verify_run(path, advance)]
    if arguments.json:
        facts = [{"path": f.path, "offset": f.offset, "is_damage": f.is_damage, "message": f.message} for f in findings]
        say_json({"runs": runs, "findings": facts})
        return 1 if any(finding.is_damage for finding in findings) else 0
    for finding in findings:  # after the bar has gone: they would share a line
        where = finding.path if finding.offset is None else f"{finding.path}, byte {finding.offset}"
        say(f"{'damage' if finding.is_damage else 'warning'}: {where}: {finding.message}")
    damages = sum(finding.is_damage for finding in findings)
    warnings = len(findings) - damages
    say(f"{_count(len(runs), 'run')} checked: {_count(damages, 'damage')}, {_count(warnings, 'warning')}")
    return 1 if damages else 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
