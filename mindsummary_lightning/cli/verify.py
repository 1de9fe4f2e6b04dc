"""``mindsummary verify DIR``."""

from __future__ import annotations

import argparse
import contextlib
import sys
from dataclasses import asdict

from mindsummary_lightning.cli.output import counted, error_line, progress_bar, say, say_json
from mindsummary_lightning.cli.runs import files_size, runs_in
from mindsummary_lightning.maintenance.verify import Finding, verify_run


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; 1 if one of them is damage or a run cannot be read."""
    runs = runs_in(arguments.directories)
    findings: list[Finding] = []
    refusals: list[OSError] = []
    with progress_bar("checking", sum(map(files_size, runs))) as advance:
        for path in runs:
            try:
                for finding in verify_run(path, advance):
                    findings.append(finding)
            except OSError as error:  # the others can be read
                refusals.append(error)
    for refusal in refusals:
        say(f"mindsummary: {error_line(refusal)}", sys.stderr)
    damages = sum(finding.is_damage for finding in findings)
    if arguments.json:
        say_json({"runs": runs, "findings": [asdict(finding) for finding in findings]})
        return 1 if damages or refusals else 0
    with contextlib.suppress(BrokenPipeError):  # `verify ... | head`: the exit code is right all the same
        for finding in findings:  # after the bar has gone: they would share a line
            where = finding.path if finding.offset is None else f"{finding.path}, byte {finding.offset}"
            say(f"{'damage' if finding.is_damage else 'warning'}: {where}: {finding.message}")
        warnings = counted(len(findings) - damages, "warning")
        say(f"{counted(len(runs) - len(refusals), 'run')} checked: {counted(damages, 'damage')}, {warnings}")
    return 1 if damages or refusals else 0
