"""The contents of the report: which values of which runs appear in which section."""

from __future__ import annotations

import base64
import colorsys
import contextlib
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.export.report.figures import landscape_figure, parameter_figure
from mindsummary_lightning.export.report.ridges import MAX_RIDGES, ridge_svg
from mindsummary_lightning.reading.decode import OpenFiles, read_graph
from mindsummary_lightning.reading.followed_file import GraphLocation, LocatedSample
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.lineage_text import lineage_fields
from mindsummary_lightning.reading.output_statistics import origin_text, read_output_statistics
from mindsummary_lightning.reading.parameter_tables import (
    ParameterTable,
    loss_at,
    read_parameter_table,
)
from mindsummary_lightning.reading.run_names import run_names
from mindsummary_lightning.reading.series import ScalarSeries
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.reading.thinning import MAX_POINTS, every_nth, thinned
from mindsummary_lightning.values import Graph, Histogram, Image, LossLandscape

_T = TypeVar("_T")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f5f3f", "#888888")
# of the circle of hues: steps of the golden ratio come near no hue twice
_GOLDEN = 0.6180339887498949
_LIGHTNESS, _SATURATION = (0.42, 0.55), 0.6  # readable on a light and on a dark page
# Lightning logs it with every metric: a staircase that nobody opens a report for, shown last
_EPOCH = "epoch"
_MAX_DEPTH = 8  # deeper scopes of a graph are counted in their ancestor
_MAX_IMAGES = 3  # of one tag and run: first, middle, last
# of what a page is made of, as text
_PAGE_BYTES, _POINT_BYTES, _RIDGES_BYTES = 1_200_000, 11, 11_000


def colour_of(number: int) -> str:
    """Return the CSS colour of a run by its number.

    The colour-blind can tell the first eight apart. Later colours never repeat.
    """
    if number < len(COLOURS):
        return COLOURS[number]
    later = number - len(COLOURS)
    lightness = _LIGHTNESS[later % len(_LIGHTNESS)]
    channels = colorsys.hls_to_rgb(later * _GOLDEN % 1, lightness, _SATURATION)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)


def usual_value(values: Sequence[str]) -> str:
    """The most frequent value; ``""`` if all values differ."""
    ((value, count),) = Counter(values).most_common(1)
    return value if count > 1 else ""


@dataclass(frozen=True, slots=True)
class ReportRun:
    """A run of the report."""

    number: int
    name: str
    content: FollowedRun
    tags: dict[str, list[str]]
    scalars: dict[str, ScalarSeries]
    lineage: dict[str, str]
    parameters: ParameterTable | None = None
    own_colour: str = ""

    @property
    def colour(self) -> str:
        """CSS colour of the run's curves."""
        return self.own_colour or colour_of(self.number)

    @property
    def extent(self) -> str:
        """Last step and start of the run."""
        if not self.scalars:
            return "no scalars"
        last = max(int(series.steps[-1]) for series in self.scalars.values())
        start = min(float(series.wall_times.min()) for series in self.scalars.values())
        text = f"last step {last}"
        with contextlib.suppress(OSError, OverflowError, ValueError):  # no time that a calendar has
            text += f", started {datetime.fromtimestamp(start):%Y-%m-%d %H:%M}"
        return text


@dataclass(slots=True)
class Scope:
    """A scope of a computational graph."""

    name: str  # last part of its path
    operations: Counter[str] = field(default_factory=Counter)  # directly in it, by type
    scopes: dict[str, Scope] = field(default_factory=dict)  # directly below it, by name

    @property
    def summary(self) -> str:
        """Text such as ``"2 Conv2d, ReLU"``."""
        return ", ".join(
            f"{count} {kind}" if count > 1 else kind for kind, count in self.operations.items()
        )

    @property
    def total(self) -> int:
        """Number of operations in the scope and below it."""
        return self.operations.total() + sum(scope.total for scope in self.scopes.values())


@dataclass(frozen=True, slots=True)
class Card:
    """A box of a section; ``run`` is ``None`` where several runs share it."""

    title: str
    run: ReportRun | None = None
    figures: Sequence[Any] = ()  # Bokeh's
    # that the page's script draws: number and colour of the run, columns
    curves: Sequence[dict[str, Any]] = ()
    svg: str = ""
    last_values: Sequence[tuple[ReportRun, str]] = ()
    images: Sequence[tuple[int, str]] = ()  # step and data URI
    note: str = ""
    outline: Scope | None = None


def open_runs(
    run_dirs: Sequence[str], base: str | None = None
) -> tuple[list[ReportRun], dict[str, str]]:
    """Read the scalars and lineage of runs.

    Return the runs, and by name the problems of runs that cannot be read. Raise the last problem if
    no run can be read. Names are relative to ``base``, by default the common directory.
    """
    names = run_names(run_dirs, common_directory(run_dirs) if base is None else base)
    runs: list[ReportRun] = []
    problems: dict[str, str] = {}
    for run_dir in run_dirs:
        name = names[run_dir]
        content = FollowedRun(run_dir, on_damage="raise")
        try:
            content.refresh()
            tags = content.tags()
            scalars = {tag: content.scalars(tag) for tag in tags["scalar"]}
            lineage = lineage_fields(SummaryReader(run_dir).lineage())
            table = read_parameter_table(content)
        except (DamagedFileError, OSError) as error:
            problems[name] = str(error)
            if len(problems) == len(run_dirs):
                raise
            continue
        runs.append(ReportRun(len(runs), name, content, tags, scalars, lineage, table))
    return runs, problems


