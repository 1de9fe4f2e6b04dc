"""Draws loss landscapes: contour lines, the path of training, and its end.

Figures need matplotlib (the ``plot`` extra).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.errors import missing_packages
from mindsummary_lightning.values import LandscapeMetadata, LossLandscape, Points
from mindsummary_lightning.values.summary_values import check_landscape_shapes, surface_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INCHES = 5.0
_LEVELS = 24
_DOTS_PER_INCH = 150


@dataclass(frozen=True, slots=True, eq=False)
class RecordedLandscape:
    """A loss landscape that was read from a run.

    Attributes:
        tag: its tag, ``landscape_[first, last]`` or ``landscape_[last]`` from MindSpore and this
            package.
        step: the step it was recorded at.
        wall_time: seconds since the epoch.
        x: float32, shape ``(n,)``.
        y: float32, shape ``(m,)``.
        z: loss at ``(x[j], y[i])`` in ``z[i, j]``, float32, shape ``(m, n)``.
        intervals: steps or epochs of the path's points; empty for a final landscape.
        path: the path's points, or ``None``.
        convergence_point: ``(x, y, loss)`` at the end of the training, or ``None``.
        metadata: how it was computed.
    """

    tag: str
    step: int
    wall_time: float
    x: NDArray[np.float32]
    y: NDArray[np.float32]
    z: NDArray[np.float32]
    intervals: tuple[int, ...]
    path: Points | None
    convergence_point: tuple[float, float, float] | None
    metadata: LandscapeMetadata

    @property
    def surface(self) -> Points:
        """Return ``x``, ``y`` and ``z`` as one object, as in a computed landscape."""
        return Points(self.x, self.y, self.z)

    def __repr__(self) -> str:
        surface = surface_text(self.surface, self.intervals)
        return f"{type(self).__name__}({self.tag!r}, step {self.step}, {surface})"

    def _repr_png_(self) -> bytes | None:
        return picture_of([self])


def plot_landscapes(
    landscapes: Mapping[str, LossLandscape | RecordedLandscape]
    | Iterable[LossLandscape | RecordedLandscape],
    path: str | os.PathLike[str] | None = None,
    *,
    ax: Axes | Sequence[Axes] | None = None,
    titles: Sequence[str] | None = None,
    size: tuple[float, float] | None = None,
) -> Figure:
    """Draw loss landscapes next to each other in one figure.

    Args:
        landscapes: tag -> landscape, as ``SummaryLandscape.generate`` returns them, or those that a
            ``SummaryReader`` gives; at least one.
        path: file to write too; its extension gives the format (``.svg`` and ``.pdf`` for a paper,
            ``.png``).
        ax: Matplotlib's axes to draw into, one for each landscape, as ``subplots`` gives them;
            ``None`` makes a figure.
        titles: one for each landscape; ``None``: the steps or epochs that it spans.
        size: width and height of the figure that is made, inches.

    Returns:
        The figure, which a notebook shows.

    Raises:
        ImportError: matplotlib is not installed.
        TypeError: something else than landscapes is given.
        ValueError: there is nothing to draw, the extension is unknown, axes or titles are not as
            many as landscapes, or the coordinates of one have other dimensions.
    """
    drawn = _checked_landscapes(landscapes)
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_packages("a figure", "matplotlib") from error
    if ax is None:
        made: Any = Figure(
            figsize=size or (_INCHES * len(drawn) + 1, _INCHES), layout="constrained"
        )
        # without pyplot, a notebook knows no other way to show it
        made._repr_png_ = lambda: _png(made)
        ax = made.subplots(1, len(drawn))
    row: list[Any] = np.ravel(np.asarray(ax, object)).tolist()
    for landscape in drawn:
        check_landscape_shapes(
            landscape.surface, landscape.intervals, landscape.path, landscape.convergence_point
        )
    named = [_title(landscape) for landscape in drawn] if titles is None else [*titles]
    if not len(drawn) == len(row) == len(named):
        raise ValueError(
            f"{len(drawn)} landscapes need as many axes and as many titles, got {len(row)} axes "
            f"and {len(named)} titles"
        )
    for axes, title, landscape in zip(row, named, drawn, strict=True):
        _draw(axes, title, landscape)
    figure: Figure = row[0].figure
    if path is not None:
        figure.savefig(os.fspath(path), dpi=_DOTS_PER_INCH)
    return figure


def _checked_landscapes(landscapes: object) -> list[LossLandscape | RecordedLandscape]:
    """Check the argument ``landscapes``, and return it as a list.

    Raises:
        TypeError: something else than landscapes is given.
        ValueError: there is no landscape.
    """
    given = landscapes.values() if isinstance(landscapes, Mapping) else landscapes
    drawn: list[Any] = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(found, (LossLandscape, RecordedLandscape)) for found in drawn):
        expected = "those of SummaryLandscape.generate() or of SummaryReader.landscapes()"
        raise TypeError(f"landscapes must be {expected}, not {landscapes!r}")
    if not drawn:
        raise ValueError("landscapes must hold at least one landscape, got none")
    return drawn


class Landscapes(dict[str, LossLandscape]):
    """A dict of loss landscapes by tag, which a notebook shows as figures."""

    def _repr_png_(self) -> bytes | None:
        return picture_of(self) if self else None


def picture_of(
    landscapes: Mapping[str, LossLandscape] | Iterable[RecordedLandscape],
) -> bytes | None:
    """Draw landscapes as an image for a notebook; ``None`` without matplotlib."""
    try:
        return _png(plot_landscapes(landscapes))
    except ImportError:
        return None


def _png(figure: Figure) -> bytes:
    file = BytesIO()
    figure.savefig(file, format="png", dpi=_DOTS_PER_INCH / 2)
    return file.getvalue()


def _title(landscape: LossLandscape | RecordedLandscape) -> str:
    if not landscape.intervals:
        return "around the end of training"
    return f"{landscape.metadata.unit}s {landscape.intervals[0]} to {landscape.intervals[-1]}"


def _draw(axes: Axes, title: str, landscape: LossLandscape | RecordedLandscape) -> None:
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import LogLocator, MaxNLocator

    surface = landscape.surface
    z = np.asarray(surface.z, np.float64)
    levels, is_logarithmic = _levels(z)
    norm = LogNorm(levels[0], levels[-1]) if is_logarithmic else None
    filled = axes.contourf(surface.x, surface.y, z, levels, cmap="viridis", norm=norm)
    axes.contour(surface.x, surface.y, z, levels, colors="black", linewidths=0.3, alpha=0.5)
    ticks = LogLocator(subs=(1, 2, 5)) if is_logarithmic else MaxNLocator(6)
    colors: Any = axes.figure.colorbar(filled, ax=axes, ticks=ticks, format="%g")
    colors.ax.minorticks_off()
    colors.set_label("loss")
    _draw_path(axes, landscape)
    _draw_end(axes, landscape)
    axes.locator_params(nbins=5)
    axes.set_title(title)
    axes.set_xlabel(f"direction 1 ({landscape.metadata.decomposition})")
    axes.set_ylabel(f"direction 2 ({landscape.metadata.decomposition})")


def _draw_path(axes: Axes, landscape: LossLandscape | RecordedLandscape) -> None:
    """Draw the path of training, and label its start and end."""
    path = landscape.path
    if path is None:
        return
    axes.plot(
        path.x,
        path.y,
        color="white",
        linewidth=1.2,
        marker="o",
        markersize=3.5,
        markeredgecolor="black",
    )
    middle = (landscape.surface.x[0] + landscape.surface.x[-1]) / 2
    for end in (0, -1):
        x, y = float(path.x[end]), float(path.y[end])
        is_right = x > middle  # on the other side the text would leave the figure
        axes.annotate(
            f"{landscape.metadata.unit} {landscape.intervals[end]}",
            (x, y),
            color="white",
            fontsize=8,
            textcoords="offset points",
            xytext=(-6 if is_right else 6, 6),
            ha="right" if is_right else "left",
        )


def _draw_end(axes: Axes, landscape: LossLandscape | RecordedLandscape) -> None:
    """Mark the end of training, and the middle of the grid if it lies elsewhere."""
    if landscape.convergence_point is None:
        return
    x, y, loss = landscape.convergence_point
    # Of an even grid, MindSpore takes the middle point next to the origin, which is where the
    # training ended.
    is_end = landscape.path is not None or (x == 0 and y == 0)
    name = f"{'end' if is_end else 'grid centre'}, loss {loss:.4g}"
    axes.plot([x], [y], color="red", marker="*", markersize=11, linestyle="none", label=name)
    if not is_end:
        axes.plot([0], [0], color="white", marker="+", markersize=9, linestyle="none", label="end")
    axes.legend(loc="lower right", fontsize=8, facecolor="lightgrey")


def _levels(z: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], bool]:
    """Return ascending levels for contour lines, and whether they are logarithmic.

    They are logarithmic if the loss spans decades, so that the basin shows.
    """
    low, high = float(z.min()), float(z.max())
    if low > 0 and high > 10 * low:
        return np.geomspace(low, high, _LEVELS), True
    return np.linspace(low, high if high > low else low + 1, _LEVELS), False
