"""``mindsummary export RUN --to FORMAT --out DIR``; of several runs, ``--to parquet`` makes one data set."""

from __future__ import annotations

import argparse

from mindsummary_lightning.cli.output import progress_bar, say, say_json, tally
from mindsummary_lightning.cli.runs import only_run, runs_below
from mindsummary_lightning.export.parquet_dataset import export_parquet_dataset
from mindsummary_lightning.export.tables import export_csv, export_npy, export_parquet
from mindsummary_lightning.export.tensorboard import export_tensorboard

_TABLES = {"csv": export_csv, "parquet": export_parquet, "npy": export_npy}


def run(arguments: argparse.Namespace) -> int:
    """Export and list the files."""
    runs = runs_below(arguments.run_dir)
    notes: list[str] = []
    with progress_bar("exporting", 0, "value") as advance:
        if arguments.to == "parquet" and len(runs) > 1:
            files = export_parquet_dataset(runs, arguments.run_dir, arguments.out, advance)
        elif arguments.to == "tensorboard":
            exported = export_tensorboard(only_run(runs, arguments.run_dir), arguments.out, advance)
            files = [exported.path]
            notes.append(f"written: {tally(exported.written) or 'nothing'}")
            if exported.skipped:
                notes.append(f"skipped because TensorBoard has no page for it: {tally(exported.skipped)}")
        else:
            files = _TABLES[arguments.to](only_run(runs, arguments.run_dir), arguments.out, advance)
    if arguments.json:
        say_json({"files": files, "notes": notes})
        return 0
    for line in [*files, *notes]:
        say(line)
    if not files:
        say(f"{arguments.run_dir} contains nothing that {arguments.to} files can hold")
    return 0
