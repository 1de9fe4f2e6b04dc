"""The columns of a table of parameters, and how its tensor holds them.

The module also finds the row that went wrong first.
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
    """Name and kind of the first failure in a step's table of shape ``(p, c)``.

    The result is ``None`` without a failure.

    Weights are as the step left them, so a gradient comes first. A backward pass goes from the last
    layer to the first, so of some gradients the last one is nearest to the cause; if all are
    affected, nothing can be told from them and the first is named.
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
    """A table of shape ``(p, c)`` as its tensor holds it.

    Magnitudes are log10, 0 is minus infinity.

    MindInsight shows five decimals, in which most gradients would be 0.00000.
    """
    with np.errstate(divide="ignore", over="ignore"):  # magnitudes of float64, which are replaced
        stored = table.astype(np.float32)
        stored[:, _LOG_COLUMNS] = np.log10(table[:, _LOG_COLUMNS])
    return stored


def from_stored(stored: NDArray[np.float64]) -> NDArray[np.float64]:
    """The table that a tensor holds."""
    table = stored.astype(np.float64)
    table[:, _LOG_COLUMNS] = 10.0 ** table[:, _LOG_COLUMNS]
    return table
