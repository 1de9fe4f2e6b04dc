"""``mindsummary verify DIR...``."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict

from mindsummary_lightning.cli.arguments import DIRECTORIES, json_of
from mindsummary_lightning.cli.output import Answer, UsageError, error_line
from mindsummary_lightning.cli.runs import found_in, local_path, runs_in
from mindsummary_lightning.values.text import counted

ARGUMENTS = (DIRECTORIES, json_of("the findings"))


def run(arguments: argparse.Namespace) -> Answer:
    """Check the files, and print the problems that were found.

    The exit code is 1 for damage or a run that cannot be read, and 2 for a missing directory.
    """
    from mindsummary_lightning.maintenance.verify import verify_run

    for path in arguments.directories:
        if not os.path.exists(local_path("DIR", path)):  # 1 would say that it is damaged
            raise UsageError(f"{path or repr('')}: no such file or directory")
    runs = runs_in(arguments.directories)
    findings, errors = found_in("checking", runs, verify_run)
    lines = []
    for finding in findings:
        where = finding.path if finding.offset is None else f"{finding.path}, byte {finding.offset}"
        lines.append(f"{'damage' if finding.is_damage else 'warning'}: {where}: {finding.message}")
    damages = sum(finding.is_damage for finding in findings)
    found = f"{counted(damages, 'damage')}, {counted(len(findings) - damages, 'warning')}"
    lines.append(f"{counted(len(runs) - len(errors), 'run')} checked: {found}")
    answer = {"runs": runs, "findings": [asdict(finding) for finding in findings]}
    return Answer(answer, lines, int(bool(damages or errors)), map(error_line, errors))
