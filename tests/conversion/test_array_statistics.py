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
