"""``mindsummary doctor``."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from mindsummary_lightning.cli.arguments import json_of
from mindsummary_lightning.cli.output import Answer, columns

ARGUMENTS = (json_of("what was found"),)


def run(arguments: argparse.Namespace) -> Answer:
    """What was found, one line per need; 1 if anything is missing."""
    from mindsummary_lightning.viewer.doctor import examine_viewer

    needs = examine_viewer()
    missing = [need.name for need in needs if not need.is_met]
    end = f"cannot work: {', '.join(missing)}" if missing else "has all it needs"
    lines = [*columns([[need.name, need.state] for need in needs]), "", f"`mindsummary view` {end}"]
    return Answer({"needs": [asdict(need) for need in needs]}, lines, int(bool(missing)))
