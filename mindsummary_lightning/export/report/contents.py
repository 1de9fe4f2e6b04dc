"""Contents of the HTML report: the sections, their boxes, and the values in them."""

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
from mindsummary_lightning.values.text import Phrase

_T = TypeVar("_T")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f5f3f", "#888888")
# of the circle of hues: steps of the golden ratio come near no hue twice
_GOLDEN = 0.6180339887498949
_LIGHTNESS, _SATURATION = (0.42, 0.55), 0.6  # readable on a light and on a dark page
# Lightning logs it with every metric: a staircase that nobody opens a report for, shown last
_EPOCH = "epoch"
_MAX_DEPTH = 8  # deeper scopes of a graph are counted in their ancestor
_MAX_IMAGES = 3  # of one tag and run: first, middle, last
_NO_NOTE = Phrase("")
# of what a page is made of, as text
_PAGE_BYTES, _POINT_BYTES, _RIDGES_BYTES = 1_200_000, 11, 11_000


def colour_of(number: int) -> str:
    """Return the CSS colour of a run by its number in the report.

    Colour-blind readers can tell the first eight colours apart. Later colours never repeat.
    """
    if number < len(COLOURS):
        return COLOURS[number]
    later = number - len(COLOURS)
    lightness = _LIGHTNESS[later % len(_LIGHTNESS)]
    channels = colorsys.hls_to_rgb(later * _GOLDEN % 1, lightness, _SATURATION)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)


def usual_value(values: Sequence[str]) -> str:
    """Return the most frequent value; ``""`` if all values differ."""
    ((value, count),) = Counter(values).most_common(1)
    return value if count > 1 else ""


@dataclass(frozen=True, slots=True)
class ReportRun:
    """A run of the report with its name, tags, scalars and lineage."""

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
        """Text about the last step and the start of the run, in local time."""
        if not self.scalars:
            return Phrase("no scalars")
        last = max(int(series.steps[-1]) for series in self.scalars.values())
        start = min(float(series.wall_times.min()) for series in self.scalars.values())
        with contextlib.suppress(OSError, OverflowError, ValueError):  # no time that a calendar has
            started = f"{datetime.fromtimestamp(start):%Y-%m-%d %H:%M}"
            return Phrase("last step {}, started {}", last, started)
        return Phrase("last step {}", last)


@dataclass(slots=True)
class Scope:
    """A scope of a computational graph: its operations by type, and its inner scopes."""

    name: str  # last part of its path
    operations: Counter[str] = field(default_factory=Counter)  # directly in it, by type
    scopes: dict[str, Scope] = field(default_factory=dict)  # directly below it, by name

    @property
    def summary(self) -> str:
        """Text of the operations directly in the scope, such as ``"2 Conv2d, ReLU"``."""
        texts = []
        for kind, count in self.operations.items():
            texts.append(f"{count} {kind}" if count > 1 else kind)
        return ", ".join(texts)

    @property
    def total(self) -> int:
        """Number of operations in the scope and in all scopes inside it."""
        return self.operations.total() + sum(scope.total for scope in self.scopes.values())


@dataclass(frozen=True, slots=True)
class Card:
    """A box of the report; ``run`` is ``None`` for a box that several runs share.

    Title and note are phrases, which the page shows in its language.
    """

    title: Phrase
    run: ReportRun | None = None
    figures: Sequence[Any] = ()  # Bokeh's
    # that the page's script draws: number and colour of the run, columns
    curves: Sequence[dict[str, Any]] = ()
    svg: str = ""
    last_values: Sequence[tuple[ReportRun, str]] = ()
    images: Sequence[tuple[int, str]] = ()  # step and data URI
    note: Phrase = _NO_NOTE
    outline: Scope | None = None


def open_runs(
    run_dirs: Sequence[str], base: str | None = None
) -> tuple[list[ReportRun], dict[str, str]]:
    """Read the scalars, settings and parameter statistics of runs for the report.

    Returns:
        The runs, and by name the problems of runs that cannot be read. Names are relative to
        ``base``, by default the common directory.

    Raises:
        DamagedFileError, OSError: no run can be read; this is the problem of the last run.
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
    """Return the deepest directory that contains all runs."""
    paths = [os.path.abspath(run_dir) for run_dir in run_dirs]
    return os.path.commonpath(paths) if len(paths) > 1 else os.path.dirname(paths[0])


def curve_cards(runs: Sequence[ReportRun]) -> list[Callable[[], Card]]:
    """Return functions that make the boxes with curves, in the order of the page."""
    tags = _scalar_tags(runs)
    if _EPOCH in tags:
        tags.remove(_EPOCH)
        tags.append(_EPOCH)
    return [partial(_curve_card, runs, tag) for tag in tags if not _is_single(runs, tag)]


def _scalar_tags(runs: Sequence[ReportRun]) -> list[str]:
    """Return the tags of all runs' scalars, sorted, without repetition."""
    tags: set[str] = set()
    for run in runs:
        tags.update(run.scalars)
    return sorted(tags)


