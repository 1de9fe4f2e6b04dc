"""``mindsummary export RUN --to FORMAT --out DIR``; ``--to parquet`` takes a directory of runs too."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from mindsummary_lightning.cli.output import progress_bar, say, say_json, tally
from mindsummary_lightning.cli.runs import only_run, runs_below
from mindsummary_lightning.export.output_directory import ExportedFiles
from mindsummary_lightning.export.parquet_dataset import export_parquet_dataset
from mindsummary_lightning.export.tables import export_csv, export_npy, export_parquet
from mindsummary_lightning.export.tensorboard import export_tensorboard

_FORMATS = {"csv": export_csv, "parquet": export_parquet, "npy": export_npy, "tensorboard": export_tensorboard}

_LISTED = 20  # files; --json names all


def run(arguments: argparse.Namespace) -> int:
    """Export and list the files."""
    runs = runs_below(arguments.run_dir)
    with progress_bar("exporting", 0, " values") as advance:
        if arguments.to == "parquet" and len(runs) > 1:
            directory = arguments.run_dir
            exported = export_parquet_dataset(runs, directory, arguments.out, advance, force=arguments.force)
        else:
            run_dir = only_run(runs, arguments.run_dir)
            exported = _FORMATS[arguments.to](run_dir, arguments.out, advance, force=arguments.force)
    notes = list(_notes(exported, arguments.to))
    if arguments.json:
        say_json({"files": list(exported), "notes": notes})
        return int(bool(exported.damaged))
    files = list(exported)
    if len(files) > _LISTED:
        files = [*files[:_LISTED], f"and {len(files) - _LISTED} more files in {arguments.out}"]
    for line in [*files, *notes]:
        say(line)
    if not exported:
        say(f"{arguments.run_dir} contains nothing that {arguments.to} files can hold")
    return int(bool(exported.damaged))


def _notes(exported: ExportedFiles, form: str) -> Iterator[str]:
    if exported.written:
        yield f"written: {tally(exported.written)}"
    if exported.skipped:
        yield f"skipped because {form} files do not hold them: {tally(exported.skipped)}"
    for what, number in exported.changed.items():
        yield f"changed: {number} {what}"
    for name, problem in exported.damaged.items():
        yield f"skipped because it cannot be read: {name}: {problem}"
