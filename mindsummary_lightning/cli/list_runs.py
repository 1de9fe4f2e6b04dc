"""``mindsummary list DIR``."""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mindsummary_lightning.cli import output
from mindsummary_lightning.cli.arguments import (
    DIRECTORIES,
    FOLLOW,
    argument,
    flag,
    json_of,
    positive,
)
from mindsummary_lightning.cli.output import Answer
from mindsummary_lightning.cli.runs import files_size, runs_in
from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.reading.followed_run import KINDS
from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files
from mindsummary_lightning.reading.run_status import run_status
from mindsummary_lightning.reading.tag_survey import TagSurvey

ARGUMENTS = (
    DIRECTORIES,
    flag(
        "--exact",
        "read everything; otherwise, of much data, only both ends of each file, and 100+ may be "
        "more",
    ),
    argument(
        "--best",
        metavar="SCALAR",
        help="settings and results instead, the best run first: by the best value of val/loss, or "
        "the last one of last:val/loss; a loss or an error is better the lower it is",
    ),
    argument(
        "--where",
        action="append",
        default=[],
        metavar="CONDITION",
        help="with --best: keep runs with, for example, 'status=finished' or 'lr<0.1'; may be "
        "given several times",
    ),
    argument("--limit", type=positive, metavar="N", help="with --best: show the first N runs"),
    FOLLOW,
    json_of("the runs"),
)
READ_WHOLE = 64 * 10**6  # bytes of all runs; below it the exact numbers take no time worth saving
_LEAST_TAGS = 12  # cells of a terminal


def run(arguments: argparse.Namespace) -> Answer:
    """Print one line per run; exit 1 if a run cannot be read."""
    if arguments.best is not None:
        return _best(arguments)
    if arguments.where or arguments.limit:
        raise output.UsageError(
            "--where and --limit need --best. Without --best, use mindsummary lineage"
        )
    survey = TagSurvey()
    if arguments.follow:
        return output.redraw(lambda: _followed(arguments, survey), arguments.json)
    problems: list[OSError] = []
    runs = _runs(arguments, survey, problems)
    is_bad = any(run["tags"] is None for run in runs)
    return Answer({"runs": runs}, _table(runs), int(is_bad), map(output.error_line, problems))


def _best(arguments: argparse.Namespace) -> Answer:
    # here: a plain list needs no Protobuf
    from mindsummary_lightning.cli.best_runs import best_runs

    return best_runs(arguments)


def _followed(arguments: argparse.Namespace, survey: TagSurvey) -> Iterable[str]:
    try:
        return _table(_runs(arguments, survey, []))
    except FileNotFoundError as error:  # no run yet, or one that was removed while it was read
        return [output.error_line(error)]


def _runs(
    arguments: argparse.Namespace, survey: TagSurvey, problems: list[OSError]
) -> list[dict[str, Any]]:
    paths = runs_in(arguments.directories)
    sizes = [files_size(path) for path in paths]
    is_exact = arguments.exact or sum(sizes) <= READ_WHOLE
    runs = []
    bar = output.progress_bar("reading", len(paths), " runs")
    with contextlib.nullcontext(lambda count: None) if arguments.follow else bar as advance:
        for path, size in zip(paths, sizes, strict=True):
            name = path
            if len(arguments.directories) == 1:
                name = os.path.relpath(path, arguments.directories[0])
            runs.append(_described(survey, path, name, size, is_exact, problems))
            advance(1)
    return runs


def _described(
    survey: TagSurvey, path: str, name: str, size: int, is_exact: bool, problems: list[OSError]
) -> dict[str, Any]:
    """Collect the facts that the line of a run shows.

    ``tags`` counts by kind and is ``None`` if a file is damaged or cannot be read.
    """
    run: dict[str, Any] = {
        "run": name,
        "tags": None,
        "tags_are_exact": True,
        "has_lineage": False,
        "bytes": size,
    }
    run["last_written"], run["status"] = 0.0, None
    try:
        summaries, lineages = summary_files(path), lineage_file_paths(path)
        run["has_lineage"] = bool(lineages)
        run["last_written"] = max(map(os.path.getmtime, summaries + lineages), default=0.0)
        tags, run["tags_are_exact"] = survey.tags(summaries, is_exact)
        if lineages:  # with Protobuf, which most lists do not need
            from mindsummary_lightning.reading.summary_reader import SummaryReader

            custom = SummaryReader(path).lineage().custom
            run["status"] = run_status(path, custom.values if custom else {}, time.time())
        kinds = [kind for kind, _ in tags]
        run["tags"] = {kind: kinds.count(kind) for kind in KINDS if kind in kinds}
    except DamagedFileError:
        pass  # the table says who knows more
    except OSError as error:
        problems.append(error)
    return run


def _table(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    rows = [["run", "last written", "status", "size", "lineage", "tags"]]
    for run in runs:
        written = output.readable_time(run["last_written"])
        size = output.readable_size(run["bytes"])
        has_lineage = "yes" if run["has_lineage"] else "-"
        status = run["status"] or "-"
        rows.append([run["run"], written, status, size, has_lineage, _counted_tags(run)])
    return output.table_lines(rows, right=[3], least=_LEAST_TAGS)


def _counted_tags(run: Mapping[str, Any]) -> str:
    if run["tags"] is None:
        return "damaged or unreadable: see `mindsummary verify`"
    mark = "" if run["tags_are_exact"] else "+"
    counts = [f"{number}{mark} {kind}" for kind, number in run["tags"].items()]
    return ", ".join(counts) or "-"
