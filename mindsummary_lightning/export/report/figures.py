"""Bokeh figures of the report: contours of loss landscapes, gradient heat maps.

Text and grid are of a middle grey and the background is transparent, so a figure reads on a light
and on a dark page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool
from bokeh.palettes import viridis
from bokeh.plotting import figure

from mindsummary_lightning.conversion.heat_map import colours_of, grouped, shaded_range
from mindsummary_lightning.reading.parameter_tables import ParameterTable
from mindsummary_lightning.values import LossLandscape
from mindsummary_lightning.values.summary_values import check_landscape_shapes

_LEVELS = 18
_MAX_PARAMETERS = 120  # rows; of more, layers and then groups of layers
_TEXT, _LINE, _GRID = "#7d858f", "#7d858f66", "#7d858f33"  # report.js has the same


def landscape_figure(landscape: LossLandscape, say: Callable[..., str]) -> Any | None:
    """Draw a loss landscape as filled contours, with the path of the training.

    ``None`` if its shapes contradict each other, or if it has fewer than two different finite
    losses.
    """
    try:
        check_landscape_shapes(
            landscape.surface, landscape.intervals, landscape.path, landscape.convergence_point
        )
    except ValueError:  # of somebody else's file
        return None
    x, y, z = landscape.surface.x, landscape.surface.y, landscape.surface.z
    finite = z[np.isfinite(z)]
    # By rank and not by value: a loss surface is a flat valley between walls a thousand times as
    # high.
    levels = (
        np.unique(np.quantile(finite, np.linspace(0, 1, _LEVELS + 1))) if finite.size else finite
    )
    if levels.size < 2 or min(z.shape) < 2:
        return None
    plot = _figure(360, say("first direction"), tags=["landscape"])
    plot.yaxis.axis_label = say("second direction")
    plot.contour(x, y, z, levels, fill_color=viridis(levels.size - 1), line_color=None)
    if landscape.path is not None:
        columns = {"x": landscape.path.x, "y": landscape.path.y, "loss": landscape.path.z}
        path = ColumnDataSource({**columns, "number": np.array(landscape.intervals)})
        plot.line("x", "y", source=path, color="white", line_width=2)
        points = plot.scatter("x", "y", source=path, size=8, color="#d55e00", line_color="white")
        unit = say(landscape.metadata.unit or "number")
        tooltips = [(unit, "@number{0}"), (say("loss"), "@loss")]
        plot.add_tools(HoverTool(renderers=[points], tooltips=tooltips))
    if landscape.convergence_point is not None:
        end = ColumnDataSource(
            dict(zip(("x", "y", "loss"), np.array([landscape.convergence_point]).T, strict=True))
        )
        star = plot.scatter(
            "x", "y", source=end, marker="star", size=18, color="white", line_color="#222222"
        )
        plot.add_tools(
            HoverTool(renderers=[star], tooltips=[(say("end of training, loss"), "@loss")])
        )
    return plot


def parameter_figure(table: ParameterTable, say: Callable[..., str]) -> Any:
    """Draw gradients as a heat map: a row per parameter, a column per recorded step.

    The colour is the logarithm of the gradient's root mean square; a sign marks values
    without a logarithm. A tooltip shows parameter and value.
    """
    names, numbers = grouped(table.parameters, table.gradient_logarithms().T, _MAX_PARAMETERS)
    low, high = shaded_range(numbers)
    rows, columns = numbers.shape
    plot = _figure(70 + 14 * rows, say("step"), y_range=(rows - 0.5, -0.5), tags=["parameters"])
    colours = [
        f"#{red:02x}{green:02x}{blue:02x}"
        for red, green, blue in colours_of(numbers, low, high).reshape(-1, 3)
    ]
    y, x = np.indices(numbers.shape)
    data = {
        "x": x.ravel(),
        "y": y.ravel(),
        "colour": colours,
        "name": np.repeat(np.array(names, object), columns),
        "step": np.tile(table.steps, rows).astype(np.float64),
        "number": [f"{number:.2f}" for number in numbers.ravel()],
        "sign": [_sign(number) for number in numbers.ravel().tolist()],
    }
    source = ColumnDataSource(data)
    cells = plot.rect("x", "y", 1, 1, source=source, fill_color="colour", line_color=None)
    plot.text(
        "x",
        "y",
        "sign",
        source=source,
        text_color="white",
        text_align="center",
        text_baseline="middle",
        text_font_size="11px",
        text_font_style="bold",
    )
    tooltips = [(say("parameter"), "@name"), (say("step"), "@step{0}"), ("log10", "@number")]
    plot.add_tools(HoverTool(renderers=[cells], tooltips=tooltips))
    plot.yaxis.ticker = [*range(rows)]
    plot.yaxis.major_label_overrides = dict(
        enumerate(name if len(name) <= 40 else f"…{name[-39:]}" for name in names)
    )
    plot.xaxis.ticker = [*range(0, columns, -(-columns // 8))]
    plot.xaxis.major_label_overrides = dict(enumerate(map(str, table.steps.tolist())))
    return plot


def _sign(number: float) -> str:
    """Return the sign that a heat map shows in a cell without a logarithm."""
    if np.isposinf(number):
        return "\u00d7"
    return "0" if np.isneginf(number) else ""


def _figure(height: int, x_label: str, **options: Any) -> Any:
    plot = figure(
        height=height,
        sizing_mode="stretch_width",
        tools="xpan,xbox_zoom,reset",
        toolbar_location=None,
        **options,
    )
    plot.background_fill_color = plot.border_fill_color = plot.outline_line_color = None
    plot.min_border_right = 12
    plot.xaxis.axis_label = x_label
    plot.axis.axis_label_text_color = plot.axis.major_label_text_color = _TEXT
    plot.axis.axis_label_text_font_style = "normal"
    plot.axis.axis_line_color = plot.axis.major_tick_line_color = (
        plot.axis.minor_tick_line_color
    ) = _LINE
    plot.grid.grid_line_color = _GRID
    return plot
