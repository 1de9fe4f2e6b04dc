"""``mindsummary export RUN --to FORMAT --out DIR``; ``--to parquet`` takes a directory of runs too."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from mindsummary_lightning.cli.output import progress_bar, say, say_json, tally
from mindsummary_lightning.cli.runs import only_run, runs_below
from mindsummary_lightning.export.output_directory import ExportedFiles
from mindsummary_lightning.export.parquet_dataset import export_parquet_dataset
from mindsummary_lightning.export.tables import export_csv, export_npy, export_parquet
from mindsummary_lightning.export.tensorboard import ExportedRun, export_tensorboard

_TABLES = {"csv": export_csv, "parquet": export_parquet, "npy": export_npy}


def run(arguments: argparse.Namespace) -> int:
    """Export and list the files."""
    runs = runs_below(arguments.run_dir)
    with progress_bar("exporting", 0, "value") as advance:
        exported: ExportedFiles | ExportedRun
        if arguments.to == "parquet" and len(runs) > 1:
            exported = export_parquet_dataset(runs, arguments.run_dir, arguments.out, advance)
        elif arguments.to == "tensorboard":
            exported = export_tensorboard(only_run(runs, arguments.run_dir), arguments.out, advance)
        else:
            exported = _TABLES[arguments.to](only_run(runs, arguments.run_dir), arguments.out, advance)
    files = [exported.path] if isinstance(exported, ExportedRun) else list(exported)
    notes = list(_notes(exported, arguments.to))
    is_damaged = isinstance(exported, ExportedFiles) and bool(exported.damaged)
    if arguments.json:
        say_json({"files": files, "notes": notes})
        return int(is_damaged)
    for line in [*files, *notes]:
        say(line)
    if not files:
        say(f"{arguments.run_dir} contains nothing that {arguments.to} files can hold")
    return int(is_damaged)


def _notes(exported: ExportedFiles | ExportedRun, form: str) -> Iterator[str]:
    if isinstance(exported, ExportedRun):
        yield f"written: {tally(exported.written) or 'nothing'}"
        if exported.skipped:
            yield f"skipped because TensorBoard has no page for it: {tally(exported.skipped)}"
        for what, number in exported.changed.items():
            yield f"changed: {number} {what}"
        return
    if exported.skipped:
        yield f"tags skipped because {form} files do not hold them: {tally(exported.skipped)}"
    for column, label in exported.renamed.items():
        yield f"changed: column {column!r} of lineage is {label!r}, because another differs only in case"
    for name, problem in exported.damaged.items():
        yield f"skipped because it cannot be read: {name}: {problem}"
