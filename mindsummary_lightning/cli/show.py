"""``mindsummary show RUN``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class _TagRow:
    """The facts that the row of a tag shows, and the numbers for its curve."""

    facts: dict[str, Any]
    curve: Any


@dataclass(frozen=True)
class _RunPage:
    """The contents of the page that ``show`` prints for a run.

    Attributes:
        samples: the rows of the tags, by kind.
        rest: landscapes, graph and lineage, as JSON shows them.
        tables: the tables of statistics with their facts, by name.
    """

    samples: dict[str, dict[str, _TagRow]]
    rest: dict[str, Any]
    tables: dict[str, Any]

    def as_json(self, run_dir: str) -> dict[str, Any]:
        """Return the contents as ``--json`` prints them."""
        shown: dict[str, Any] = {"run": run_dir}
        for kind, rows in self.samples.items():
            shown[kind] = {tag: row.facts for tag, row in rows.items()}
        shown.update(self.rest)
        for name, (_, facts) in self.tables.items():
            shown[name] = facts
        return shown


def run(arguments: argparse.Namespace) -> Answer:
    """Print the page of a run, as text or JSON."""
    path = one_run(arguments.run_dir)
    run = FollowedRun(path, on_damage="skip" if arguments.follow else "raise")
    if arguments.follow:
        return output.redraw(
            lambda: _lines(run, _contents(run, arguments.output_statistics)), arguments.json
        )
    page = _contents(run, arguments.output_statistics)
    return Answer(page.as_json(path), _lines(run, page))


def _contents(run: FollowedRun, has_rows: bool) -> _RunPage:
    """Read the contents of a run's page; ``has_rows`` adds the last step's rows."""
    run.refresh()
    tags = run.tags()
    samples = {"scalars": {tag: _curve(run, tag) for tag in tags["scalar"]}}
    landscapes = []
    with OpenFiles() as files:
        for kind in _KINDS:
            rows = samples[f"{kind}s"] = {}
            for tag in tags[kind]:
                rows[tag] = _last(run.samples(kind, tag), files)
        for tag in tags["loss_landscape"]:
            for sample in run.samples("loss_landscape", tag):
                landscape = cast("LossLandscape", files.value(sample.location))
                landscapes.append(_landscape_facts(tag, landscape))
    rest = {
        "landscapes": landscapes,
        "graph": _graph_facts(run),
        "lineage": _lineage(run.run_dir, samples["scalars"]),
    }
    tables = {}
    for name, table in (
        ("parameters", parameter_facts(run)),
        ("output_statistics", output_statistics_facts(run, has_rows)),
    ):
        if table is not None:
            tables[name] = table
    return _RunPage(samples, rest, tables)


def _landscape_facts(tag: str, landscape: LossLandscape) -> dict[str, Any]:
    surface = landscape.surface
    return {
        "tag": tag,
        "grid": [surface.x.size, surface.y.size],
        "smallest_loss": float(surface.z.min()) if surface.z.size else None,
        "intervals": list(landscape.intervals),
        "unit": landscape.metadata.unit,
    }


def _graph_facts(run: FollowedRun) -> dict[str, int] | None:
    """Count the nodes of the first recorded graph; ``None`` without a graph."""
    for located in run.graphs():
        if not located.is_model:
            graph = read_graph(located)[0]
            return {
                "nodes": len(graph.nodes),
                "parameters": len(graph.parameters),
                "constants": len(graph.constants),
            }
    return None


def _lineage(run_dir: str, scalars: Mapping[str, _TagRow]) -> dict[str, Any]:
    """Return the lineage with the present status, and whether the run diverged."""
    lineage = SummaryReader(run_dir).lineage()
    values = lineage_values(lineage)
    custom = lineage.custom.values if lineage.custom else {}
    status = run_status(run_dir, custom, time.time())
    if status is not None:
        values["status"] = status
    last_values = {tag: float(row.curve[-1]) for tag, row in scalars.items()}
    if is_diverged(last_values):
        values.setdefault("diverged", True)
    return values


def _curve(run: FollowedRun, tag: str) -> _TagRow:
    """Read the values of a scalar and summarize them."""
    parts = list(run.scalar_parts(tag))
    last_step = int(parts[-1].steps[-1])
    values = np.concatenate([part.values for part in parts])
    finite = values[np.isfinite(values)]
    facts: dict[str, Any] = {
        "samples": values.size,
        "last_step": last_step,
        "last": shortest_float32(float(values[-1])),
        "min": None,
        "max": None,
    }
    if finite.size:
        facts["min"] = shortest_float32(float(finite.min()))
        facts["max"] = shortest_float32(float(finite.max()))
    return _TagRow(facts, values)


def _last(samples: Sequence[LocatedSample], files: OpenFiles) -> _TagRow:
    """Summarize the last sample of a histogram, an image or a tensor."""
    facts: dict[str, Any] = {"samples": len(samples), "last_step": samples[-1].step}
    last = cast("Histogram | Image | Tensor", files.value(samples[-1].location))
    if isinstance(last, Histogram):
        facts.update(elements=last.count, min=last.min, max=last.max)
        return _TagRow(facts, last.counts)
    if isinstance(last, Image):
        facts.update(width=last.width, height=last.height, bytes=len(last.encoded))
        return _TagRow(facts, None)
    facts.update(shape=list(last.data.shape), data_type=last.data_type.name.lower())
    return _TagRow(facts, None)


def _lines(run: FollowedRun, page: _RunPage) -> Iterator[str]:
    yield from _heading_lines(run)
    for kind, rows in page.samples.items():
        yield from _sample_section(kind, rows)
    landscapes = [_landscape_cells(facts) for facts in page.rest["landscapes"]]
    yield from _section("Loss landscapes", landscapes, ["tag", "grid", "smallest loss", "path"])
    if page.rest["graph"]:
        yield from _section("Graph", [[_graph_line(page.rest["graph"])]])
    lineage = []
    for name, value in page.rest["lineage"].items():
        on_one_line = " ".join(as_text(value).split())
        lineage.append([name, on_one_line])
    yield from _section("Lineage", lineage)
    for name, (table, facts) in page.tables.items():
        yield from _LINES[name](table, facts)


def _heading_lines(run: FollowedRun) -> Iterator[str]:
    """Yield lines with the run's name, its files and the times of its scalars."""
    run_dir = run.run_dir
    summaries = len(summary_files(run_dir))
    lineages = counted(len(lineage_file_paths(run_dir)), "lineage file")
    yield Heading(run_dir)
    yield f"{summaries} summary and {lineages}, {output.readable_size(files_size(run_dir))}"
    times = []
    for tag in run.tags()["scalar"]:
        for part in run.scalar_parts(tag):
            times += [float(part.wall_times.min()), float(part.wall_times.max())]
    if times:
        yield f"recorded {output.readable_time(min(times))} to {output.readable_time(max(times))}"


