"""Statistics of one tensor: of the finite elements, with the numbers of those that are not."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from mindsummary_lightning.collection.tensor_statistics import TensorReducer, columns, plain_tensor

_SIZE, _RMS, _MEAN, _LOW, _HIGH, _ZEROS, _NOT_FINITE = range(7)


def _columns(tensor: torch.Tensor) -> np.ndarray:
    plain = plain_tensor(tensor)
    assert plain is not None
    vector, counted = TensorReducer().reduced(plain)
    rows = vector.double().numpy()[None]
    return columns(rows, np.array([plain.numel()]), np.array([counted]))[0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_element_that_is_not_finite_counts_neither_in_the_mean_nor_in_the_root_mean_square(
    bad: float,
) -> None:
    found = _columns(torch.tensor([3.0, -4.0, bad, 0.0, 5.0]))

    assert found[_RMS] == pytest.approx(math.sqrt(50 / 4))
    assert found[_MEAN] == pytest.approx(1.0)
    assert (found[_LOW], found[_HIGH]) == (-4.0, 5.0)
    assert (found[_SIZE], found[_NOT_FINITE]) == (5, 1)
    assert found[_ZEROS] == pytest.approx(1 / 4)
