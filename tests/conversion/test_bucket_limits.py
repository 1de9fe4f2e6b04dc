from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindsummary_lightning.conversion.bucket_limits import (
    histogram_of_buckets,
    histogram_of_limits,
    histogram_of_rows,
    limits_of_buckets,
)
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


def _shown(histogram: Histogram) -> tuple[object, ...]:
    """The buckets of a histogram, its counts of elements, and its extremes and sum."""
    buckets = zip(
        histogram.lefts.tolist(),
        histogram.widths.tolist(),
        histogram.counts.tolist(),
        strict=True,
    )
    counts = (
        histogram.count,
        histogram.nan_count,
        histogram.pos_inf_count,
        histogram.neg_inf_count,
    )
    return [*buckets], counts, (histogram.min, histogram.max, histogram.sum)


def _of_limits(
    limits: list[float],
    buckets: list[float],
    low: float,
    high: float,
    number: float,
    total: float = 5.5,
) -> tuple[object, ...]:
    arrays = np.array(limits, np.float64), np.array(buckets, np.float64)
    return _shown(histogram_of_limits(*arrays, low, high, number, total))


def test_a_first_bucket_of_limits_begins_at_the_smallest_element() -> None:
    found = _of_limits([1.0, 2.0, 4.0], [3, 0, 5], 0.25, 3.5, 8)

    assert found == (
        [(0.25, 0.75, 3), (1.0, 1.0, 0), (2.0, 1.5, 5)],
        (8, 0, 0, 0),
        (0.25, 3.5, 5.5),
    )


@pytest.mark.parametrize("low", [1.0, 1.5, -np.inf, np.nan])
def test_a_first_bucket_without_a_smallest_element_is_as_wide_as_the_next(low: float) -> None:
    found = _of_limits([1.0, 4.0], [3, 5], low, 3.5, 8)

    smallest = low if low in (1.0, 1.5) else -2.0
    assert found[1:] == ((8, 0, 0, 0), (smallest, 3.5, 5.5))
    if smallest == -2.0:
        assert found[0] == [(-2.0, 3.0, 3), (1.0, 2.5, 5)]


def test_a_single_bucket_without_a_smallest_element_is_one_wide() -> None:
    assert _of_limits([1.0], [3], np.nan, np.nan, 3, np.nan) == (
        [(0.0, 1.0, 3)],
        (3, 0, 0, 0),
        (0.0, 1.0, None),
    )


def test_an_empty_first_bucket_marks_where_the_next_begins() -> None:
    assert _of_limits([-1.0, 1.0, 3.0], [0, 2, 1], -0.5, 2.0, 3) == (
        [(-0.5, 1.5, 2), (1.0, 1.0, 1)],
        (3, 0, 0, 0),
        (-0.5, 2.0, 5.5),
    )


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        (0.0, 9.0, ([(0.0, 1.0, 3), (1.0, 1.0, 5), (2.0, 7.0, 4)], (12, 0, 0, 0))),
        (-9.0, 2.0, ([(-9.0, 10.0, 7), (1.0, 1.0, 5)], (12, 0, 0, 0))),
        (0.0, np.inf, ([(0.0, 1.0, 3), (1.0, 1.0, 5)], (12, 0, 4, 0))),
        (-np.inf, 2.0, ([(0.0, 1.0, 3), (1.0, 1.0, 5)], (12, 0, 0, 4))),
        (-np.inf, np.inf, ([(0.0, 1.0, 3), (1.0, 1.0, 5)], (12, 4, 0, 0))),
        (np.nan, 2.0, ([(0.0, 1.0, 3), (1.0, 1.0, 5)], (12, 4, 0, 0))),
    ],
)
def test_elements_that_are_in_no_bucket_are_where_the_extremes_say(
    low: float, high: float, found: tuple[object, ...]
) -> None:
    assert _of_limits([1.0, 2.0], [3, 5], low, high, 12)[:2] == found


@pytest.mark.parametrize(("low", "high"), [(1.0, 2.0), (1.25, 1.75)])
def test_missing_elements_are_nan_where_the_extremes_are_in_buckets(
    low: float, high: float
) -> None:
    assert _of_limits([1.0, 2.0], [0, 5], low, high, 9) == (
        [(low, high - low, 5)],
        (9, 4, 0, 0),
        (low, high, 5.5),
    )


def test_elements_of_empty_buckets_lie_between_the_extremes() -> None:
    assert _of_limits([1.0, 2.0], [0, 0], 0.5, 1.5, 7) == (
        [(0.5, 1.0, 7)],
        (7, 0, 0, 0),
        (0.5, 1.5, 5.5),
    )
    assert _of_limits([1.0, 2.0], [0, 0], np.nan, 1.5, 7) == ([], (7, 7, 0, 0), (None,) * 3)
    assert _of_limits([], [], 0.0, 0.0, 0) == ([], (0, 0, 0, 0), (None,) * 3)


@pytest.mark.parametrize("number", [0, 7, -1, np.nan, 2.0**53, np.inf])
def test_a_number_of_elements_below_the_buckets_or_beyond_counting_adds_none(number: float) -> None:
    assert _of_limits([1.0, 2.0], [3, 5], 0.0, 2.0, number)[1] == (8, 0, 0, 0)


def test_extremes_that_contradict_the_buckets_are_those_of_the_buckets() -> None:
    assert _of_limits([1.0, 2.0, 3.0], [0, 4, 0], 2.5, 0.5, 4)[2] == (1.0, 2.0, 5.5)
    assert _of_limits([1.0, 2.0, 3.0], [0, 4, 0], 1.75, 1.25, 4)[2] == (1.75, 2.0, 5.5)
    for low, high in ((1.25, 1.75), (1.0, 2.0), (1.0, 1.0), (2.0, 2.0), (0.0, 3.0)):
        assert _of_limits([1.0, 2.0, 3.0], [0, 4, 0], low, high, 4)[2] == (low, high, 5.5)


