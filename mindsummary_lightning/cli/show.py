"""``mindsummary show RUN``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from mindsummary_lightning.cli import output
from mindsummary_lightning.cli.arguments import FOLLOW, argument, flag, json_of
from mindsummary_lightning.cli.output import (
    Answer,
    Heading,
    cells,
    columns,
    cut,
    short_number,
    width,
)
from mindsummary_lightning.cli.runs import files_size, one_run
from mindsummary_lightning.cli.statistics import output_statistics_lines, parameter_lines
from mindsummary_lightning.errors import printable
from mindsummary_lightning.reading.decode import OpenFiles, read_graph
from mindsummary_lightning.reading.followed_file import LocatedSample
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.lineage_text import as_text, lineage_values
from mindsummary_lightning.reading.output_statistics import output_statistics_facts
from mindsummary_lightning.reading.parameter_tables import parameter_facts
from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files
from mindsummary_lightning.reading.run_status import run_status
from mindsummary_lightning.reading.scalar_summaries import is_diverged
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.values import Histogram, Image, LossLandscape, Tensor
from mindsummary_lightning.values.text import counted, shortest_float32

ARGUMENTS = (
    argument(
        "run_dir",
        metavar="RUN",
        nargs="?",
        default=".",
        help="a run, or a directory with one (default: here)",
    ),
    flag("--output-statistics", "the output statistics of the last step that has them, row by row"),
    FOLLOW,
    json_of("the run"),
)
_MIN_TAG, _MAX_TAG, _MAX_CURVE = 12, 44, 40
_COLUMNS = {  # of each kind of samples, behind tag, samples and last step
    "scalars": ("last", "min", "max", "curve"),
    "histograms": ("elements", "min", "max", "buckets"),
    "images": ("size",),
    "tensors": ("shape",),
}
_KINDS = ("histogram", "image", "tensor")
_LINES: dict[str, Callable[..., Iterator[str]]] = {
    "parameters": parameter_lines,
    "output_statistics": output_statistics_lines,
}
# of each tag what is shown, and the numbers of its curve
_Samples = dict[str, tuple[dict[str, Any], Any]]


def run(arguments: argparse.Namespace) -> Answer:
    """The page, or what is on it as JSON."""
    path = one_run(arguments.run_dir)
    run = FollowedRun(path, on_damage="skip" if arguments.follow else "raise")
    if arguments.follow:
        return output.redraw(
            lambda: _lines(run, *_contents(run, arguments.output_statistics)), arguments.json
        )
    samples, rest, tables = contents = _contents(run, arguments.output_statistics)
    facts = {kind: {tag: facts for tag, (facts, _) in of.items()} for kind, of in samples.items()}
    of_tables = {name: facts for name, (_, facts) in tables.items()}
    return Answer({"run": path, **facts, **rest, **of_tables}, _lines(run, *contents))


def _contents(
    run: FollowedRun, has_rows: bool
) -> tuple[dict[str, _Samples], dict[str, Any], dict[str, Any]]:
    """What is shown of each tag, by kind, of all else, and of each table of statistics, beside the table."""
    run.refresh()
    tags = run.tags()
    with OpenFiles() as files:
        samples: dict[str, _Samples] = {
            "scalars": {tag: _curve(run, tag) for tag in tags["scalar"]},
            **{
                f"{kind}s": {tag: _last(run.samples(kind, tag), files) for tag in tags[kind]}
                for kind in _KINDS
            },
        }
        landscapes = [
            (tag, cast("LossLandscape", files.value(sample.location)))
            for tag in tags["loss_landscape"]
            for sample in run.samples("loss_landscape", tag)
        ]
    graph = next((read_graph(located)[0] for located in run.graphs() if not located.is_model), None)
    rest = {
        "landscapes": [
            {
                "tag": tag,
                "grid": [landscape.surface.x.size, landscape.surface.y.size],
                "smallest_loss": float(landscape.surface.z.min())
                if landscape.surface.z.size
                else None,
                "intervals": list(landscape.intervals),
                "unit": landscape.metadata.unit,
            }
            for tag, landscape in landscapes
        ],
        "graph": graph
        and {
            "nodes": len(graph.nodes),
            "parameters": len(graph.parameters),
            "constants": len(graph.constants),
        },
        "lineage": _lineage(run.run_dir, samples["scalars"]),
    }
    tables = {
        "parameters": parameter_facts(run),
        "output_statistics": output_statistics_facts(run, has_rows),
    }
    return samples, rest, {name: each for name, each in tables.items() if each is not None}


def _lineage(run_dir: str, scalars: _Samples) -> dict[str, Any]:
    """The values of lineage, with the status that the run has now, and whether it diverged."""
    lineage = SummaryReader(run_dir).lineage()
    values = lineage_values(lineage)
    status = run_status(run_dir, lineage.custom.values if lineage.custom else {}, time.time())
    if status is not None:
        values["status"] = status
    if is_diverged({tag: float(curve[-1]) for tag, (_, curve) in scalars.items()}):
        values.setdefault("diverged", True)
    return values


def _curve(run: FollowedRun, tag: str) -> tuple[dict[str, Any], Any]:
    """What is shown of a scalar, and its values."""
    parts = [(int(part.steps[-1]), part.values) for part in run.scalar_parts(tag)]
    values = np.concatenate([values for _, values in parts])
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
    numbers = {"last": float(values[-1]), "min": low, "max": high}
    digits = {
        name: None if number is None else shortest_float32(number)
        for name, number in numbers.items()
    }
    return {"samples": values.size, "last_step": parts[-1][0], **digits}, values


def _last(samples: Sequence[LocatedSample], files: OpenFiles) -> tuple[dict[str, Any], Any]:
    """What is shown of a tag of another kind, and the numbers of its curve."""
    facts: dict[str, Any] = {"samples": len(samples), "last_step": samples[-1].step}
    last = cast("Histogram | Image | Tensor", files.value(samples[-1].location))
    if isinstance(last, Histogram):
        return {**facts, "elements": last.count, "min": last.min, "max": last.max}, last.counts
    if isinstance(last, Image):
        return {
            **facts,
            "width": last.width,
            "height": last.height,
            "bytes": len(last.encoded),
        }, None
    return {**facts, "shape": list(last.data.shape), "data_type": last.data_type.name.lower()}, None


def _lines(
    run: FollowedRun,
    samples: Mapping[str, _Samples],
    rest: Mapping[str, Any],
    tables: Mapping[str, Any],
) -> Iterator[str]:
    run_dir = run.run_dir
    summaries, lineages = (
        len(summary_files(run_dir)),
        counted(len(lineage_file_paths(run_dir)), "lineage file"),
    )
    yield Heading(run_dir)
    yield f"{summaries} summary and {lineages}, {output.readable_size(files_size(run_dir))}"
    walls = (part.wall_times for tag in run.tags()["scalar"] for part in run.scalar_parts(tag))
    times = [float(time) for wall_times in walls for time in (wall_times.min(), wall_times.max())]
    if times:
        yield f"recorded {output.readable_time(min(times))} to {output.readable_time(max(times))}"
    for kind, names in _COLUMNS.items():
        # the tag and five numbers
        used = 2 + min(_MAX_TAG, max(map(cells, samples[kind]), default=0)) + 5 * 12
        length = max(8, min(_MAX_CURVE, width() - used))
        rows = [
            [
                _short(tag),
                str(facts["samples"]),
                str(facts["last_step"]),
                *_cells(kind, facts, curve, length),
            ]
            for tag, (facts, curve) in samples[kind].items()
        ]
        head = ["tag", "samples", "last step", *names]
        excess = 2 + max(map(cells, columns([head, *rows]))) - width()
        if rows and excess > 0 and sys.stdout.isatty():
            limit = max(_MIN_TAG, max(cells(row[0]) for row in rows) - excess)
            rows = [[_short(row[0], limit), *row[1:]] for row in rows]
        yield from _section(kind.capitalize(), rows, head, right=range(1, 2 + len(names)))
    rows = []
    for found in rest["landscapes"]:
        grid, number = " x ".join(map(str, found["grid"])), len(found["intervals"])
        path = f"{counted(number, 'point')}, {found['unit']}" if number else "final"
        rows.append([_short(found["tag"]), grid, short_number(found["smallest_loss"]), path])
    yield from _section("Loss landscapes", rows, ["tag", "grid", "smallest loss", "path"])
    if rest["graph"]:
        nodes, parameters, constants = rest["graph"].values()
        line = f"{counted(nodes, 'node')}, {parameters} parameters and inputs, {counted(constants, 'constant')}"
        yield from _section("Graph", [[line]])
    # a value on a line
    rows = [[name, " ".join(as_text(value).split())] for name, value in rest["lineage"].items()]
    yield from _section("Lineage", rows)
    for name, each in tables.items():
        yield from _LINES[name](*each)


def _cells(kind: str, facts: Mapping[str, Any], curve: Any, length: int) -> list[str]:
    if kind == "scalars":
        numbers = (short_number(facts[name]) for name in ("last", "min", "max"))
        return [*numbers, output.sparkline(memoryview(curve), length)]
    if kind == "histograms":
        low, high = short_number(facts["min"]), short_number(facts["max"])
        return [str(facts["elements"]), low, high, output.sparkline(curve.tolist(), length)]
    if kind == "images":
        return [f"{facts['width']} x {facts['height']}, {output.readable_size(facts['bytes'])}"]
    return [f"{' x '.join(map(str, facts['shape'])) or 'one number'}, {facts['data_type']}"]


def _section(
    name: str, rows: Sequence[Sequence[str]], head: Sequence[str] = (), right: Sequence[int] = ()
) -> Iterator[str]:
    """A table with or without names of columns; nothing if there is no row."""
    if rows:
        yield ""
        yield Heading(name)
        yield from (f"  {line}" for line in columns([head, *rows] if head else rows, right))


def _short(tag: str, limit: int = _MAX_TAG) -> str:
    return cut(printable(tag), limit, end=limit // 2)  # tags of one module differ at the end
