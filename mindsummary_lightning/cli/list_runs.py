"""``mindsummary list DIR``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import Any

from mindsummary_lightning.cli.output import (
    progress_bar,
    readable_size,
    readable_time,
    say_json,
    say_table,
    tally,
)
from mindsummary_lightning.cli.runs import files_size, runs_below
from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.reading.file_content import read_files
from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files
from mindsummary_lightning.reading.samples import tags_by_kind


def run(arguments: argparse.Namespace) -> int:
    """Print one line per run; 1 if a run cannot be read."""
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
    summaries, lineages = summary_files(path), lineage_file_paths(path)
    try:
        tags = {kind: len(names) for kind, names in tags_by_kind(read_files(summaries)).items() if names}
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
    rows = [["run", "last written", "size", "lineage", "tags"]]
    for run in runs:
        counted = "damaged: see `mindsummary verify`"
        if run["tags"] is not None:
            counted = tally(run["tags"]) or "-"
        lineage = "yes" if run["has_lineage"] else "-"
        rows.append([run["run"], readable_time(run["last_written"]), readable_size(run["bytes"]), lineage, counted])
    say_table(rows, right=[2])
