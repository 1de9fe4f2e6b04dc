"""Columns of the parameter statistics, a table with a row per parameter.

The module converts the table to the tensor that stores it, and finds the parameter that became NaN
or infinite first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

STATISTICS_TAG = "parameter_statistics"
PICTURE_TAG = f"{STATISTICS_TAG}/gradient_rms"
LARGEST_TAG = f"{STATISTICS_TAG}/largest_gradient_rms"
NON_FINITE_TAG = f"{STATISTICS_TAG}/non_finite"

COLUMNS = (
    "gradient_rms", "gradient_mean", "gradient_max", "gradient_zeros", "gradient_non_finite",
    "weight_rms", "weight_max", "weight_non_finite", "update_ratio", "elements",
)  # fmt: skip
_LOG_COLUMNS = [
    COLUMNS.index(name) for name in COLUMNS if name.endswith(("_rms", "_mean", "_max", "_ratio"))
]


def origin(
    parameters: Sequence[str], table: NDArray[np.float64]
) -> tuple[str, Literal["gradient", "weight"]] | None:
    """Find the parameter whose gradient or weight became NaN or infinite first.

    Args:
        parameters: names of the parameters, one for each row.
        table: parameter statistics of a step, shape ``(p, c)``, with the columns ``COLUMNS``.

    Returns:
        The name, and ``"gradient"`` or ``"weight"``; ``None`` if all values are finite.

    The weights are those after the step, so a gradient comes first. A backward pass goes from the
    last layer to the first, so the last affected gradient is nearest to the cause. If all gradients
    are affected, they do not show the cause, and the first is returned.
    """
    kinds: tuple[Literal["gradient", "weight"], ...] = ("gradient", "weight")
    for kind in kinds:
        counts = table[:, COLUMNS.index(f"{kind}_non_finite")]
        affected = np.flatnonzero(counts > 0)
        if affected.size:
            is_partial = kind == "gradient" and affected.size < np.count_nonzero(~np.isnan(counts))
            return parameters[int(affected[-1 if is_partial else 0])], kind
    return None


def to_stored(table: NDArray[np.float64]) -> NDArray[np.float32]:
    """Convert parameter statistics, shape ``(p, c)``, to the tensor that is recorded.

    Magnitudes become log10, and 0 becomes minus infinity.

    MindInsight shows five decimals, in which most gradients would be 0.00000.
    """
    with np.errstate(divide="ignore", over="ignore"):  # magnitudes of float64, which are replaced
        stored = table.astype(np.float32)
        stored[:, _LOG_COLUMNS] = np.log10(table[:, _LOG_COLUMNS])
    return stored


def from_stored(stored: NDArray[np.float64]) -> NDArray[np.float64]:
    """Convert the recorded tensor back to parameter statistics."""
    table = stored.astype(np.float64)
    table[:, _LOG_COLUMNS] = 10.0 ** table[:, _LOG_COLUMNS]
    return table
