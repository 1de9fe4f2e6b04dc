"""What the page's script draws a scalar from: the points of a curve as columns, packed as text."""

from __future__ import annotations

import base64

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.reading.series import ScalarSeries
from mindsummary_lightning.reading.thinning import thinned


def packed_curve(series: ScalarSeries) -> dict[str, tuple[str, str]]:
    """Type (``<i4``, ``<f4`` or ``<f8``) and base64 text of each of the columns."""
    columns = {name: column.astype(column.dtype.newbyteorder("<")) for name, column in curve_columns(series).items()}
    return {name: (column.dtype.str, base64.b64encode(column.tobytes()).decode()) for name, column in columns.items()}


def curve_columns(series: ScalarSeries) -> dict[str, NDArray[np.generic]]:
    """``step`` and ``value`` of the points that are drawn, NaN where one is not finite.

    A value whose neighbours are not finite has no line; it is in ``alone``, too, and is drawn as a point.
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
