"""``mindsummary import TB_DIR --out DIR``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mindsummary_lightning.cli.arguments import FORCE, OUT, argument, json_of
from mindsummary_lightning.cli.output import Answer, progress_bar, tally

if TYPE_CHECKING:
    from mindsummary_lightning.export.tensorboard import ImportedRun

ARGUMENTS = (
    argument(
        "tb_dir", metavar="TB_DIR", help="a directory with TensorBoard event files at any depth"
    ),
    OUT,
    FORCE,
    json_of("the imported runs"),
)
_COUNTS = ("written", "skipped", "changed", "dropped", "problems")


def run(arguments: argparse.Namespace) -> Answer:
    """The imported runs; 1 if a value or record had to be skipped."""
    from mindsummary_lightning.export.tensorboard import event_files, import_tensorboard

    size = sum(
        os.path.getsize(path) for paths in event_files(arguments.tb_dir).values() for path in paths
    )
    with progress_bar("importing", size) as advance:
        runs = import_tensorboard(arguments.tb_dir, arguments.out, advance, force=arguments.force)
    facts = [
        {"source": r.source, "run": r.run_dir, **{name: getattr(r, name) for name in _COUNTS}}
        for r in runs
    ]
    problems = [
        f"skipped in {run.source}: {number} {what}"
        for run in runs
        for what, number in run.problems.items()
    ]
    return Answer({"runs": facts}, _lines(runs), int(bool(problems)), problems)


def _lines(runs: Sequence[ImportedRun]) -> Iterator[str]:
    dropped = "dropped for later values of the same steps, or files that go back"
    for run in runs:
        yield f"{run.source} -> {run.run_dir}: {tally(dict(sorted(run.written.items()))) or 'nothing'}"
        for what, numbers in (("not imported", run.skipped), (dropped, run.dropped)):
            if numbers:
                yield f"  {what}: {tally(dict(sorted(numbers.items())))}"
        yield from (f"  changed: {number} {what}" for what, number in run.changed.items())
