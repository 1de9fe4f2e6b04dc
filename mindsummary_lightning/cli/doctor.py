"""``mindsummary doctor``."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from mindsummary_lightning.cli.output import columns, heading, say_json
from mindsummary_lightning.viewer.doctor import examine, examine_viewer, installed_versions


def run(arguments: argparse.Namespace) -> int:
    """Print what was found, one line per need or page."""
    if arguments.python is None:
        return _check_viewer(arguments.json)
    return _check_installation(arguments.python, arguments.json)


def _check_viewer(as_json: bool) -> int:
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
    versions = installed_versions(python)
    problems = examine(versions)
    broken = sum(map(bool, problems.values()))
    if as_json:
        pages = [{"page": page, "problems": found} for page, found in problems.items()]
        say_json({"versions": versions, "pages": pages})
        return 1 if broken else 0
    print(heading(python))
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    print()
    for line in columns([[page, "; ".join(found) or "works"] for page, found in problems.items()]):
        print(line)
    print()
    print(f"{broken} of {len(problems)} pages are broken" if broken else "every page works")
    if broken:
        print("`mindsummary view` needs no MindInsight: it serves the pages itself")
    return 1 if broken else 0
