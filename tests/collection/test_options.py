"""Arguments of statistics, as the collector checks them."""

from __future__ import annotations

from typing import Any

import pytest

from mindsummary_lightning.collection.options import (
    OutputStatisticsOptions,
    checked_parameter_statistics,
    output_statistics_options,
)
from mindsummary_lightning.collection.parameter_selection import EVERY


@pytest.mark.parametrize(
    ("steps", "modules", "expected"),
    [
        (None, None, None),
        (False, None, None),
        (True, None, OutputStatisticsOptions()),
        ((1, 3), None, OutputStatisticsOptions(frozenset((1, 3)))),
        (range(1, 3), "fc", OutputStatisticsOptions(frozenset((1, 2)), "fc")),
        (None, "fc", OutputStatisticsOptions(modules="fc")),
    ],
)
def test_steps_and_modules_are_chosen_apart(
    steps: Any, modules: str | None, expected: OutputStatisticsOptions | None
) -> None:
    assert output_statistics_options(steps, modules, False, 10) == expected


@pytest.mark.parametrize(
    ("steps", "whole"), [(None, {1}), (True, {1}), ((2, 5), {2, 5})], ids=["none", "all", "some"]
)
def test_whole_tensors_are_of_the_named_steps_or_of_the_first(steps: Any, whole: set[int]) -> None:
    options = output_statistics_options(steps, None, True, 10)

    assert options is not None
    assert (options.whole_steps, options.max_bytes) == (whole, 10)


@pytest.mark.parametrize(
    ("statistics", "expression"), [(None, EVERY), (True, EVERY), ("conv", "conv")]
)
def test_updates_imply_the_statistics_of_every_parameter(
    statistics: bool | str | None, expression: str
) -> None:
    options = checked_parameter_statistics(statistics, True)

    assert (options.expression, options.has_updates) == (expression, True)
