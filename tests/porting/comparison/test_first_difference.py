"""When a difference can be rounding that grew, and when it cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning import compare_runs
from tests.porting.comparison.test_verdict import write_run

Change = Callable[[int, str, np.ndarray], np.ndarray]


def _scaled(before: float, after: float, begin: int = 6) -> Change:
    return lambda step, name, tensor: tensor * (1 + (after if step >= begin else before))


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [(0.0, 1e-4, "different"), (1e-6, 1e-3, "undecided"), (1e-6, 1e-2, "different")],
)
def test_a_jump_beyond_the_growth_of_rounding_is_a_difference(
    before: float, after: float, verdict: str, tmp_path: Path
) -> None:
    a = write_run(tmp_path / "a")
    comparison = compare_runs(a, write_run(tmp_path / "b", _scaled(before, after)))

    assert comparison.verdict == verdict
    assert comparison.shown_difference is not None
    assert comparison.shown_difference.step == 6


@pytest.mark.parametrize(("after", "verdict"), [(1e-4, "undecided"), (1e-2, "different")])
def test_after_a_gap_a_small_difference_is_undecided(
    after: float, verdict: str, tmp_path: Path
) -> None:
    steps = range(1, 12, 5)
    a = write_run(tmp_path / "a", steps=steps)
    comparison = compare_runs(a, write_run(tmp_path / "b", _scaled(0.0, after), steps=steps))

    assert comparison.verdict == verdict
    assert "(steps 2 to 5 were not recorded by both runs)" in comparison.sentence


def test_a_difference_at_the_first_recorded_step_decides(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a")
    comparison = compare_runs(a, write_run(tmp_path / "b", _scaled(1e-5, 1e-5)))

    assert comparison.verdict == "different"
    assert comparison.sentence.startswith("from step 1, the first common step, ")
