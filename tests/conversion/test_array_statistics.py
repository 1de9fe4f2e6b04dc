from __future__ import annotations

import numpy as np
import pytest
import torch

from mindsummary_lightning.collection.tensor_statistics import TensorReducer, columns, plain_tensor
from mindsummary_lightning.conversion.array_statistics import array_statistics

ARRAYS = {
    "normal": np.random.default_rng(0).normal(1, 2, (7, 5, 3)),
    "many": np.random.default_rng(1).normal(0, 2, 3000).astype(np.float32),
    "rectified": np.maximum(np.random.default_rng(2).normal(0, 2, 1300), 0).astype(np.float32),
    "tiny": np.full(600, 1e-30, np.float32),
    "one that is not finite": np.append(np.ones(600, np.float32), np.float32("nan")),
    "integers": np.arange(-3, 9, dtype=np.int64),
    "a scalar": np.array(2.5),
    "zeros": np.array([0.0, 0.0, -1.0]),
    "not finite": np.array([1.0, np.nan, np.inf, -np.inf, 3.0]),
    "nothing finite": np.array([np.nan, np.inf]),
    "no elements": np.zeros((0, 3)),
    "huge": np.array([1e200, -1e200, 0]),
    "bools": np.array([True, False, True, True]),
    "complex": np.array([1 + 2j, 3 - 4j]),
    "half": np.array([1, 2, 60000], np.float16),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_has_the_statistics_of_the_same_tensor(name: str) -> None:
    tensor = torch.from_numpy(ARRAYS[name])
    plain = plain_tensor(tensor)
    vector, counted = TensorReducer().reduced(plain)
    expected = columns(
        vector.double().numpy()[None], np.array([plain.numel()]), np.array([counted])
    )[0]

    np.testing.assert_allclose(array_statistics(ARRAYS[name]), expected, rtol=1e-6)


def test_statistics_are_of_all_finite_elements_in_their_order() -> None:
    found = array_statistics(np.array([[3.0, -4.0], [0.0, np.nan]]))

    np.testing.assert_allclose(found[:7], [4, (25 / 3) ** 0.5, -1 / 3, -4, 3, 1 / 3, 1])
    np.testing.assert_array_equal(found[7:12], [3, 0, 3, np.nan, -4])  # places 0, 2, 0, 3 and 1


def test_a_float32_array_of_any_size_has_the_statistics_of_its_float64_elements() -> None:
    chance = np.random.default_rng(4)
    for size in (1, 511, 512, 513, 1300):
        for shift in (0.0, 3.0, -3.0):
            array = np.append(chance.normal(shift, 1, size - 1), shift).astype(np.float32)

            found, expected = (array_statistics(one) for one in (array, array.astype(np.float64)))
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
            assert found[6] == 0


@pytest.mark.parametrize("extreme", [1e20, -1e20, 1e-20, -1e-20])
@pytest.mark.parametrize("others", [0.0, 1e-21, -1e-21])
def test_squares_beyond_float32_are_computed_in_float64(extreme: float, others: float) -> None:
    array = np.full(1300, others, np.float32)
    array[7] = extreme

    found, expected = (array_statistics(one) for one in (array, array.astype(np.float64)))

    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float16, np.bool_])
def test_many_elements_of_any_dtype_have_the_statistics_of_their_numbers(dtype: type) -> None:
    array = (np.arange(1300) % 99 + 1).astype(dtype)
    array[::4] = 0

    found, expected = (array_statistics(one) for one in (array, array.astype(np.float64)))

    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ([0.0, 0.0], [2, 0, 0, 0, 0, 1, 0]),
        ([3.0, 4.0, 0.0], [3, (25 / 3) ** 0.5, 7 / 3, 0, 4, 1 / 3, 0]),
        ([-3.0, -4.0], [2, 12.5**0.5, -3.5, -4, -3, 0, 0]),
        ([np.inf, 2.0], [2, 2, 2, 2, 2, 0, 1]),
        ([1e-20, -3e-20], [2, 5e-40**0.5, -1e-20, -3e-20, 1e-20, 0, 0]),
        ([1e20, -3e20], [2, 5e40**0.5, -1e20, -3e20, 1e20, 0, 0]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_statistics_of_few_elements(
    elements: list[float], expected: list[float], dtype: type
) -> None:
    found = array_statistics(np.array(elements, dtype))

    np.testing.assert_allclose(found[:7], expected, rtol=1e-6)
    assert found.shape == (23,)


def test_an_array_without_elements_has_none_and_a_complex_one_both_parts() -> None:
    none = array_statistics(np.zeros((0, 3)))
    parts = array_statistics(np.array([[1 + 2j, 3 - 4j]]))

    assert none[0] == 0
    assert np.isnan(none[1:]).all()
    assert none.shape == (23,)
    np.testing.assert_array_equal(parts, array_statistics(np.array([1.0, 2, 3, -4])))