def planned_cards(
    runs: Sequence[ReportRun], files: OpenFiles, say: Callable[..., str]
) -> list[tuple[str, Callable[[], Card]]]:
    """List the section title and the builder function of every box, in page order.

    ``say`` returns a text of a figure in the page's language.
    """
    plan: list[tuple[str, Callable[[], Card]]] = [("Scalars", make) for make in curve_cards(runs)]
    for run in runs:
        if run.parameters:
            plan.append(("Parameters", partial(_parameter_card, run, run.parameters, say)))
    for run, text in _origins(runs):
        plan.append(("Output statistics", partial(_origin_card, run, text)))
    for tag, run in _tagged(runs, "histogram"):
        plan.append(("Histograms", partial(_histogram_card, run, tag, files, say)))
    for tag, run in _tagged(runs, "image"):
        plan.append(("Images", partial(_image_card, run, tag, files)))
    for run in runs:
        for make in _landscape_cards(run, files, say):
            plan.append(("Loss landscapes", make))
    for run, graph in _newest_graphs(runs):
        plan.append(("Computational graphs", partial(_graph_card, run, graph)))
    return plan


def _landscape_cards(
    run: ReportRun, files: OpenFiles, say: Callable[..., str]
) -> Iterator[Callable[[], Card]]:
    """Yield functions that make the boxes of a run's loss landscapes."""
    for tag in run.tags["loss_landscape"]:
        for sample in run.content.samples("loss_landscape", tag):
            yield partial(_landscape_card, run, tag, sample, files, say)


def _origins(runs: Sequence[ReportRun]) -> Iterator[tuple[ReportRun, Phrase]]:
    """Yield runs with NaN or infinity in output statistics, and texts about where."""
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


def _origin_card(run: ReportRun, text: Phrase) -> Card:
    return Card(Phrase("first number that is not finite"), run, note=text)


def expected_bytes(runs: Sequence[ReportRun]) -> int:
    """Estimate the size of the report, bytes."""
    points = ridges = image_bytes = 0
    for run in runs:
        ridges += len(run.tags["histogram"])
        for series in run.scalars.values():
            points += min(len(series), MAX_POINTS)
    for tag, run in _tagged(runs, "image"):
        for sample in run.content.samples("image", tag, _first_middle_last):
            image_bytes += sample.location.end - sample.location.start
    return _PAGE_BYTES + points * _POINT_BYTES + ridges * _RIDGES_BYTES + image_bytes * 4 // 3


def single_values(runs: Sequence[ReportRun]) -> dict[str, list[str]]:
    """Return, by tag, the values of the scalars that no run recorded more than once.

    The list of a tag has a text for each run, ``""`` for a run without the scalar.
    """
    return {tag: _last_texts(runs, tag) for tag in _scalar_tags(runs) if _is_single(runs, tag)}


def _last_texts(runs: Sequence[ReportRun], tag: str) -> list[str]:
    return [_last_text(run, tag) if tag in run.scalars else "" for run in runs]


def _last_text(run: ReportRun, tag: str) -> str:
    return f"{run.scalars[tag].values[-1]:.6g}"


def lineage_rows(runs: Sequence[ReportRun]) -> list[tuple[str, list[str], bool]]:
    """List the settings and results of runs as rows of a table.

    Returns:
        For every row its name, a text for each run, and whether the texts differ. Rows in which the
        runs differ come first.
    """
    facts = [dict(run.lineage) for run in runs]
    for fact in facts:  # the directory of a checkpoint is that of its run
        if "model_path" in fact:
            fact["model_path"] = fact["model_path"].rpartition("/")[2]
    names: dict[str, None] = {}
    for fact in facts:
        names.update(dict.fromkeys(fact))
    rows = []
    for name in names:
        values = [fact.get(name, "") for fact in facts]
        rows.append((name, values, len(set(values)) > 1))
    return sorted(rows, key=lambda row: not row[2])


def _is_single(runs: Sequence[ReportRun], tag: str) -> bool:
    return all(len(run.scalars[tag]) <= 1 for run in runs if tag in run.scalars)


def _curve_card(runs: Sequence[ReportRun], tag: str) -> Card:
    having = [run for run in runs if tag in run.scalars]
    is_shown = any(np.isfinite(run.scalars[tag].values).any() for run in having)
    curves = []
    last = []
    longest = 0
    for run in having:
        series = run.scalars[tag]
        columns = packed_curve(series)
        curves.append({"run": run.number, "colour": run.colour, "columns": columns})
        last.append((run, _last_text(run, tag)))
        longest = max(longest, len(series))
    title = Phrase("{}", tag)
    if not is_shown:
        return Card(title, last_values=last, note=Phrase("no finite value"))
    note = _NO_NOTE
    if longest > MAX_POINTS:
        note = Phrase("{:,} points of {:,} are drawn", MAX_POINTS, longest)
    return Card(title, curves=curves, last_values=last, note=note)


