"""The contents of the report: which values of which runs appear in which section."""

from __future__ import annotations

import base64
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from mindsummary_lightning.export.lineage_text import lineage_fields
from mindsummary_lightning.export.report.figures import MAX_RIDGES, curve_figures, landscape_figure, ridge_figure
from mindsummary_lightning.reading.series import ScalarSeries
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.reading.thinning import every_nth
from mindsummary_lightning.values import Graph, Image

_T = TypeVar("_T")
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f5f3f", "#888888")
_EPOCH = "epoch"  # Lightning logs it with every metric: a staircase that nobody opens a report for, shown last
_MAX_DEPTH = 8  # deeper scopes of a graph are counted in their ancestor
_MAX_IMAGES = 3  # of one tag and run: first, middle, last


@dataclass(frozen=True, slots=True)
class ReportRun:
    """One run of the report."""

    number: int
    name: str
    reader: SummaryReader
    tags: dict[str, list[str]]
    scalars: dict[str, ScalarSeries]

    @property
    def colour(self) -> str:
        """CSS colour of the run's curves."""
        return _COLOURS[self.number % len(_COLOURS)]

    @property
    def extent(self) -> str:
        """Last step and start of the run."""
        if not self.scalars:
            return "no scalars"
        last = max(int(series.steps[-1]) for series in self.scalars.values())
        start = min(float(series.wall_times.min()) for series in self.scalars.values())
        return f"last step {last}, started {datetime.fromtimestamp(start):%Y-%m-%d %H:%M}"


@dataclass(slots=True)
class Scope:
    """One scope of a computational graph."""

    name: str  # last part of its path
    operations: Counter[str] = field(default_factory=Counter)  # directly in it, by type
    scopes: dict[str, Scope] = field(default_factory=dict)  # directly below it, by name

    @property
    def summary(self) -> str:
        """Text such as ``"2 Conv2d, ReLU"``."""
        return ", ".join(f"{count} {kind}" if count > 1 else kind for kind, count in self.operations.items())

    @property
    def total(self) -> int:
        """Number of operations in the scope and below it."""
        return self.operations.total() + sum(scope.total for scope in self.scopes.values())


@dataclass(frozen=True, slots=True)
class Card:
    """One box of a section; ``run`` is ``None`` where several runs share it."""

    title: str
    run: ReportRun | None = None
    figures: Sequence[Any] = ()  # Bokeh's figures
    last_values: Sequence[tuple[ReportRun, str]] = ()
    images: Sequence[tuple[int, str]] = ()  # step and data URI
    note: str = ""
    outline: Scope | None = None


def open_runs(run_dirs: Sequence[str]) -> list[ReportRun]:
    """The runs with their scalars; each is named by its path relative to what all have in common."""
    paths = [os.path.abspath(run_dir) for run_dir in run_dirs]
    common = os.path.commonpath(paths) if len(paths) > 1 else os.path.dirname(paths[0])
    runs = []
    for number, (path, run_dir) in enumerate(zip(paths, run_dirs, strict=True)):
        reader = SummaryReader(run_dir)
        runs.append(ReportRun(number, os.path.relpath(path, common), reader, reader.tags(), reader.all_scalars()))
    return runs


def sections(runs: Sequence[ReportRun]) -> dict[str, list[Card]]:
    """Title and cards of every section that has a card."""
    by_title = {
        "Scalars": _curve_cards(runs),
        "Histograms": _histogram_cards(runs),
        "Images": _image_cards(runs),
        "Loss landscapes": _landscape_cards(runs),
        "Computational graphs": _graph_cards(runs),
    }
    return {title: cards for title, cards in by_title.items() if cards}


def single_values(runs: Sequence[ReportRun]) -> dict[str, list[str]]:
    """Scalars that every run recorded at most once, by tag: numbers instead of a curve, as text for each run."""
    return {
        tag: [f"{run.scalars[tag].values[-1]:.6g}" if tag in run.scalars else "" for run in runs]
        for tag in sorted({tag for run in runs for tag in run.scalars})
        if _is_single(runs, tag)
    }


def lineage_rows(runs: Sequence[ReportRun]) -> list[tuple[str, list[str], bool]]:
    """Name, text for each run and whether the runs differ in it, for each value of the lineage; such rows first."""
    facts = [lineage_fields(run.reader.lineage()) for run in runs]
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


def _curve_cards(runs: Sequence[ReportRun]) -> list[Card]:
    cards = []
    for tag in sorted({tag for run in runs for tag in run.scalars}, key=lambda tag: (tag == _EPOCH, tag)):
        if _is_single(runs, tag):
            continue
        having = [run for run in runs if tag in run.scalars]
        figures = curve_figures([(run.number, run.colour, run.scalars[tag]) for run in having])
        last = [(run, f"{run.scalars[tag].values[-1]:.6g}") for run in having]
        cards.append(Card(tag, figures=figures, last_values=last, note="" if figures else "no finite value"))
    return cards


def _histogram_cards(runs: Sequence[ReportRun]) -> list[Card]:
    cards = []
    for tag, run in _tagged(runs, "histogram"):
        plot = ridge_figure(_evenly(run.reader.histograms, tag, MAX_RIDGES), run.colour)
        cards.append(Card(tag, run, [plot] if plot else [], note="" if plot else "no finite element"))
    return cards


def _image_cards(runs: Sequence[ReportRun]) -> list[Card]:
    return [
        Card(
            tag,
            run,
            images=[(step, _data_uri(image)) for step, image in _evenly(run.reader.images, tag, _MAX_IMAGES)],
        )
        for tag, run in _tagged(runs, "image")
    ]


def _landscape_cards(runs: Sequence[ReportRun]) -> list[Card]:
    cards = []
    for run in runs:
        for landscape in run.reader.landscapes() if run.tags["loss_landscape"] else []:
            plot = landscape_figure(landscape)
            is_finite = math.isfinite(float(landscape.z.sum()))
            extremes = f"{landscape.z.min():.6g} to {landscape.z.max():.6g}" if is_finite else "not finite"
            note = f"loss {extremes}, {landscape.x.size} x {landscape.y.size} points"
            cards.append(Card(landscape.tag, run, [plot] if plot else [], note=note))
    return cards


def _graph_cards(runs: Sequence[ReportRun]) -> list[Card]:
    cards = []
    for run in runs:
        graph = run.reader.graph()
        if graph is not None:
            note = f"{len(graph.nodes)} operations, {len(graph.parameters)} parameters"
            cards.append(Card("graph", run, note=note, outline=graph_outline(graph)))
    return cards


def _tagged(runs: Sequence[ReportRun], kind: str) -> list[tuple[str, ReportRun]]:
    tags = sorted({tag for run in runs for tag in run.tags[kind]})
    return [(tag, run) for tag in tags for run in runs if tag in run.tags[kind]]


def _evenly(read: Callable[[str], Iterator[tuple[int, float, _T]]], tag: str, max_samples: int) -> list[tuple[int, _T]]:
    """Step and value of at most ``max_samples`` samples."""
    wanted = set(every_nth(sum(1 for _ in read(tag)), max_samples).tolist())
    return [(step, value) for index, (step, _, value) in enumerate(read(tag)) if index in wanted]


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
