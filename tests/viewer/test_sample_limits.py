from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mindsummary_lightning.viewer.sample_limits import spread, thinned


@given(arrays(np.float32, st.integers(0, 400)), st.integers(5, 60))
def test_a_thinned_curve_keeps_its_ends_and_extremes(values: np.ndarray, max_points: int) -> None:
    chosen = thinned(values, max_points)

    assert chosen.size <= max(max_points, 0)
    assert (np.diff(chosen) > 0).all()
    if values.size:
        assert chosen[0] == 0
        assert chosen[-1] == values.size - 1
        assert np.isfinite(values[chosen]).all() == np.isfinite(values).all()
        finite = values[np.isfinite(values)]
        if finite.size:
            kept = values[chosen][np.isfinite(values[chosen])]
            assert (kept.min(), kept.max()) == (finite.min(), finite.max())


def test_a_short_curve_is_kept_as_it_is() -> None:
    assert thinned(np.zeros(5000, np.float32)).size == 5000


@given(st.integers(1, 3000), st.integers(2, 100))
def test_a_spread_holds_the_first_and_the_newest_and_at_least_half_of_what_it_may(count: int, most: int) -> None:
    chosen = spread(most)(np.arange(count))

    assert (chosen[0], chosen[-1]) == (0, count - 1)
    assert min(count, most // 2) <= chosen.size <= most


@pytest.mark.parametrize("count", [50, 51, 100, 101, 1000])
def test_a_sample_stays_in_a_spread_until_the_run_is_twice_as_long(count: int) -> None:
    before, after = spread(50)(np.arange(count)), spread(50)(np.arange(count + 1))

    assert set(before[:-1].tolist()) <= set(after.tolist()) or set(after[:-1].tolist()) <= set(before.tolist())
