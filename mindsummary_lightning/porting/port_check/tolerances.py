"""Defines the tolerances of the port check, for every precision.

A module is judged on the original's own inputs, so rounding of earlier modules does not
count, and depth does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Rounding of sums over a batch and of long products of derivatives. Measured in float32 on correct
# ports: outputs at most 9e-6 (a LayerNorm with a small epsilon), gradients 5e-7, gradients of
# weights 4e-5 (GhostNet).
GRADIENT_FACTOR = 10.0
# An update divides by the root of a second moment, and the weight that it is added to is rounded.
# Relative to the update; ten times the factor of gradients, not measured by itself.
UPDATE_FACTOR = 100.0
# Roundings of one weight in an update, in units in the last place of the weight.
UPDATE_ROUNDINGS = 4.0
# A gradient below this fraction of the greatest gradient is compared on that scale: the gradient of
# a bias before a normalization is zero but for rounding. A difference of 1e-3 * 1e-4 of the
# greatest gradient still counts.
GRADIENT_FLOOR = 1e-3
# The reference may be this many times as far from a module's float64 run as the port's own run is.
ROUNDING_FACTOR = 4.0
# Roundings, in units in the last place of one term, of a sum divided by the root of the number of
# its terms: for sums that cancel, as the gradient of a normalization's weight. Measured on the test
# networks: above 4, in a channel whose gradients are greater than those of the others.
SUM_ROUNDINGS = 16.0
# A greater distance of a module from its own run in float64 is no rounding, but overflow or another
# function.
MOST_ROUNDING = 0.1
# Values that hide an element from a softmax, and the greatest value that is certainly no such
# value.
HIDDEN_BELOW, NOT_HIDDEN_ABOVE = -9e3, 9e2


@dataclass(frozen=True, slots=True)
class PrecisionTolerance:
    """Distances up to which tensors agree, for a precision.

    Attributes:
        precision: name of the precision.
        value: greatest relative distance of outputs, inputs and losses.
        unit: relative distance of two neighbouring numbers of this precision.
        source: where ``value`` comes from.
    """

    precision: str
    value: float
    unit: float
    source: str

    @property
    def gradient(self) -> float:
        """Return the relative distance up to which gradients agree."""
        return min(0.5, GRADIENT_FACTOR * self.value)

    @property
    def update(self) -> float:
        """Return the relative distance up to which updates agree."""
        return min(0.5, UPDATE_FACTOR * self.value)


_MEASURED = "benchmarks/port_check_rounding.py"

TOLERANCES = {
    "float64": PrecisionTolerance(
        "float64", 1e-11, 2.0**-52, f"outputs at most 5e-16, gradients 1e-13: {_MEASURED}"
    ),
    "float32": PrecisionTolerance(
        "float32",
        1e-5,
        2.0**-23,
        "at most 6e-7 in six networks and 9e-6 in eight pairs of packages",
    ),
    "tensorfloat32": PrecisionTolerance(
        "tensorfloat32",
        3e-3,
        2.0**-10,
        "not measured; three units, as its products are rounded like float16",
    ),
    "float16": PrecisionTolerance(
        "float16",
        5e-3,
        2.0**-10,
        f"outputs at most 5e-4, gradients 3e-3, autocast against float32: {_MEASURED}",
    ),
    "bfloat16": PrecisionTolerance(
        "bfloat16",
        2e-2,
        2.0**-7,
        f"outputs at most 4e-3, gradients 2e-2, autocast against float32: {_MEASURED}",
    ),
}
_COARSEST_FIRST = ("bfloat16", "float16", "tensorfloat32", "float32", "float64")


def coarsest(precisions: set[str]) -> str:
    """Return the coarsest precision; ``float32`` if none is given."""
    return next((name for name in _COARSEST_FIRST if name in precisions), "float32")


def tolerance_of(dtypes: set[str], least: str = "float64") -> PrecisionTolerance:
    """Return the tolerance for the coarsest of the given dtypes.

    ``least`` is the finest precision of the runs.
    """
    floats = {dtype for dtype in dtypes if dtype in TOLERANCES}
    name = coarsest({*floats, least}) if floats else coarsest({least} - {"float64"})
    return TOLERANCES[name]


def unit_of(dtype: str) -> float:
    """Return the relative distance between neighbouring numbers of a dtype."""
    return TOLERANCES[dtype].unit if dtype in TOLERANCES else float(np.finfo(np.float32).eps)
