"""Figures of landscapes: contours, the path of training and its end. Needs matplotlib (the ``plot`` extra)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mindsummary_lightning.errors import missing_packages
from mindsummary_lightning.reading.series import RecordedLandscape
from mindsummary_lightning.values import LossLandscape

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES = 5.0
_LEVELS = 24
_DOTS_PER_INCH = 150


def plot_landscapes(landscapes: Mapping[str, LossLandscape | RecordedLandscape], path: str | os.PathLike[str]) -> None:
    """Draw landscapes side by side into one image file.

    Args:
        landscapes: tag -> landscape, as :meth:`SummaryLandscape.generate` returns them; at least one.
        path: file to write; its extension gives the format (``.png``, ``.svg``, ``.pdf``).

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: there is nothing to draw, or the extension is unknown.
    """
    if not landscapes:
        raise ValueError("there is no landscape to draw")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_packages("a figure", "matplotlib") from error
    figure = Figure(figsize=(_INCHES * len(landscapes) + 1, _INCHES), layout="constrained")
    row = figure.subplots(1, len(landscapes), squeeze=False)[0]
    for axes, (tag, landscape) in zip(row, landscapes.items(), strict=True):
        _draw(axes, tag, landscape)
    figure.savefig(os.fspath(path), dpi=_DOTS_PER_INCH)


def _draw(axes: Axes, tag: str, landscape: LossLandscape | RecordedLandscape) -> None:
    surface = landscape.surface
    z = np.asarray(surface.z, np.float64)
    levels = _levels(z)
    filled = axes.contourf(surface.x, surface.y, z, levels, cmap="viridis")
    axes.contour(surface.x, surface.y, z, levels, colors="black", linewidths=0.3, alpha=0.5)
    colors: Any = axes.figure.colorbar(filled, ax=axes, format="%.3g")
    colors.set_label("loss")
    if landscape.path is not None:
        path = landscape.path
        axes.plot(path.x, path.y, color="white", linewidth=1.2, marker="o", markersize=3.5, markeredgecolor="black")
        for end in (0, -1):
            x, y = float(path.x[end]), float(path.y[end])
            is_right = x > (surface.x[0] + surface.x[-1]) / 2  # where the text would leave the figure
            axes.annotate(
                f"{landscape.metadata.unit} {landscape.intervals[end]}", (x, y), color="white", fontsize=8,
                textcoords="offset points", xytext=(-6 if is_right else 6, 6), ha="right" if is_right else "left",
            )  # fmt: skip
    if landscape.convergence_point is not None:
        x, y, loss = landscape.convergence_point
        axes.plot([x], [y], color="red", marker="*", markersize=11, linestyle="none", label=f"end, loss {loss:.4g}")
        axes.legend(loc="lower right", fontsize=8)
    axes.locator_params(nbins=5)
    axes.set_title(tag)
    axes.set_xlabel(f"direction 1 ({landscape.metadata.decomposition})")
    axes.set_ylabel(f"direction 2 ({landscape.metadata.decomposition})")


def _levels(z: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Equally spaced in the logarithm where the loss spans decades, so that the basin shows; strictly ascending."""
    low, high = float(z.min()), float(z.max())
    if low > 0 and high > 10 * low:
        return np.geomspace(low, high, _LEVELS)
    return np.linspace(low, high if high > low else low + 1, _LEVELS)
