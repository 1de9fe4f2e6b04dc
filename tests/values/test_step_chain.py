"""The rows, columns and sampled places of output statistics."""

from __future__ import annotations

import pytest

from mindsummary_lightning.values.step_chain import COLUMNS, OutputRow, sample_places


def test_the_columns_are_eight_numbers_and_sixteen_samples() -> None:
    assert (
        *("order", "elements", "rms", "mean", "minimum", "maximum", "zeros", "non_finite"),
        *(f"sample_{number}" for number in range(16)),
    ) == COLUMNS


@pytest.mark.parametrize(
    ("elements", "places"),
    [
        (1, [0] * 16),
        (3, [0, 1, 0, 2, 1, 0, 2, 0, 2, 1, 0, 2, 1, 0, 1, 0]),
        (100, [0, 61, 23, 85, 47, 9, 70, 32, 94, 56, 18, 79, 41, 3, 65, 27]),
    ],
)
def test_places_are_spread_by_the_golden_ratio(elements: int, places: list[int]) -> None:
    assert sample_places(elements).tolist() == places


def test_a_row_is_identified_by_what_does_not_change_in_a_run() -> None:
    row = OutputRow("forward", "a", "Linear", 2, "output", "0", "int8", (3,), "net.py:1")

    assert row.key == ("forward", "a", 2, "output", "0")
    assert OutputRow("loss", "").key == ("loss", "", 0, "", "")
