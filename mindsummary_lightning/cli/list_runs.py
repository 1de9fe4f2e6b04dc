"""``mindsummary list DIR``."""

from __future__ import annotations

import argparse
import os

from mindsummary_lightning.cli.output import columns, heading, progress_bar, readable_size, readable_time

__all__ = ["HELP", "NAME", "add_arguments", "run"]

NAME = "list"
HELP = "List the runs in a directory and below it."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("directory", metavar="DIR", help="a run, or a directory that holds runs at any depth")


def run(arguments: argparse.Namespace) -> int:
    """Print one line per run; 1 if a run cannot be read."""
    from mindsummary_lightning.cli.runs import files_size, runs_below
    from mindsummary_lightning.errors import DamagedFileError
    from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files
    from mindsummary_lightning.reading.samples import gather_tags

    runs = runs_below(arguments.directory)
    rows = [["run", "tags", "lineage", "size", "last written"]]
    code = 0
    with progress_bar("reading", len(runs), "run") as advance:
        for path in runs:
            try:
                found = gather_tags(summary_files(path))
                tags = ", ".join(f"{len(names)} {kind}" for kind, names in found.items() if names)
            except DamagedFileError:
                tags, code = "damaged: see `mindsummary verify`", 1
            files = summary_files(path) + lineage_file_paths(path)
            written = readable_time(max(map(os.path.getmtime, files)))
            lineage = "yes" if lineage_file_paths(path) else "-"
            name = os.path.relpath(path, arguments.directory)
            rows.append([name, tags or "-", lineage, readable_size(files_size(path)), written])
            advance(1)
    for index, line in enumerate(columns(rows, right=[3])):
        print(line if index else heading(line))
    return code
