"""``mindsummary list DIR``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import Any

from mindsummary_lightning.cli.output import columns, heading, progress_bar, readable_size, readable_time, say_json

__all__ = ["HELP", "NAME", "add_arguments", "run"]

NAME = "list"
HELP = "List the runs in a directory and below it."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("directory", metavar="DIR", help="a run, or a directory that contains runs at any depth")
    parser.add_argument("--json", action="store_true", help="print the runs as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print one line per run; 1 if a run cannot be read."""
    from mindsummary_lightning.cli.runs import runs_below

    runs = []
    paths = runs_below(arguments.directory)
    with progress_bar("reading", len(paths), "run") as advance:
        for path in paths:
            runs.append(_described(path, os.path.relpath(path, arguments.directory)))
            advance(1)
    if arguments.json:
        say_json({"runs": runs})
    else:
        _print_table(runs)
    return 1 if any(run["tags"] is None for run in runs) else 0


def _described(path: str, name: str) -> dict[str, Any]:
    """The run's line; ``tags`` counts by kind and is ``None`` if a file is damaged."""
    from mindsummary_lightning.cli.runs import files_size
    from mindsummary_lightning.errors import DamagedFileError
    from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files
    from mindsummary_lightning.reading.samples import gather_tags

    summaries, lineages = summary_files(path), lineage_file_paths(path)
    try:
        tags = {kind: len(names) for kind, names in gather_tags(summaries).items() if names}
    except DamagedFileError:
        tags = None
    written = max(map(os.path.getmtime, summaries + lineages))
    return {
        "run": name,
        "tags": tags,
        "has_lineage": bool(lineages),
        "bytes": files_size(path),
        "last_written": written,
    }


def _print_table(runs: Sequence[Mapping[str, Any]]) -> None:
    rows = [["run", "tags", "lineage", "size", "last written"]]
    for run in runs:
        counted = "damaged: see `mindsummary verify`"
        if run["tags"] is not None:
            counted = ", ".join(f"{number} {kind}" for kind, number in run["tags"].items()) or "-"
        lineage = "yes" if run["has_lineage"] else "-"
        rows.append([run["run"], counted, lineage, readable_size(run["bytes"]), readable_time(run["last_written"])])
    for index, line in enumerate(columns(rows, right=[3])):
        print(line if index else heading(line))
