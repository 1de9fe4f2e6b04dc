"""``mindsummary doctor``."""

from __future__ import annotations

import argparse

__all__ = ["HELP", "NAME", "add_arguments", "run"]

NAME = "doctor"
HELP = "Say which pages of an installed MindInsight are broken, and by which package; exit 1 if any is."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "python",
        metavar="PYTHON",
        nargs="?",
        help="python executable of the environment; without it, the one running this",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the versions and the state of every page."""
    import sys

    from mindsummary_lightning.cli.output import columns, heading
    from mindsummary_lightning.mindinsight.doctor import examine, installed_versions

    python = arguments.python or sys.executable
    versions = installed_versions(python)
    print(heading(python))
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    print()
    states = examine(versions)
    rows = [[state.page, "; ".join(state.problems) or "works"] for state in states]
    for line in columns(rows):
        print(line)
    broken = sum(bool(state.problems) for state in states)
    print()
    print(f"{broken} of {len(states)} pages are broken" if broken else "every page works")
    if broken:
        print("`mindsummary view` runs MindInsight in an environment of its own, where every page works")
    return 1 if broken else 0
