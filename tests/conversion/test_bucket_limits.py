from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindsummary_lightning.conversion.bucket_limits import histogram_of_buckets, limits_of_buckets
from mindsummary_lightning.values import Histogram
from mindsummary_lightning.values.limits import MAX_BUCKETS


@pytest.mark.slow
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=300), st.floats(0.001, 10))
def test_no_element_is_lost_and_no_bucket_is_empty_of_width(
    counts: list[int], width: float
) -> None:
    edges = np.arange(len(counts) + 1) * width

    found = histogram_of_buckets(edges, np.array(counts), 0.0, float(edges[-1]))

    assert found.counts.sum() == sum(counts)
    assert found.counts.size <= MAX_BUCKETS
    assert (found.widths > 0).all()
    assert (found.counts >= 0).all()


def test_few_buckets_stay_as_they_are() -> None:
    found = histogram_of_buckets(np.array([0.0, 1.0, 3.0]), np.array([2, 4]), 0.0, 3.0)

    assert (found.lefts.tolist(), found.widths.tolist(), found.counts.tolist()) == (
        [0.0, 1.0],
        [1.0, 2.0],
        [2, 4],
    )


def test_outer_edges_are_drawn_in_to_the_data() -> None:
    found = histogram_of_buckets(np.array([-1e308, 1.0, 1e308]), np.array([2, 4]), 0.5, 2.0)

    assert (found.lefts.tolist(), found.widths.tolist()) == ([0.5, 1.0], [0.5, 1.0])


def test_constant_data_gets_one_bucket_of_width_one() -> None:
    found = histogram_of_buckets(np.array([2.0, 2.0]), np.array([7]), 2.0, 2.0)

    assert (found.lefts.tolist(), found.widths.tolist(), found.counts.tolist()) == (
        [1.5],
        [1.0],
        [7],
    )


@pytest.mark.parametrize(
    ("low", "high"), [(1e20, 1e20), (-(2.0**52) - 2, -(2.0**52) - 2), (1.0, np.nextafter(1.0, 2.0))]
)
def test_buckets_of_large_or_neighbouring_numbers_have_a_width(low: float, high: float) -> None:
    found = histogram_of_buckets(np.array([low, low, high, high]), np.array([3, 2, 4]), low, high)

    assert (found.widths > 0).all()
    assert found.counts.sum() == 9


def test_limits_say_where_the_first_bucket_begins() -> None:
    limits, buckets = limits_of_buckets(
        Histogram(np.array([0.0, 2.0]), np.array([2.0, 3.0]), np.array([3, 5]), 8)
    )

    assert (limits.tolist(), buckets.tolist()) == ([0.0, 2.0, 5.0], [0.0, 3.0, 5.0])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("left", "width"), [(-np.inf, np.inf), (1e308, 1e308)])
def test_a_bucket_without_a_right_edge_keeps_its_elements_without_a_word(
    left: float, width: float
) -> None:
    _, buckets = limits_of_buckets(Histogram(np.array([left]), np.array([width]), np.array([4]), 4))

    assert buckets.tolist() == [0.0, 4.0]
