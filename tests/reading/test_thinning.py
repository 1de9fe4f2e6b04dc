from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mindsummary_lightning.reading.thinning import thinned


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
    assert thinned(np.zeros(5000, np.float32), 5000).size == 5000
