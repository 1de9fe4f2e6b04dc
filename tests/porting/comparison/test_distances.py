"""The rules of distances, each by numbers that can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from mindsummary_lightning.porting.comparison.distances import (
    largest_first,
    loss_distances,
    tensor_distances,
)

NAN, INF = float("nan"), float("inf")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([2.0, 1.0], [1.0, 1.0], [0.5, 0.0]),  # by the larger one
        # a loss of almost nothing by a twentieth of the first, the larger one
        ([8.0, 0.1], [10.0, 0.0], [0.2, 0.2]),
        ([10.0, 0.1], [8.0, 0.0], [0.2, 0.2]),
        ([0.0, 0.0], [0.0, 1.0], [0.0, 1.0]),
        ([NAN, 0.1], [8.0, 0.0], [INF, 1.0]),  # without a first loss nothing is the least
        ([8.0, 0.1], [INF, 0.0], [INF, 1.0]),
        (
            [1.0, NAN, INF, INF, NAN, -INF],
            [1.0, NAN, INF, NAN, 1.0, INF],
            [0.0, 0.0, 0.0, INF, INF, INF],
        ),
        ([], [], []),
    ],
)
def test_losses_differ_by_the_larger_one_and_infinitely_where_only_one_is_a_number(
    a: list[float], b: list[float], expected: list[float]
) -> None:
    assert loss_distances(np.array(a), np.array(b)).tolist() == pytest.approx(expected)
    assert loss_distances(-np.array(a), -np.array(b)).tolist() == pytest.approx(expected)


@pytest.mark.filterwarnings("error")
def test_tensors_differ_by_the_largest_element_and_no_less_than_a_tenth_of_the_larger_ones() -> (
    None
):
    a = np.array([
        # the largest element so far is 4, and the mean is none
        [[-4.0, 2.0, 9.0], [-1.0, 1.0, 0.0]],
        # a tenth of the upper quarter of the first elements is 0.4 here
        [[-0.1, 0.1, 0.0], [-0.1, 50.0, 0.0]],
        [[NAN] * 3, [-4.0, 4.0, 0.0]],
        [[-4.0, 4.0, 0.0]] * 2,
    ])  # fmt: skip
    b = a.copy()
    b[0, 0, 2], b[0, 1, 0], b[1, 0, 0], b[3, 1, 1] = 8.0, -2.0, -0.3, 3.0

    expected = [[0.25, 0.25], [0.5, 0.0], [NAN, 0.0], [0.0, 0.25]]
    np.testing.assert_allclose(tensor_distances(a, b), expected)
    np.testing.assert_allclose(tensor_distances(b, a), expected)
    np.testing.assert_allclose(tensor_distances(-a[..., [1, 0, 2]], -b[..., [1, 0, 2]]), expected)
    assert np.isnan(tensor_distances(a[2:3, :1], b[2:3, :1])).all()
    np.testing.assert_allclose(
        tensor_distances(np.zeros((1, 1, 3)), np.full((1, 1, 3), 1e-9)), [[1.0]]
    )
    np.testing.assert_array_equal(
        tensor_distances(np.zeros((1, 1, 3)), np.zeros((1, 1, 3))), [[0.0]]
    )
    # beyond any bound, later
    grown = np.array([[[-1.0, 1.0, 0.0], [-90.0, 90.0, 0.0]], [[0.0, 0.01, 0.0]] * 2])
    np.testing.assert_allclose(
        tensor_distances(grown, grown + np.array([0, 0, 0.01]))[1], 0.01 / (0.1 * 0.7525)
    )


def test_the_largest_comes_first_and_equal_ones_by_name() -> None:
    assert list(largest_first({"c": 1.0, "b": 1.0, "d": 0.5, "a": 0.1, "e": INF})) == [
        "e",
        "b",
        "c",
        "d",
        "a",
    ]
