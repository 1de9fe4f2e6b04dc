"""``mindsummary doctor``."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from mindsummary_lightning.cli.output import columns, say_json
from mindsummary_lightning.viewer.doctor import examine_viewer


def run(arguments: argparse.Namespace) -> int:
    """Print what was found, one line per need."""
    needs = examine_viewer()
    missing = [need.name for need in needs if not need.is_met]
    if arguments.json:
        say_json({"needs": [asdict(need) for need in needs]})
        return 1 if missing else 0
    for line in columns([[need.name, need.state] for need in needs]):
        print(line)
    print()
    print(f"`mindsummary view` cannot work: {', '.join(missing)}" if missing else "`mindsummary view` has all it needs")
    return 1 if missing else 0
