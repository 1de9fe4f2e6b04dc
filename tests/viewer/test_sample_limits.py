from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindsummary_lightning.viewer.sample_limits import spread


@given(st.integers(1, 3000), st.integers(2, 100))
def test_a_spread_holds_the_first_and_the_newest_and_at_least_half_of_what_it_may(count: int, most: int) -> None:
    chosen = spread(most)(np.arange(count))

    assert (chosen[0], chosen[-1]) == (0, count - 1)
    assert min(count, most // 2) <= chosen.size <= most


@pytest.mark.parametrize("count", [50, 51, 100, 101, 1000])
def test_a_sample_stays_in_a_spread_until_the_run_is_twice_as_long(count: int) -> None:
    before, after = spread(50)(np.arange(count)), spread(50)(np.arange(count + 1))

    assert set(before[:-1].tolist()) <= set(after.tolist()) or set(after[:-1].tolist()) <= set(before.tolist())
