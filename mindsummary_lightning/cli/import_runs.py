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
    parser.add_argument("--json", action="store_true", help="print the imported runs as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Import and list the runs."""
    import os

    from mindsummary_lightning.cli.output import progress_bar, say, say_json
    from mindsummary_lightning.export.tensorboard import event_files, import_tensorboard

    size = sum(os.path.getsize(path) for paths in event_files(arguments.tb_dir).values() for path in paths)
    with progress_bar("importing", size) as advance:
        runs = import_tensorboard(arguments.tb_dir, arguments.out, advance)
    if arguments.json:
        facts = [{"source": r.source, "run": r.run_dir, "written": r.written, "skipped": r.skipped} for r in runs]
        say_json({"runs": facts})
        return 0
    for imported in runs:
        written = ", ".join(f"{number} {kind}" for kind, number in sorted(imported.written.items())) or "nothing"
        say(f"{imported.source} -> {imported.run_dir}: {written}")
        if imported.same_name_as:
            say(f"  named so because {imported.same_name_as} has the name that it would have")
        skipped = ", ".join(f"{number} {kind}" for kind, number in sorted(imported.skipped.items()) if number)
        if skipped:
            say(f"  not imported: {skipped}")
    return 0
