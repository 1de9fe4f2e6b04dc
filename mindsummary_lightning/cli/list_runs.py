"""``mindsummary list DIR``."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from mindsummary_lightning.cli.output import progress_bar, readable_size, readable_time, say_json, say_table
from mindsummary_lightning.cli.runs import files_size, runs_below
from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.reading.merge_rule import KINDS
from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.reading.tag_survey import TagSurvey

_READ_WHOLE = 64 * 10**6  # bytes of all runs; below it the exact numbers take no time worth saving


def run(arguments: argparse.Namespace) -> int:
    """Print one line per run; 1 if a run cannot be read."""
    paths = runs_below(arguments.directory)
    sizes = [files_size(path) for path in paths]
    is_exact = arguments.exact or sum(sizes) <= _READ_WHOLE
    runs, survey = [], TagSurvey()
    with progress_bar("reading", len(paths), "run") as advance:
        for path, size in zip(paths, sizes, strict=True):
            runs.append(_described(survey, path, os.path.relpath(path, arguments.directory), size, is_exact))
            advance(1)
    if arguments.json:
        say_json({"runs": runs})
    else:
        _print_table(runs)
    return 1 if any(run["tags"] is None for run in runs) else 0


def _described(survey: TagSurvey, path: str, name: str, size: int, is_exact: bool) -> dict[str, Any]:
    """The run's line; ``tags`` counts by kind and is ``None`` if a file is damaged."""
    summaries, lineages = summary_files(path), lineage_file_paths(path)
    numbers: dict[str, int] | None = None
    is_whole = True
    with contextlib.suppress(DamagedFileError):
        tags, is_whole = survey.tags(summaries, is_exact)
        SummaryReader(path).lineage()
        kinds = [kind for kind, _ in tags]
        numbers = {kind: kinds.count(kind) for kind in KINDS if kind in kinds}
    return {
        "run": name,
        "tags": numbers,
        "tags_are_exact": is_whole,
        "has_lineage": bool(lineages),
        "bytes": size,
        "last_written": max(map(os.path.getmtime, summaries + lineages)),
    }


def _print_table(runs: Sequence[Mapping[str, Any]]) -> None:
    rows = [["run", "last written", "size", "lineage", "tags"]]
    for run in runs:
        counted = "damaged: see `mindsummary verify`"
        if run["tags"] is not None:
            mark = "" if run["tags_are_exact"] else "+"
            counted = ", ".join(f"{number}{mark} {kind}" for kind, number in run["tags"].items()) or "-"
        lineage = "yes" if run["has_lineage"] else "-"
        rows.append([run["run"], readable_time(run["last_written"]), readable_size(run["bytes"]), lineage, counted])
    say_table(rows, right=[2])
