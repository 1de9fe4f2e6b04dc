"""``to_histogram``: MindSpore's buckets and the counts of numpy.histogram, for any numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from mindsummary_lightning.conversion.histogram_buckets import bucket_counts, bucket_edges
from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.values import Histogram


def stated_edges(finite: NDArray[Any]) -> NDArray[Any]:
    """The rule in MindSpore's words, with none of this package's code."""
    n = finite.size
    buckets = 2 if n <= 5 else 3 if n <= 10 else n // 10 + 1 if n <= 880 else 90
    low, high = float(finite.min()), float(finite.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, buckets + 1, dtype=finite.dtype)


def assert_is_the_histogram(histogram: Histogram, array: NDArray[Any]) -> None:
    finite = array[np.isfinite(array)]
    edges = stated_edges(finite)
    np.testing.assert_array_equal(histogram.lefts, edges[:-1])
    np.testing.assert_array_equal(histogram.widths, np.diff(edges))
    # NumPy 2.4 missorts float16 denormals
    exact = np.float32 if array.dtype == np.float16 else array.dtype
    counts = np.histogram(finite.astype(exact), bins=edges.astype(exact))[0]
    np.testing.assert_array_equal(histogram.counts, counts)
    assert histogram.count == array.size
    assert histogram.nan_count == np.count_nonzero(np.isnan(array))
    assert histogram.pos_inf_count == np.count_nonzero(array == np.inf)
    assert histogram.neg_inf_count == np.count_nonzero(array == -np.inf)
    assert (histogram.min, histogram.max) == (float(finite.min()), float(finite.max()))
    doubles = finite.astype(np.float64)
    assert histogram.sum == pytest.approx(
        doubles.sum(), rel=1e-12, abs=1e-12 * float(np.abs(doubles).sum())
    )


SPREADS: dict[str, Any] = {
    "normal": lambda noise: noise,
    "uniform": lambda noise: noise % 1,
    "far from zero": lambda noise: noise + 1e5,
    "few digits left": lambda noise: noise + 2.0**23,
    "one outlier": lambda noise: np.append(noise, 1e30),
    "huge": lambda noise: noise / np.abs(noise).max() * 3e38,
    "denormal": lambda noise: noise * 1e-44,
    "tiny": lambda noise: noise * 1e-36,
    "constant": lambda noise: noise * 0 + 0.1,
    "two values": lambda noise: np.sign(noise),
    "whole numbers": lambda noise: np.floor(noise * 30),  # many lie on an edge
    "thousandths": lambda noise: np.round(noise, 3),
}


FINITE: dict[str, Any] = {"allow_nan": False, "allow_infinity": False}


@pytest.mark.parametrize("size", [1, 5, 10, 11, 880, 881, 2048, 2049, 200_000])
@pytest.mark.parametrize("spread", SPREADS)
def test_float32_counts_are_numpys_on_the_same_edges(spread: str, size: int) -> None:
    noise = np.random.default_rng(size).standard_normal(size)
    array = SPREADS[spread](noise).astype(np.float32)

    assert_is_the_histogram(to_histogram(array), array)


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32]
)
@pytest.mark.parametrize("size", [7, 500, 70_000])
def test_counts_of_every_dtype_are_numpys_on_the_same_edges(dtype: type, size: int) -> None:
    array = (np.abs(np.random.default_rng(size).standard_normal(size)) * 25).astype(dtype)

    assert_is_the_histogram(to_histogram(array), array)


def test_edges_are_linspaces_even_if_their_distance_is_below_the_smallest_float() -> None:
    array = np.arange(1000) % 40 * 5e-324

    assert_is_the_histogram(to_histogram(array), array)


@pytest.mark.slow
def test_more_elements_than_are_counted_together_are_all_counted() -> None:
    array = np.random.default_rng(1).standard_normal(2**21 + 70_001, dtype=np.float32)

    assert_is_the_histogram(to_histogram(array), array)


@pytest.mark.parametrize("size", [2000, 50_000])
def test_float16_denormals_are_counted_one_by_one_as_comparing_says(size: int) -> None:
    array = (np.random.default_rng(3).standard_normal(size) * 1e-6).astype(np.float16)
    histogram = to_histogram(array)
    rights = histogram.lefts + histogram.widths
    inside = [
        ((array >= left) & (array < right)).sum()
        for left, right in zip(histogram.lefts, rights, strict=True)
    ]
    inside[-1] += (array == histogram.max).sum()

    assert histogram.counts.tolist() == inside


@pytest.mark.parametrize(
    ("low", "high"), [(-1.7, 3.1), (0, 1), (1000, 1010), (-77777, -77770), (-3e38, 3e38)]
)
def test_elements_exactly_on_and_next_to_every_edge_are_counted_on_the_right_side(
    low: float, high: float
) -> None:
    edges = bucket_edges(low, high, 5000, np.dtype(np.float32))
    beside = np.concatenate(
        [np.nextafter(edges, np.float32(-9)), edges, np.nextafter(edges, np.float32(9))]
    )
    elements = np.repeat(beside.clip(edges[0], edges[-1]), 30)

    np.testing.assert_array_equal(
        bucket_counts(elements, edges), np.histogram(elements, bins=edges)[0]
    )


@pytest.mark.parametrize(
    ("low", "high", "finite", "dtype", "edges"),
    [
        (-3, 4, 6, np.int8, [-3, -1, 1, 4]),
        (5, 5, 3, np.uint8, [4, 5, 5]),
        (0, 0, 3, np.uint8, None),
        (255, 255, 3, np.uint8, [254, 255, 255]),
        (-128, -128, 3, np.int8, None),
        (0, 2**53 - 1, 3, np.int64, [0, 2**52 - 1, 2**53 - 1]),
        (0, 2**53, 3, np.int64, None),
        (-(2**53), 0, 3, np.int64, None),
        (1 - 2**53, 0, 3, np.int64, [1 - 2**53, -(2**52), 0]),
        (-1.5, 1.0, 11, np.float16, [-1.5, -0.25, 1.0]),
        (2.0, 2.0, 6, np.float32, [1.5, 1.8333334, 2.1666667, 2.5]),
    ],
)
def test_edges_are_in_the_dtype_of_the_elements_if_they_fit(
    low: float, high: float, finite: int, dtype: type, edges: list[float] | None
) -> None:
    found = bucket_edges(low, high, finite, np.dtype(dtype))

    first, last = (low, high) if low < high else (low - 0.5, high + 0.5)
    exact = np.linspace(first, last, found.size)
    np.testing.assert_array_equal(found, exact if edges is None else np.array(edges, dtype))
    assert found.dtype == (np.float64 if edges is None else dtype)


def test_the_extremes_and_the_sum_of_any_length_are_those_of_the_finite_elements() -> None:
    for size in (2048, 2049, 32_768, 32_769, 70_000):
        array = np.arange(size, dtype=np.float64) - 5
        array[7], array[-2] = np.nan, -np.inf
        finite = array[np.isfinite(array)]

        found = to_histogram(array)

        assert (found.min, found.max) == (-5.0, size - 6.0)
        assert found.sum == finite.sum()
        assert (found.count, found.nan_count, found.pos_inf_count, found.neg_inf_count) == (
            size,
            1,
            0,
            1,
        )


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.int64, np.uint64]).flatmap(
        lambda dtype: hnp.arrays(
            dtype, st.integers(1, 40), elements=hnp.from_dtype(np.dtype(dtype), **FINITE)
        )
    ),
    st.sampled_from([1, 100]),
)
@np.errstate(over="ignore")
def test_counts_are_those_of_a_search_for_each_element(array: NDArray[Any], repeats: int) -> None:
    assume(np.isfinite(float(array.max()) - float(array.min())))  # a histogram clips others first
    edges = bucket_edges(float(array.min()), float(array.max()), array.size * repeats, array.dtype)
    own = array
    if array.dtype == edges.dtype and edges.dtype.kind == "f":
        own = np.concatenate(
            [np.nextafter(edges, edges.dtype.type(side)) for side in (-np.inf, np.inf)]
        )
    elements = np.repeat(np.concatenate([array, own.clip(array.min(), array.max())]), repeats)
    searched = edges[1:-1].searchsorted(elements, "right")

    np.testing.assert_array_equal(
        bucket_counts(elements, edges), np.bincount(searched, minlength=edges.size - 1)
    )


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    hnp.arrays(
        st.sampled_from(
            [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int64, np.uint64, np.bool_]
        ),
        st.integers(0, 40),
    ),
    st.sampled_from([1, 100]),
)
def test_any_array_at_all_loses_no_element(array: NDArray[Any], repeats: int) -> None:
    array = np.repeat(array, repeats)  # 100: through the fast path too
    histogram = to_histogram(array)

    finite = np.isfinite(array)
    assert histogram.count == array.size
    assert (
        histogram.counts.sum()
        == finite.sum()
        == array.size - (histogram.nan_count + histogram.pos_inf_count + histogram.neg_inf_count)
    )
    assert (histogram.widths >= 0).all()
    assert np.isfinite(histogram.lefts).all()
    assert (histogram.min is None) == (not finite.any())
    if histogram.min is not None and histogram.max is not None:
        assert np.isfinite(histogram.max - histogram.min)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    hnp.arrays(np.float32, st.integers(1, 60), elements=st.floats(width=32)),
    hnp.arrays(np.int16, 60),
)
def test_any_float32_counts_as_numpy_does(values: NDArray[Any], shuffle: NDArray[Any]) -> None:
    array = values[np.tile(shuffle, 50) % values.size]
    finite = array[np.isfinite(array)]
    if finite.size:
        assert_is_the_histogram(to_histogram(array), array)


def test_nan_and_infinities_are_counted_apart() -> None:
    array = np.linspace(-1, 1, 100_000, dtype=np.float32)
    array[::7], array[1::7], array[2::7] = np.nan, np.inf, -np.inf

    assert_is_the_histogram(to_histogram(array), array)


@pytest.mark.parametrize(
    "array", [np.empty(0, np.float32), np.full(9, np.nan), np.array([np.inf, -np.inf])], ids=repr
)
def test_without_a_finite_element_there_is_no_bucket_and_no_extreme(array: NDArray[Any]) -> None:
    histogram = to_histogram(array)

    assert histogram.lefts.size == histogram.widths.size == histogram.counts.size == 0
    assert (histogram.min, histogram.max, histogram.sum) == (None, None, None)
    assert histogram.count == array.size


def test_bools_fall_into_the_first_and_the_last_bucket() -> None:
    histogram = to_histogram(torch.tensor([True, False, True] * 10))

    assert histogram.counts.tolist() == [10, 0, 0, 20]
    assert (histogram.min, histogram.max) == (0.0, 1.0)


@pytest.mark.parametrize(
    "array",
    [
        np.array([-(2**63), 2**63 - 1, 0]),
        np.array([2**63 - 1] * 3),
        np.array([2**53 + 1]),
        np.array([-(2**53) - 1, -(2**53) - 3]),
        np.array([2**53 + 1, 2**53 + 5], np.uint64),
        np.array([0, 2**64 - 1], np.uint64),
        np.zeros(3, np.uint8),
        np.full(3, 255, np.uint8),
        np.full(3, -128, np.int8),
    ],
    ids=repr,
)
def test_integers_whose_edges_do_not_fit_their_dtype_are_all_counted(array: NDArray[Any]) -> None:
    assert to_histogram(array).counts.sum() == array.size


def test_a_bucket_may_be_wider_than_its_signed_dtype_can_say() -> None:
    assert to_histogram(np.array([-128, 127], np.int8)).widths.tolist() == [127.0, 128.0]


def test_float64_beyond_half_its_range_counts_at_the_half() -> None:
    histogram = to_histogram(np.array([-1.7e308, 0.0, 1.7e308]))

    assert histogram.max is not None
    assert histogram.min == -histogram.max == -np.finfo(np.float64).max / 2
    assert histogram.counts.tolist() == [1, 2]


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_either_end_of_float64_counts_at_the_half_by_itself(sign: float) -> None:
    histogram = to_histogram(np.array([0.0, sign * 1.7e308]))
    half = float(np.finfo(np.float64).max) / 2

    assert (histogram.min, histogram.max) == (min(0.0, sign * half), max(0.0, sign * half))


@pytest.mark.parametrize("size", [3, 5000])
@pytest.mark.filterwarnings("error")
def test_a_sum_beyond_float64_is_infinite_without_a_warning(size: int) -> None:
    assert to_histogram(np.full(size, 8e307)).sum == np.inf


def test_a_single_number_is_not_a_histogram() -> None:
    with pytest.raises(ValueError, match="record it as a scalar"):
        to_histogram(torch.tensor(1.0))


@pytest.mark.parametrize("layout", ["transposed", "every second", "reversed"])
def test_the_memory_layout_makes_no_difference(layout: str) -> None:
    array = np.random.default_rng(0).standard_normal((300, 200)).astype(np.float32)
    view = {"transposed": array.T, "every second": array[:, ::2], "reversed": array[::-1]}[layout]

    assert_is_the_histogram(to_histogram(view), np.ascontiguousarray(view))


def test_a_histogram_owns_its_memory_and_leaves_the_source_alone() -> None:
    source = torch.randn(5000, generator=torch.Generator().manual_seed(1))
    before = source.clone()
    histogram = to_histogram(source)
    counts = histogram.counts.copy()
    assert torch.equal(source, before)
    source.zero_()

    np.testing.assert_array_equal(histogram.counts, counts)