def packed_curve(series: ScalarSeries) -> dict[str, tuple[str, str]]:
    """Encode the columns of a curve for the page's script.

    Returns:
        For every column its type (``<i4``, ``<f4`` or ``<f8``) and its bytes as base64 text.
    """
    packed = {}
    for name, column in curve_columns(series).items():
        ordered = column.astype(column.dtype.newbyteorder("<"))
        packed[name] = (ordered.dtype.str, base64.b64encode(ordered.tobytes()).decode())
    return packed


def curve_columns(series: ScalarSeries) -> dict[str, NDArray[np.generic]]:
    """Return the columns of a curve to draw: ``step``, ``value``, maybe ``alone``.

    ``value`` is NaN for non-finite values. A value whose neighbours are not finite has no line: the
    column ``alone`` repeats it, to be drawn as a point.
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


def _histogram_card(run: ReportRun, tag: str, files: OpenFiles, say: Callable[..., str]) -> Card:
    samples = run.content.samples("histogram", tag, lambda steps: every_nth(steps.size, MAX_RIDGES))
    histograms = [(sample.step, _value(files, sample, Histogram)) for sample in samples]
    ridges = ridge_svg(histograms, run.colour, say)
    note = _NO_NOTE if ridges else Phrase("no finite element")
    return Card(Phrase("{}", tag), run, svg=ridges or "", note=note)


def _parameter_card(run: ReportRun, table: ParameterTable, say: Callable[..., str]) -> Card:
    first = table.first_non_finite()
    note = Phrase(
        "colours: log10 of the gradients' root mean square; "
        "red with \u00d7 is not finite, black with 0 is zero, grey has no gradient"
    )
    if first is not None:
        loss = loss_at(run.content, first.step)
        loss_text = Phrase("not recorded") if loss is None else f"{loss:.6g}"
        note = Phrase(
            "first not finite: the {} of {} at step {}, where the loss is {}; {}",
            Phrase(first.kind),
            first.parameter,
            first.step,
            loss_text,
            note,
        )
    return Card(Phrase("gradients by step"), run, [parameter_figure(table, say)], note=note)


def _image_card(run: ReportRun, tag: str, files: OpenFiles) -> Card:
    samples = run.content.samples("image", tag, _first_middle_last)
    images = []
    for sample in samples:
        image = _value(files, sample, Image)
        images.append((sample.step, _data_uri(image)))
    return Card(Phrase("{}", tag), run, images=images)


def _landscape_card(
    run: ReportRun, tag: str, sample: LocatedSample, files: OpenFiles, say: Callable[..., str]
) -> Card:
    landscape = _value(files, sample, LossLandscape)
    plot = landscape_figure(landscape, say)
    surface = landscape.surface
    is_finite = surface.z.size > 0 and math.isfinite(float(surface.z.sum()))
    extremes = Phrase("not finite")
    if is_finite:
        extremes = Phrase("{:.6g} to {:.6g}", float(surface.z.min()), float(surface.z.max()))
    note = Phrase("loss {}, {} x {} points", extremes, surface.x.size, surface.y.size)
    return Card(Phrase("{}", tag), run, [plot] if plot else [], note=note)


def _graph_card(run: ReportRun, location: GraphLocation) -> Card:
    graph, _ = read_graph(location)
    note = Phrase("{} operations, {} parameters", len(graph.nodes), len(graph.parameters))
    return Card(Phrase("graph"), run, note=note, outline=graph_outline(graph))


def _first_middle_last(steps: NDArray[np.int64]) -> NDArray[np.intp]:
    return every_nth(steps.size, _MAX_IMAGES)


def _value(files: OpenFiles, sample: LocatedSample, kind: type[_T]) -> _T:
    value = files.value(sample.location)
    assert isinstance(value, kind)  # the kind is that of its tag
    return value


def _tagged(runs: Sequence[ReportRun], kind: str) -> list[tuple[str, ReportRun]]:
    runs_of: dict[str, list[ReportRun]] = {}
    for run in runs:
        for tag in run.tags[kind]:
            runs_of.setdefault(tag, []).append(run)
    tagged = []
    for tag in sorted(runs_of):
        for run in runs_of[tag]:
            tagged.append((tag, run))
    return tagged


def graph_outline(graph: Graph) -> Scope:
    """Count the operations of a graph in a tree of its scopes; return the root scope.

    The root has the name ``""``. Scopes deeper than eight count in their ancestor.
    """
    root = Scope("")
    for node in graph.nodes:
        scope = root
        for part in [part for part in node.scope.split("/") if part][:_MAX_DEPTH]:
            scope = scope.scopes.setdefault(part, Scope(part))
        scope.operations[node.op_type] += 1
    return root


def _data_uri(image: Image) -> str:
    return f"data:{image.media_type};base64,{base64.b64encode(image.encoded).decode()}"