def _sample_section(kind: str, tag_rows: Mapping[str, _TagRow]) -> Iterator[str]:
    """Format the table of all tags of one kind, as wide as the terminal."""
    tag_cells = min(_MAX_TAG, max(map(cells, tag_rows), default=0))
    used = 2 + tag_cells + 5 * 12  # the tag and five numbers
    length = max(8, min(_MAX_CURVE, width() - used))
    rows = []
    for tag, row in tag_rows.items():
        counts = [str(row.facts["samples"]), str(row.facts["last_step"])]
        rows.append([_short(tag), *counts, *_cells(kind, row.facts, row.curve, length)])
    names = _COLUMNS[kind]
    head = ["tag", "samples", "last step", *names]
    excess = 2 + max(map(cells, columns([head, *rows]))) - width()
    if rows and excess > 0 and sys.stdout.isatty():
        limit = max(_MIN_TAG, max(cells(row[0]) for row in rows) - excess)
        rows = [[_short(row[0], limit), *row[1:]] for row in rows]
    yield from _section(kind.capitalize(), rows, head, right=range(1, 2 + len(names)))


def _landscape_cells(facts: Mapping[str, Any]) -> list[str]:
    grid = " x ".join(map(str, facts["grid"]))
    points = len(facts["intervals"])
    path = f"{counted(points, 'point')}, {facts['unit']}" if points else "final"
    return [_short(facts["tag"]), grid, short_number(facts["smallest_loss"]), path]


def _graph_line(facts: Mapping[str, int]) -> str:
    nodes = counted(facts["nodes"], "node")
    constants = counted(facts["constants"], "constant")
    return f"{nodes}, {facts['parameters']} parameters and inputs, {constants}"


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
    """Format a titled table, with column names if given; no lines without rows."""
    if rows:
        yield ""
        yield Heading(name)
        yield from (f"  {line}" for line in columns([head, *rows] if head else rows, right))


def _short(tag: str, limit: int = _MAX_TAG) -> str:
    return cut(printable(tag), limit, end=limit // 2)  # tags of one module differ at the end
