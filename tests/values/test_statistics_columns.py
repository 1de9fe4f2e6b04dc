"""Parameter statistics: their stored form, and where a training broke."""

from __future__ import annotations

import numpy as np
import pytest

from mindsummary_lightning.values.statistics_columns import COLUMNS, from_stored, origin, to_stored

_NAMES = ["a", "b", "c", "d"]


def _table(gradients: list[float], weights: list[float]) -> np.ndarray:
    table = np.zeros((4, len(COLUMNS)))
    table[:, COLUMNS.index("gradient_non_finite")] = gradients
    table[:, COLUMNS.index("weight_non_finite")] = weights
    return table


@pytest.mark.parametrize(
    ("gradients", "weights", "found"),
    [
        ([0, 0, 0, 0], [0, 0, 0, 0], None),
        ([0, 2, 1, 0], [0, 0, 0, 0], ("c", "gradient")),
        ([0, 2, 1, 0], [5, 0, 0, 0], ("c", "gradient")),
        ([1, 1, 1, 1], [0, 0, 0, 0], ("a", "gradient")),
        ([np.nan, 1, 1, np.nan], [0, 0, 0, 0], ("b", "gradient")),
        ([np.nan, 1, 1, 0], [0, 0, 0, 0], ("c", "gradient")),
        ([0, 0, 0, 0], [0, 3, 0, 1], ("b", "weight")),
        ([np.nan] * 4, [1, 3, 1, 1], ("a", "weight")),
    ],
)
def test_the_parameter_nearest_to_the_cause_is_found(
    gradients: list[float], weights: list[float], found: object
) -> None:
    assert origin(_NAMES, _table(gradients, weights)) == found


@pytest.mark.filterwarnings("error")
def test_magnitudes_are_stored_as_logarithms_and_all_else_as_it_is() -> None:
    logarithms = {"gradient_rms", "gradient_mean", "gradient_max", "weight_rms", "weight_max",
                  "update_ratio"}  # fmt: skip
    table = np.array([[10.0 ** (place - 3) for place in range(len(COLUMNS))], [0.0] * len(COLUMNS)])

    stored = to_stored(table)

    assert stored.dtype == np.float32
    for place, name in enumerate(COLUMNS):
        is_logarithm = name in logarithms
        expected = [place - 3, -np.inf] if is_logarithm else [10.0 ** (place - 3), 0.0]
        np.testing.assert_allclose(stored[:, place], expected, rtol=1e-6)
    np.testing.assert_allclose(from_stored(stored.astype(np.float64)), table, rtol=1e-6)
    assert table[0, 0] == 1e-3  # what was converted is as before
    assert stored[0, COLUMNS.index("gradient_rms")] == -3