@pytest.mark.parametrize(
    ("limits", "buckets", "message"),
    [
        ([1.0, 2.0], [1], "as many bucket limits as buckets, got 2 limits and 1 buckets"),
        ([2.0, 1.0], [1, 1], "the bucket limits of a histogram must ascend"),
        ([1.0, np.nan], [1, 1], "the bucket limits of a histogram must ascend"),
        ([1.0, 2.0], [1, -1], "must be whole numbers from 0 to"),
        ([1.0, 2.0], [1, 0.5], "must be whole numbers from 0 to"),
        ([1.0, 2.0], [1, np.nan], "must be whole numbers from 0 to"),
        ([1.0, 2.0], [1, 2.0**53 + 2], "must be whole numbers from 0 to"),
    ],
)
def test_limits_and_counts_that_are_none_are_refused(
    limits: list[float], buckets: list[float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        _of_limits(limits, buckets, 0.0, 2.0, 2)


def test_as_many_elements_as_a_float64_counts_are_taken() -> None:
    assert _of_limits([1.0, 2.0], [1, 2.0**53 - 1], 0.0, 2.0, 0)[1] == (2**53, 0, 0, 0)


def test_rows_of_left_right_and_count_are_buckets_and_those_without_edges_are_nan() -> None:
    rows = [[np.nan, np.nan, 4.0], [0.0, 1.0, 3.0], [1.0, 4.0, 5.0], [4.0, np.nan, 2.0]]

    assert _shown(histogram_of_rows(np.array(rows))) == (
        [(0.0, 1.0, 3), (1.0, 3.0, 5)],
        (14, 6, 0, 0),
        (0.0, 4.0, None),
    )


@pytest.mark.parametrize(
    ("left", "is_near"),
    [(1.0, True), (1.000001, True), (1.000005, False), (1.1, False), (0.9, False)],
)
def test_rows_must_be_neighbours_up_to_rounding(left: float, is_near: bool) -> None:
    rows = np.array([[-9.0, 0.0, 2.0], [0.0, 1.0, 3.0], [left, 3.0, 5.0], [3.0, 7.0, 1.0]])

    if is_near:
        assert histogram_of_rows(rows).counts.tolist() == [2, 3, 5, 1]
    else:
        with pytest.raises(ValueError, match="must begin where the previous bucket ends"):
            histogram_of_rows(rows)


def test_rows_that_begin_and_end_at_infinity_are_clipped() -> None:
    half = float(np.finfo(np.float64).max) / 2
    rows = np.array([[-np.inf, 0.0, 1.0], [0.0, 1.0, 2.0], [1.0, np.inf, 3.0]])

    assert _shown(histogram_of_rows(rows))[1:] == ((6, 0, 0, 0), (-half, half, None))


def test_what_is_not_finite_is_counted_beside_the_buckets() -> None:
    found = histogram_of_buckets(
        np.array([0.0, 1.0, 3.0]), np.array([2, 4]), 0.5, 3.0, (1, 2, 3), 7.5
    )

    assert _shown(found) == (
        [(0.5, 0.5, 2), (1.0, 2.0, 4)],
        (12, 1, 2, 3),
        (0.5, 3.0, 7.5),
    )


def test_constant_data_in_mindspores_buckets_keep_them() -> None:
    found = histogram_of_buckets(np.array([1.5, 2.0, 2.5]), np.array([0, 7]), 2.0, 2.0)

    assert _shown(found)[0] == [(1.5, 0.5, 0), (2.0, 0.5, 7)]


@pytest.mark.parametrize(
    ("edges", "buckets"),
    [
        ([1.0, 2.0, 3.0], [(1.0, 1.0, 7), (2.0, 1.0, 0)]),
        ([1.0, 2.0, 3.1], [(1.5, 1.0, 7)]),
        ([-9.0, 2.0, 2.5], [(1.5, 1.0, 7)]),
    ],
)
def test_buckets_of_constant_data_that_reach_further_become_one(
    edges: list[float], buckets: list[object]
) -> None:
    found = histogram_of_buckets(np.array(edges), np.array([7, 0]), 2.0, 2.0)

    assert _shown(found)[0] == buckets


def test_empty_buckets_without_width_are_left_out_and_full_ones_are_spread() -> None:
    edges, counts = np.array([0.0, 0.0, 1.0, 2.0, 2.0]), np.array([0, 3, 5, 0])
    assert _shown(histogram_of_buckets(edges, counts, 0.0, 2.0))[0] == [
        (0.0, 1.0, 3),
        (1.0, 1.0, 5),
    ]

    found = histogram_of_buckets(np.array([0.0, 1.0, 1.0, 2.0]), np.array([3, 6, 1]), 0.0, 2.0)
    assert (found.widths > 0).all()
    assert found.counts.sum() == 10


@pytest.mark.parametrize(("number", "kept"), [(89, 89), (90, 90), (91, 90), (180, 90)])
def test_more_than_ninety_buckets_are_merged_evenly(number: int, kept: int) -> None:
    counts = np.arange(1, number + 1)
    found = histogram_of_buckets(np.arange(number + 1.0), counts, 0.0, float(number), total=1.5)

    assert (found.counts.size, found.count, found.sum) == (kept, counts.sum(), 1.5)
    if number == kept:
        assert found.counts.tolist() == counts.tolist()
    if number == 180:
        assert found.counts.tolist() == (counts[::2] + counts[1::2]).tolist()
        assert found.lefts.tolist() == pytest.approx(np.arange(0, 180, 2.0))