def common_directory(run_dirs: Sequence[str]) -> str:
    """The directory that all runs lie below."""
    paths = [os.path.abspath(run_dir) for run_dir in run_dirs]
    return os.path.commonpath(paths) if len(paths) > 1 else os.path.dirname(paths[0])


def curve_cards(runs: Sequence[ReportRun]) -> list[Callable[[], Card]]:
    """Makers of the cards with curves, in the order of the page."""
    curves = sorted(
        {tag for run in runs for tag in run.scalars}, key=lambda tag: (tag == _EPOCH, tag)
    )
    return [partial(_curve_card, runs, tag) for tag in curves if not _is_single(runs, tag)]


def planned_cards(
    runs: Sequence[ReportRun], files: OpenFiles
) -> list[tuple[str, Callable[[], Card]]]:
    """List the section title and the builder function of every card, in page order."""
    plan: list[tuple[str, Callable[[], Card]]] = [("Scalars", make) for make in curve_cards(runs)]
    plan += [
        ("Parameters", partial(_parameter_card, run, run.parameters))
        for run in runs
        if run.parameters
    ]
    plan += [
        ("Output statistics", partial(_origin_card, run, text)) for run, text in _origins(runs)
    ]
    plan += [
        ("Histograms", partial(_histogram_card, run, tag, files))
        for tag, run in _tagged(runs, "histogram")
    ]
    plan += [
        ("Images", partial(_image_card, run, tag, files)) for tag, run in _tagged(runs, "image")
    ]
    plan += [
        ("Loss landscapes", partial(_landscape_card, run, tag, sample, files))
        for run in runs
        for tag in run.tags["loss_landscape"]
        for sample in run.content.samples("loss_landscape", tag)
    ]
    plan += [
        ("Computational graphs", partial(_graph_card, run, graph))
        for run, graph in _newest_graphs(runs)
    ]
    return plan


def _origins(runs: Sequence[ReportRun]) -> Iterator[tuple[ReportRun, str]]:
    """Runs with output statistics that stop being finite, and texts about it."""
    for run in runs:
        statistics = read_output_statistics(run.content)
        first = None if statistics is None else statistics.first_non_finite()
        if first:
            yield run, origin_text(*first)


def _newest_graphs(runs: Sequence[ReportRun]) -> Iterator[tuple[ReportRun, GraphLocation]]:
    for run in runs:
        graphs = [graph for graph in run.content.graphs() if not graph.is_model]
        if graphs:
            yield run, graphs[-1]


def _origin_card(run: ReportRun, text: str) -> Card:
    return Card("first number that is not finite", run, note=text)


def expected_bytes(runs: Sequence[ReportRun]) -> int:
    """Size of the page, roughly."""
    points = sum(min(len(series), MAX_POINTS) for run in runs for series in run.scalars.values())
    ridges = sum(len(run.tags["histogram"]) for run in runs)
    images = sum(
        sample.location.end - sample.location.start
        for tag, run in _tagged(runs, "image")
        for sample in run.content.samples("image", tag, _first_middle_last)
    )
    return _PAGE_BYTES + points * _POINT_BYTES + ridges * _RIDGES_BYTES + images * 4 // 3


def single_values(runs: Sequence[ReportRun]) -> dict[str, list[str]]:
    """Texts of the scalars that every run recorded at most once, by tag.

    The list of a tag has a text for each run.
    """
    tags = sorted({tag for run in runs for tag in run.scalars})
    return {tag: _last_texts(runs, tag) for tag in tags if _is_single(runs, tag)}


def _last_texts(runs: Sequence[ReportRun], tag: str) -> list[str]:
    return [f"{run.scalars[tag].values[-1]:.6g}" if tag in run.scalars else "" for run in runs]


def lineage_rows(runs: Sequence[ReportRun]) -> list[tuple[str, list[str], bool]]:
    """Rows of the lineage: name, texts of the runs, and whether they differ.

    Rows in which the runs differ come first.
    """
    facts = [dict(run.lineage) for run in runs]
    for fact in facts:  # the directory of a checkpoint is that of its run
        if "model_path" in fact:
            fact["model_path"] = fact["model_path"].rpartition("/")[2]
    rows = []
    for name in dict.fromkeys(name for fact in facts for name in fact):
        values = [fact.get(name, "") for fact in facts]
        rows.append((name, values, len(set(values)) > 1))
    return sorted(rows, key=lambda row: not row[2])


def _is_single(runs: Sequence[ReportRun], tag: str) -> bool:
    return all(len(run.scalars[tag]) <= 1 for run in runs if tag in run.scalars)


