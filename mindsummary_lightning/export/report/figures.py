"""Bokeh figures of the report: curves over each other, histograms as ridges, loss landscapes as contours.

Text and grid are of a middle grey and the background is transparent, so a figure reads on a light and on a dark page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool
from bokeh.palettes import viridis
from bokeh.plotting import figure
from numpy.typing import NDArray

from mindsummary_lightning.reading.series import RecordedLandscape, ScalarSeries
from mindsummary_lightning.reading.thinning import thinned
from mindsummary_lightning.values import Histogram

MAX_RIDGES = 12
_BINS = 60
_LEVELS = 18
_TEXT, _LINE, _GRID = "#7d858f", "#7d858f66", "#7d858f33"


def curve_figures(curves: Sequence[tuple[int, str, ScalarSeries]]) -> list[Any]:
    """Figures of one scalar: with a linear axis and, if a value is positive, hidden behind it one with a log axis.

    The figures share their data: the page's script smooths both, switches between them, and hides runs by the name of
    their renderers.
    There is none if no value is finite. A curve is the number of its run, a CSS colour and the series.
    """
    every = np.concatenate([series.values for _, _, series in curves]).astype(np.float64)
    if not np.isfinite(every).any():
        return []
    sources = [_curve_source(series) for _, _, series in curves]
    positive = every[np.isfinite(every) & (every > 0)]
    scales: dict[str, dict[str, Any]] = {"linear": {}}
    if positive.size:  # a hidden figure cannot find its range by itself
        scales["log"] = {"y_range": (positive.min() / 1.2, positive.max() * 1.2), "visible": False}
    figures: list[Any] = []
    for scale, options in scales.items():
        if figures:
            options["x_range"] = figures[0].x_range
        plot = _figure(240, "step", y_axis_type=scale, tags=["curve", scale], **options)
        for (number, colour, _), source in zip(curves, sources, strict=True):
            line = plot.line("step", "value", source=source, color=colour, line_width=1.6, name=f"run{number}")
            plot.scatter("step", "alone", source=source, color=colour, size=5, name=f"run{number}")
            tooltips = [("step", "@step{0}"), ("value", "@raw"), ("smoothed", "@value")]
            plot.add_tools(HoverTool(renderers=[line], tooltips=tooltips, mode="vline"))
        figures.append(plot)
    return figures


def ridge_figure(samples: Sequence[tuple[int, Histogram]], colour: str) -> Any | None:
    """Histograms of one tag by their steps as ridges, the oldest at the back; ``None`` if no element is finite."""
    filled = [(step, histogram) for step, histogram in samples if histogram.counts.sum()]
    if not filled:
        return None
    low = min(float(histogram.lefts.min()) for _, histogram in filled)
    high = max(float((histogram.lefts + histogram.widths).max()) for _, histogram in filled)
    if not (np.isfinite(low) and np.isfinite(high) and high > low):
        return None
    edges = np.linspace(low, high, _BINS + 1)
    densities = [_density(histogram, edges) for _, histogram in filled]
    height = 3.0 / max(float(density.max()) for density in densities)  # the tallest ridge covers three steps
    centres = (edges[:-1] + edges[1:]) / 2
    bases = list(range(len(filled), 0, -1))
    source = ColumnDataSource(
        {
            "x": [np.concatenate([[low], centres, [high]]) for _ in filled],
            "y": [base + np.pad(density * height, 1) for base, density in zip(bases, densities, strict=True)],
            "step": [step for step, _ in filled],
            "count": [histogram.count for _, histogram in filled],
        }
    )
    plot = _figure(90 + 18 * len(filled), "value", tags=["ridges"])
    ridges = plot.patches("x", "y", source=source, fill_color=colour, fill_alpha=0.5, line_color=colour)
    plot.add_tools(HoverTool(renderers=[ridges], tooltips=[("step", "@step{0}"), ("elements", "@count{0}")]))
    plot.yaxis.ticker = FixedTicker(ticks=bases)
    plot.yaxis.major_label_overrides = {base: str(step) for base, (step, _) in zip(bases, filled, strict=True)}
    plot.yaxis.axis_label = "step"
    return plot


def landscape_figure(landscape: RecordedLandscape) -> Any | None:
    """A loss landscape as filled contours with its path; ``None`` if it is flat or no loss is finite."""
    finite = landscape.z[np.isfinite(landscape.z)]
    # By rank and not by value: a loss surface is a flat valley between walls a thousand times as high.
    levels = np.unique(np.quantile(finite, np.linspace(0, 1, _LEVELS + 1))) if finite.size else finite
    if levels.size < 2 or min(landscape.z.shape) < 2:
        return None
    plot = _figure(360, "first direction", tags=["landscape"])
    plot.yaxis.axis_label = "second direction"
    plot.contour(landscape.x, landscape.y, landscape.z, levels, fill_color=viridis(levels.size - 1), line_color=None)
    if landscape.path is not None:
        columns = {"x": landscape.path.x, "y": landscape.path.y, "loss": landscape.path.z}
        path = ColumnDataSource({**columns, "number": np.array(landscape.intervals)})
        plot.line("x", "y", source=path, color="white", line_width=2)
        points = plot.scatter("x", "y", source=path, size=8, color="#d55e00", line_color="white")
        tooltips = [(landscape.metadata.unit or "number", "@number{0}"), ("loss", "@loss")]
        plot.add_tools(HoverTool(renderers=[points], tooltips=tooltips))
    if landscape.convergence_point is not None:
        x, y, loss = landscape.convergence_point
        end = ColumnDataSource({"x": [x], "y": [y], "loss": [loss]})
        star = plot.scatter("x", "y", source=end, marker="star", size=18, color="white", line_color="#222222")
        plot.add_tools(HoverTool(renderers=[star], tooltips=[("end of training, loss", "@loss")]))
    return plot


def _figure(height: int, x_label: str, **options: Any) -> Any:
    plot = figure(
        height=height, sizing_mode="stretch_width", tools="xpan,xbox_zoom,reset", toolbar_location=None, **options
    )
    plot.background_fill_color = plot.border_fill_color = plot.outline_line_color = None
    plot.min_border_right = 12
    plot.xaxis.axis_label = x_label
    plot.axis.axis_label_text_color = plot.axis.major_label_text_color = _TEXT
    plot.axis.axis_label_text_font_style = "normal"
    plot.axis.axis_line_color = plot.axis.major_tick_line_color = plot.axis.minor_tick_line_color = _LINE
    plot.grid.grid_line_color = _GRID
    return plot


def _curve_source(series: ScalarSeries) -> ColumnDataSource:
    points = thinned(series.values)
    steps, values = series.steps[points].astype(np.float64), series.values[points]
    values[~np.isfinite(values)] = np.nan
    # A value whose neighbours are not finite has no line; it is drawn as a point.
    missing = np.pad(~np.isfinite(values), 1, constant_values=True)
    alone = np.where(missing[:-2] & missing[2:], values, np.nan)
    return ColumnDataSource({"step": steps, "raw": values, "value": values, "alone": alone})


def _density(histogram: Histogram, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    order = np.argsort(histogram.lefts, kind="stable")
    lefts, widths = histogram.lefts[order], histogram.widths[order]
    corners = np.append(lefts, lefts[-1] + widths[-1])
    running = np.append(0, np.cumsum(histogram.counts[order]))
    share = np.diff(np.interp(edges, corners, running)) / running[-1]
    return np.asarray(share / np.diff(edges), np.float64)
