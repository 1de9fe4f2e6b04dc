"""``mindsummary export RUN --to FORMAT --out DIR``; of several runs, ``--to parquet`` makes one data set."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

__all__ = ["HELP", "NAME", "add_arguments", "run"]

NAME = "export"
HELP = "Write a run's values to CSV, Parquet, NumPy or TensorBoard files, or many runs into one Parquet data set."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("run_dir", metavar="RUN", help="a run; for parquet also a directory of runs")
    parser.add_argument(
        "--to",
        required=True,
        choices=["csv", "parquet", "npy", "tensorboard"],
        help="csv, parquet: scalars and histograms; npy: scalars and tensors; "
        "tensorboard: those, images, graph and settings",
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="directory to write into; created if needed")
    parser.add_argument("--json", action="store_true", help="print the files as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Export and list the files."""
    from mindsummary_lightning.cli.output import progress_bar, say, say_json
    from mindsummary_lightning.cli.runs import one_run, runs_below

    runs = runs_below(arguments.run_dir)
    notes: list[str] = []
    with progress_bar("exporting", 0, "value") as advance:
        if arguments.to == "parquet" and runs != [arguments.run_dir] and len(runs) > 1:
            files = _data_set(runs, arguments, advance)
        elif arguments.to == "tensorboard":
            files, notes = _tensorboard(one_run(arguments.run_dir), arguments, advance)
        else:
            files = _tables(one_run(arguments.run_dir), arguments, advance)
    if arguments.json:
        say_json({"files": files, "notes": notes})
        return 0
    for line in [*files, *notes]:
        say(line)
    if not files:
        say(f"{arguments.run_dir} contains nothing that {arguments.to} files can hold")
    return 0


def _tables(run: str, arguments: argparse.Namespace, advance: Callable[[int], object]) -> list[str]:
    from mindsummary_lightning.export.tables import export_csv, export_npy, export_parquet

    write = {"csv": export_csv, "parquet": export_parquet, "npy": export_npy}[arguments.to]
    return write(run, arguments.out, advance)


def _data_set(runs: list[str], arguments: argparse.Namespace, advance: Callable[[int], object]) -> list[str]:
    from mindsummary_lightning.export.parquet_dataset import export_parquet_dataset

    return export_parquet_dataset(runs, arguments.run_dir, arguments.out, advance)


def _tensorboard(
    run: str, arguments: argparse.Namespace, advance: Callable[[int], object]
) -> tuple[list[str], list[str]]:
    from mindsummary_lightning.export.tensorboard import export_tensorboard

    exported = export_tensorboard(run, arguments.out, advance)
    notes = [f"written: {_counted(exported.written)}"]
    if exported.skipped:
        notes.append(f"skipped because TensorBoard has no page for it: {_counted(exported.skipped)}")
    return [exported.path], notes


def _counted(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in numbers.items()) or "nothing"