def _curve_card(runs: Sequence[ReportRun], tag: str) -> Card:
    having = [run for run in runs if tag in run.scalars]
    is_shown = any(np.isfinite(run.scalars[tag].values).any() for run in having)
    curves = [
        {"run": run.number, "colour": run.colour, "columns": packed_curve(run.scalars[tag])}
        for run in having
    ]
    last = [(run, f"{run.scalars[tag].values[-1]:.6g}") for run in having]
    longest = max(len(run.scalars[tag]) for run in having)
    note = f"{MAX_POINTS:,} points of {longest:,} are drawn" if longest > MAX_POINTS else ""
    if not is_shown:
        return Card(tag, last_values=last, note="no finite value")
    return Card(tag, curves=curves, last_values=last, note=note)


def packed_curve(series: ScalarSeries) -> dict[str, tuple[str, str]]:
    """Type (``<i4``, ``<f4`` or ``<f8``) and base64 text of every column."""
    columns = {
        name: column.astype(column.dtype.newbyteorder("<"))
        for name, column in curve_columns(series).items()
    }
    return {
        name: (column.dtype.str, base64.b64encode(column.tobytes()).decode())
        for name, column in columns.items()
    }


def curve_columns(series: ScalarSeries) -> dict[str, NDArray[np.generic]]:
    """``step`` and ``value`` of the drawn points, NaN for non-finite values.

    A value whose neighbours are not finite has no line; it is in ``alone``, too, and is drawn as a
    point.
    """
    points = thinned(series.values)
    steps, values = series.steps[points], series.values[points]
    values[~np.isfinite(values)] = np.nan
    columns = {"step": steps.astype(np.int32 if steps[-1] < 2**31 else np.float64), "value": values}
    missing = np.pad(np.isnan(values), 1, constant_values=True)
    is_alone = missing[:-2] & missing[2:] & ~missing[1:-1]
    if is_alone.any():
        columns["alone"] = np.where(is_alone, values, np.nan)
    return columns


def _histogram_card(run: ReportRun, tag: str, files: OpenFiles) -> Card:
    samples = run.content.samples("histogram", tag, lambda steps: every_nth(steps.size, MAX_RIDGES))
    ridges = ridge_svg(
        [(sample.step, _value(files, sample, Histogram)) for sample in samples], run.colour
    )
    return Card(tag, run, svg=ridges or "", note="" if ridges else "no finite element")


def _parameter_card(run: ReportRun, table: ParameterTable) -> Card:
    first = table.first_non_finite()
    note = (
        "colours: log10 of the gradients' root mean square; "
        "red is not finite, black zero, grey without a gradient"
    )
    if first is not None:
        loss = loss_at(run.content, first.step)
        where = f"first not finite: the {first.kind} of {first.parameter} at step {first.step}"
        loss_text = "not recorded" if loss is None else f"{loss:.6g}"
        note = f"{where}, where the loss is {loss_text}; {note}"
    return Card("gradients by step", run, [parameter_figure(table)], note=note)


def _image_card(run: ReportRun, tag: str, files: OpenFiles) -> Card:
    samples = run.content.samples("image", tag, _first_middle_last)
    return Card(
        tag,
        run,
        images=[(sample.step, _data_uri(_value(files, sample, Image))) for sample in samples],
    )


def _landscape_card(run: ReportRun, tag: str, sample: LocatedSample, files: OpenFiles) -> Card:
    landscape = _value(files, sample, LossLandscape)
    plot = landscape_figure(landscape)
    surface = landscape.surface
    is_finite = surface.z.size > 0 and math.isfinite(float(surface.z.sum()))
    extremes = f"{surface.z.min():.6g} to {surface.z.max():.6g}" if is_finite else "not finite"
    note = f"loss {extremes}, {surface.x.size} x {surface.y.size} points"
    return Card(tag, run, [plot] if plot else [], note=note)


def _graph_card(run: ReportRun, location: GraphLocation) -> Card:
    graph, _ = read_graph(location)
    note = f"{len(graph.nodes)} operations, {len(graph.parameters)} parameters"
    return Card("graph", run, note=note, outline=graph_outline(graph))


def _first_middle_last(steps: NDArray[np.int64]) -> NDArray[np.intp]:
    return every_nth(steps.size, _MAX_IMAGES)


def _value(files: OpenFiles, sample: LocatedSample, kind: type[_T]) -> _T:
    value = files.value(sample.location)
    assert isinstance(value, kind)  # the kind is that of its tag
    return value


def _tagged(runs: Sequence[ReportRun], kind: str) -> list[tuple[str, ReportRun]]:
    tags = sorted({tag for run in runs for tag in run.tags[kind]})
    return [(tag, run) for tag in tags for run in runs if tag in run.tags[kind]]


def graph_outline(graph: Graph) -> Scope:
    """The tree of a graph's scopes; the root has the name ``""``."""
    root = Scope("")
    for node in graph.nodes:
        scope = root
        for part in [part for part in node.scope.split("/") if part][:_MAX_DEPTH]:
            scope = scope.scopes.setdefault(part, Scope(part))
        scope.operations[node.op_type] += 1
    return root


def _data_uri(image: Image) -> str:
    return f"data:{image.media_type};base64,{base64.b64encode(image.encoded).decode()}"
