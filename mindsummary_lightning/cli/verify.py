"""``mindsummary verify DIR``."""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import asdict

from mindsummary_lightning.cli.output import counted, progress_bar, say, say_json
from mindsummary_lightning.cli.runs import files_size, runs_below
from mindsummary_lightning.maintenance.verify import verify_run


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; 1 if one of them is damage."""
    runs = runs_below(arguments.directory)
    with progress_bar("checking", sum(map(files_size, runs))) as advance:
        findings = [finding for path in runs for finding in verify_run(path, advance)]
    damages = sum(finding.is_damage for finding in findings)
    if arguments.json:
        say_json({"runs": runs, "findings": [asdict(finding) for finding in findings]})
        return 1 if damages else 0
    with contextlib.suppress(BrokenPipeError):  # `verify ... | head`: the exit code is right all the same
        for finding in findings:  # after the bar has gone: they would share a line
            where = finding.path if finding.offset is None else f"{finding.path}, byte {finding.offset}"
            say(f"{'damage' if finding.is_damage else 'warning'}: {where}: {finding.message}")
        warnings = counted(len(findings) - damages, "warning")
        say(f"{counted(len(runs), 'run')} checked: {counted(damages, 'damage')}, {warnings}")
    return 1 if damages else 0
