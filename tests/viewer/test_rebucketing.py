from __future__ import annotations

import pytest

from mindsummary_lightning.viewer.rebucketing import StepHistogram, bin_count, rebucketed


def test_the_number_of_bins_follows_the_number_of_values() -> None:
    assert [bin_count(count) for count in (0, 1, 5, 6, 10, 11, 20, 280, 281, 10**9)] == [
        1,
        2,
        2,
        3,
        3,
        3,
        3,
        29,
        30,
        30,
    ]


def test_counts_are_rounded_up_even_where_a_bucket_reaches_over_by_a_rounding_error() -> None:
    constant = StepHistogram([(2.3333333, 0.3333334, 20)], 2.5, 2.5, 20)

    (bins,) = rebucketed([constant])

    assert [count for _, _, count in bins] == [1, 20, 1]
    assert bins[0][:2] == (2.0, 1 / 3)


def test_an_empty_histogram_does_not_widen_the_range() -> None:
    filled, empty = StepHistogram([(0.0, 1.0, 4)], 0.0, 1.0, 4), StepHistogram([], -100.0, 100.0, 0)

    assert rebucketed([filled, empty]) == [
        [(0.0, 0.5, 2), (0.5, 0.5, 2)],
        [(0.0, 0.5, 0), (0.5, 0.5, 0)],
    ]


def test_histograms_without_any_value_have_one_empty_bin() -> None:
    assert rebucketed([StepHistogram([], 0.0, 0.0, 0)]) == [[(-0.5, 1.0, 0)]]


def test_a_bucket_without_width_counts_fully() -> None:
    (bins,) = rebucketed([StepHistogram([(0.0, 1.0, 3), (1.5, 0.0, 2)], 0.0, 2.0, 5)])

    assert bins == [(0.0, 1.0, 3), (1.0, 1.0, 2)]


def test_counts_are_shared_by_overlap_over_the_range_of_all_histograms() -> None:
    low = StepHistogram([(0.0, 1.0, 4), (1.0, 2.5, 5)], 0.0, 3.5, 9)
    high = StepHistogram([(5.0, 1.0, 3)], 5.0, 6.0, 3)

    assert rebucketed([high, low]) == [
        [(0.0, 2.0, 0), (2.0, 2.0, 0), (4.0, 2.0, 3)],
        [(0.0, 2.0, 6), (2.0, 2.0, 3), (4.0, 2.0, 0)],
    ]
    assert [count for _, _, count in rebucketed([low])[0]] == [5, 3, 3]


@pytest.mark.parametrize(
    "histogram",
    [
        StepHistogram([(0.0, 1.0, 3)], 1.0, -1.0, 3),
        StepHistogram([(0.0, -1.0, 3)], 0.0, 1.0, 3),
        StepHistogram([(0.0, 1.0, 3), (1.0, -0.5, 2)], 0.0, 1.0, 5),
        StepHistogram([(0.0, 1.0, 3)], -1.7e308, 1.7e308, 3),
    ],
)
def test_what_cannot_be_drawn_is_refused(histogram: StepHistogram) -> None:
    with pytest.raises(ValueError, match="Invalid input"):
        rebucketed([histogram])
