"""``mindsummary show RUN``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mindsummary_lightning.cli.output import (
    columns,
    escaped,
    heading,
    readable_size,
    readable_time,
    say_json,
    short_number,
    sparkline,
    width,
)
from mindsummary_lightning.cli.runs import files_size, one_run
from mindsummary_lightning.export.lineage_text import lineage_fields
from mindsummary_lightning.export.run_overview import run_overview
from mindsummary_lightning.reading.results import ScalarSeries
from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files
from mindsummary_lightning.reading.summary_reader import SummaryReader

__all__ = ["run"]

_MAX_TAG = 44
_MAX_CURVE = 40


def run(arguments: argparse.Namespace) -> int:
    """Print the page."""
    reader = SummaryReader(one_run(arguments.run_dir))
    if arguments.json:
        say_json(run_overview(reader))
        return 0
    for line in _page(reader):
        print(line)
    return 0


def _page(reader: SummaryReader) -> Iterator[str]:
    tags = reader.tags()
    series = reader.all_scalars()
    yield from _head(reader, series)
    yield from _section("Scalars", _scalars(series), right=[1, 2, 3, 4, 5])
    yield from _section("Histograms", _histograms(reader, tags["histogram"]), right=[1, 2, 3, 4, 5])
    yield from _section("Images", _images(reader, tags["image"]), right=[1, 2])
    yield from _section("Tensors", _tensors(reader, tags["tensor"]), right=[1, 2])
    yield from _section("Loss landscapes", _landscapes(reader) if tags["loss_landscape"] else [])
    graph = reader.graph()
    if graph is not None:
        counted = (
            f"{len(graph.nodes)} nodes, {len(graph.parameters)} parameters and inputs, {len(graph.constants)} constants"
        )
        yield from _section("Graph", [[""], [counted]])
    yield from _section("Lineage", [["", ""], *map(list, lineage_fields(reader.lineage()).items())])


def _head(reader: SummaryReader, series: Mapping[str, ScalarSeries]) -> Iterator[str]:
    summaries, lineages = len(summary_files(reader.run_dir)), len(lineage_file_paths(reader.run_dir))
    files = f"{summaries} summary and {lineages} lineage files, {readable_size(files_size(reader.run_dir))}"
    yield heading(reader.run_dir)
    yield files.replace("1 summary and 1 lineage files", "1 summary and 1 lineage file")
    times = [float(time) for found in series.values() for time in (found.wall_times.min(), found.wall_times.max())]
    if times:
        yield f"recorded {readable_time(min(times))} to {readable_time(max(times))}"


def _section(name: str, rows: list[list[str]], right: list[int] | None = None) -> Iterator[str]:
    """A table whose first row names the columns; nothing if there is no second row."""
    if len(rows) < 2:
        return
    yield ""
    yield heading(name)
    for line in columns(rows if any(rows[0]) else rows[1:], right or []):
        yield f"  {line}"


def _scalars(series: Mapping[str, ScalarSeries]) -> list[list[str]]:
    rows = [["tag", "samples", "last step", "last", "min", "max", "curve"]]
    length = _curve_length(series)
    for tag, found in series.items():
        finite = found.values[abs(found.values) < float("inf")]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
        numbers = [short_number(number) for number in (float(found.values[-1]), low, high)]
        curve = sparkline(found.values.tolist(), length)
        rows.append([_short(tag), str(len(found)), str(found.steps[-1]), *numbers, curve])
    return rows


def _curve_length(tags: Iterable[str]) -> int:
    used = 2 + min(_MAX_TAG, max(map(len, tags), default=0)) + 5 * 12  # the tag and five numbers
    return max(8, min(_MAX_CURVE, width() - used))


def _histograms(reader: SummaryReader, tags: list[str]) -> list[list[str]]:
    rows = [["tag", "samples", "last step", "elements", "min", "max", "buckets"]]
    length = _curve_length(tags)
    for tag in tags:
        steps, last = _count(reader.histograms(tag))
        shape = sparkline(last.counts.tolist(), length)
        rows.append([_short(tag), *steps, str(last.count), short_number(last.min), short_number(last.max), shape])
    return rows


def _images(reader: SummaryReader, tags: list[str]) -> list[list[str]]:
    rows = [["tag", "samples", "last step", "size"]]
    for tag in tags:
        steps, last = _count(reader.images(tag))
        rows.append([_short(tag), *steps, f"{last.width} x {last.height}, {readable_size(len(last.encoded))}"])
    return rows


def _tensors(reader: SummaryReader, tags: list[str]) -> list[list[str]]:
    rows = [["tag", "samples", "last step", "shape"]]
    for tag in tags:
        steps, last = _count(reader.tensors(tag))
        shape = " x ".join(map(str, last.data.shape)) or "one number"
        rows.append([_short(tag), *steps, f"{shape}, {last.data_type.name.lower()}"])
    return rows


def _count(samples: Iterator[tuple[int, float, Any]]) -> tuple[list[str], Any]:
    number, step, last = 0, 0, None
    for number, (step, _, last) in enumerate(samples, start=1):  # noqa: B007  # the last ones are wanted
        pass
    return [str(number), str(step)], last


def _landscapes(reader: SummaryReader) -> list[list[str]]:
    rows = [["tag", "grid", "smallest loss", "path"]]
    for found in reader.landscapes():
        path = f"{len(found.intervals)} points, {found.metadata.unit}" if found.intervals else "final"
        rows.append([_short(found.tag), f"{found.x.size} x {found.y.size}", short_number(float(found.z.min())), path])
    return rows


def _short(tag: str) -> str:
    clean = escaped(tag)
    return clean if len(clean) <= _MAX_TAG else f"{clean[: _MAX_TAG - 1]}…"
