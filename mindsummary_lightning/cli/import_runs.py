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
    """Import, and list the imported runs; exit 1 if a value or record was skipped."""
    from mindsummary_lightning.export.tensorboard import event_files, import_tensorboard

    size = 0
    for paths in event_files(arguments.tb_dir).values():
        size += sum(map(os.path.getsize, paths))
    with progress_bar("importing", size) as advance:
        runs = import_tensorboard(arguments.tb_dir, arguments.out, advance, force=arguments.force)
    facts = []
    problems = []
    for run in runs:
        counts = {name: getattr(run, name) for name in _COUNTS}
        facts.append({"source": run.source, "run": run.run_dir, **counts})
        for problem, number in run.problems.items():
            problems.append(f"skipped in {run.source}: {number} {problem}")
    return Answer({"runs": facts}, _lines(runs), int(bool(problems)), problems)


def _lines(runs: Sequence[ImportedRun]) -> Iterator[str]:
    dropped = "dropped for later values of the same steps, or files that go back"
    for run in runs:
        written = tally(dict(sorted(run.written.items()))) or "nothing"
        yield f"{run.source} -> {run.run_dir}: {written}"
        for outcome, numbers in (("not imported", run.skipped), (dropped, run.dropped)):
            if numbers:
                yield f"  {outcome}: {tally(dict(sorted(numbers.items())))}"
        for change, number in run.changed.items():
            yield f"  changed: {number} {change}"
