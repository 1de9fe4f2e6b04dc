"""``mindsummary doctor``."""

from __future__ import annotations

import argparse
from dataclasses import asdict

__all__ = ["HELP", "NAME", "add_arguments", "run"]

NAME = "doctor"
HELP = "Check what `mindsummary view` needs, or which pages of an installed MindInsight are broken; exit 1 if any is."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "python",
        metavar="PYTHON",
        nargs="?",
        help="python executable of an environment with a MindInsight of its own (see view --original)",
    )
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print what was found, one line per need or page."""
    python, as_json = arguments.python, arguments.json
    return _check_viewer(as_json) if python is None else _check_installation(python, as_json)


def _check_viewer(as_json: bool) -> int:
    from mindsummary_lightning.cli.output import columns, say_json
    from mindsummary_lightning.mindinsight.doctor import examine_viewer

    needs = examine_viewer()
    missing = [need.name for need in needs if not need.is_met]
    if as_json:
        say_json({"needs": [asdict(need) for need in needs]})
        return 1 if missing else 0
    for line in columns([[need.name, need.state] for need in needs]):
        print(line)
    print()
    print(f"`mindsummary view` cannot work: {', '.join(missing)}" if missing else "`mindsummary view` has all it needs")
    return 1 if missing else 0


def _check_installation(python: str, as_json: bool) -> int:
    from mindsummary_lightning.cli.output import columns, heading, say_json
    from mindsummary_lightning.mindinsight.doctor import examine, installed_versions

    versions = installed_versions(python)
    states = examine(versions)
    broken = sum(bool(state.problems) for state in states)
    if as_json:
        say_json({"versions": versions, "pages": [asdict(state) for state in states]})
        return 1 if broken else 0
    print(heading(python))
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    print()
    for line in columns([[state.page, "; ".join(state.problems) or "works"] for state in states]):
        print(line)
    print()
    print(f"{broken} of {len(states)} pages are broken" if broken else "every page works")
    if broken:
        print("`mindsummary view` needs no MindInsight: it serves the pages itself")
    return 1 if broken else 0
