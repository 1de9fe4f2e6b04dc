"""``mindsummary import TB_DIR --out DIR``."""

from __future__ import annotations

import argparse
import os
import sys

from mindsummary_lightning.cli.output import progress_bar, say, say_json, tally
from mindsummary_lightning.export.tensorboard import event_files, import_tensorboard


def run(arguments: argparse.Namespace) -> int:
    """Import and list the runs; 1 if a value or record had to be skipped."""
    size = sum(os.path.getsize(path) for paths in event_files(arguments.tb_dir).values() for path in paths)
    with progress_bar("importing", size) as advance:
        runs = import_tensorboard(arguments.tb_dir, arguments.out, advance, force=arguments.force)
    code = int(any(imported.problems for imported in runs))
    for imported in runs:
        for what, number in imported.problems.items():
            say(f"mindsummary: skipped in {imported.source}: {number} {what}", sys.stderr)
    if arguments.json:
        counts = ("written", "skipped", "changed", "dropped", "problems")
        facts = [{"source": r.source, "run": r.run_dir, **{name: getattr(r, name) for name in counts}} for r in runs]
        say_json({"runs": facts})
        return code
    for imported in runs:
        say(f"{imported.source} -> {imported.run_dir}: {tally(dict(sorted(imported.written.items()))) or 'nothing'}")
        for what, numbers in (
            ("not imported", imported.skipped),
            ("dropped for later values of the same steps, or files that go back", imported.dropped),
        ):
            if numbers:
                say(f"  {what}: {tally(dict(sorted(numbers.items())))}")
        for what, number in imported.changed.items():
            say(f"  changed: {number} {what}")
    return code
