"""``mindsummary export RUN --to FORMAT --out DIR``: export a run or several runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence

from mindsummary_lightning.cli.arguments import FORCE, OUT, argument, json_of
from mindsummary_lightning.cli.output import Answer, progress_bar, tally
from mindsummary_lightning.cli.runs import files_size, runs_in
from mindsummary_lightning.export.each_run import export_each
from mindsummary_lightning.export.output_directory import ExportedFiles
from mindsummary_lightning.export.parquet_dataset import export_parquet_dataset
from mindsummary_lightning.export.tables import export_csv, export_npy, export_parquet
from mindsummary_lightning.export.tensorboard import export_tensorboard

_FORMATS = {
    "csv": export_csv,
    "parquet": export_parquet,
    "npy": export_npy,
    "tensorboard": export_tensorboard,
}
ARGUMENTS = (
    argument(
        "run_dir",
        metavar="RUN",
        help="a run, or a directory of runs: each gets a directory of its own",
    ),
    argument(
        "--to",
        required=True,
        choices=list(_FORMATS),
        help="csv, parquet: scalars and histograms; npy: scalars and tensors; "
        "tensorboard: those, images, graph and settings; parquet makes one data set of many runs",
    ),
    OUT,
    FORCE,
    json_of("the files"),
)
_LISTED = 20  # files; --json names all


def run(arguments: argparse.Namespace) -> Answer:
    """Export, and list the files; exit 1 if a run that cannot be read was skipped."""
    root, form = arguments.run_dir, arguments.to
    runs = runs_in([root])
    if form != "parquet" and runs[0] == root:
        runs = [root]  # what is below a run belongs to it
    with progress_bar("exporting", sum(map(files_size, runs))) as advance:
        exported = _exported(runs, arguments, advance)
    files = list(exported)
    notes = list(_notes(exported, form))
    lines = files[:_LISTED]
    if len(files) > _LISTED:
        lines.append(f"and {len(files) - _LISTED} more files in {arguments.out}")
    lines += notes
    if not files:
        lines.append(f"{root} contains nothing that {form} files can hold")
    return Answer({"files": files, "notes": notes}, lines, int(bool(exported.damaged)))


def _exported(
    runs: Sequence[str], arguments: argparse.Namespace, advance: Callable[[int], object]
) -> ExportedFiles:
    export, root, out = _FORMATS[arguments.to], arguments.run_dir, arguments.out
    if len(runs) == 1:
        return export(runs[0], out, advance, force=arguments.force)
    if arguments.to == "parquet":
        return export_parquet_dataset(runs, root, out, advance, force=arguments.force)
    return export_each(export, runs, root, out, advance, force=arguments.force)


def _notes(exported: ExportedFiles, form: str) -> Iterator[str]:
    if exported.written:
        yield f"written: {tally(exported.written)}"
    if exported.skipped:
        yield f"skipped because {form} files do not hold them: {tally(exported.skipped)}"
    for change, number in exported.changed.items():
        yield f"changed: {number} {change}"
    for name, reason in exported.damaged.items():
        yield f"skipped because it cannot be read: {name}: {reason}"
