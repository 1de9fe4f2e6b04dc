"""``mindsummary export RUN --to FORMAT --out DIR``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

__all__ = ["HELP", "NAME", "add_arguments", "run"]

NAME = "export"
HELP = "Write a run's values to CSV, Parquet, NumPy or TensorBoard files."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("run_dir", metavar="RUN", help="a run, or a directory that contains one")
    parser.add_argument(
        "--to",
        required=True,
        choices=["csv", "parquet", "npy", "tensorboard"],
        help="csv, parquet: scalars and histograms; npy: scalars and tensors; tensorboard: those and images",
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="directory to write into; created if needed")


def run(arguments: argparse.Namespace) -> int:
    """Export and list the files."""
    from mindsummary_lightning.cli.output import progress_bar, say
    from mindsummary_lightning.cli.runs import one_run
    from mindsummary_lightning.export.tables import export_csv, export_npy, export_parquet
    from mindsummary_lightning.export.tensorboard import export_tensorboard

    path = one_run(arguments.run_dir)
    with progress_bar("exporting", 0, "value") as advance:
        if arguments.to == "tensorboard":
            exported = export_tensorboard(path, arguments.out, advance)
            say(f"{exported.path}: {_counted(exported.written)}")
            if exported.skipped:
                say(f"skipped because TensorBoard cannot show it: {_counted(exported.skipped)}")
            return 0
        write = {"csv": export_csv, "parquet": export_parquet, "npy": export_npy}[arguments.to]
        written = write(path, arguments.out, advance)
    for file in written:
        say(file)
    if not written:
        say(f"{path} contains nothing that {arguments.to} files can hold")
    return 0


def _counted(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in numbers.items()) or "nothing"
