"""``mindsummary doctor``."""

from __future__ import annotations

import argparse

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


def run(arguments: argparse.Namespace) -> int:
    """Print what was found, one line per need or page."""
    return _check_viewer() if arguments.python is None else _check_installation(arguments.python)


def _check_viewer() -> int:
    from mindsummary_lightning.cli.output import columns
    from mindsummary_lightning.mindinsight.doctor import examine_viewer

    needs = examine_viewer()
    for line in columns([[need.name, need.state] for need in needs]):
        print(line)
    print()
    missing = [need.name for need in needs if not need.is_met]
    print(f"`mindsummary view` cannot work: {', '.join(missing)}" if missing else "`mindsummary view` has all it needs")
    return 1 if missing else 0


def _check_installation(python: str) -> int:
    from mindsummary_lightning.cli.output import columns, heading
    from mindsummary_lightning.mindinsight.doctor import examine, installed_versions

    versions = installed_versions(python)
    print(heading(python))
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    print()
    states = examine(versions)
    for line in columns([[state.page, "; ".join(state.problems) or "works"] for state in states]):
        print(line)
    broken = sum(bool(state.problems) for state in states)
    print()
    print(f"{broken} of {len(states)} pages are broken" if broken else "every page works")
    if broken:
        print("`mindsummary view` needs no MindInsight: it serves the pages itself")
    return 1 if broken else 0
