"""``mindsummary import TB_DIR --out DIR``."""

from __future__ import annotations

import argparse

__all__ = ["HELP", "NAME", "add_arguments", "run"]

NAME = "import"
HELP = "Turn TensorBoard event files (torch, tensorboardX, Keras) into MindInsight runs."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("tb_dir", metavar="TB_DIR", help="a directory with TensorBoard event files at any depth")
    parser.add_argument("--out", required=True, metavar="DIR", help="directory for the runs; new or empty")


def run(arguments: argparse.Namespace) -> int:
    """Import and say what became of each directory."""
    import os

    from mindsummary_lightning.cli.output import progress_bar
    from mindsummary_lightning.export.tensorboard import event_files, import_tensorboard

    size = sum(os.path.getsize(path) for paths in event_files(arguments.tb_dir).values() for path in paths)
    with progress_bar("importing", size) as advance:
        runs = import_tensorboard(arguments.tb_dir, arguments.out, advance)
    for imported in runs:
        written = ", ".join(f"{number} {kind}" for kind, number in sorted(imported.written.items())) or "nothing"
        print(f"{imported.source} -> {imported.run_dir}: {written}")
        left_out = ", ".join(f"{number} {kind}" for kind, number in sorted(imported.left_out.items()) if number)
        if left_out:
            print(f"  left out, as MindInsight has no page for it: {left_out}")
    return 0
