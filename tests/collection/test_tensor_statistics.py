"""Statistics of one tensor: of the finite elements, with the numbers of those that are not."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from mindsummary_lightning.collection.tensor_statistics import TensorReducer, columns, plain_tensor
from mindsummary_lightning.values.step_chain import sample_places

_SIZE, _RMS, _MEAN, _LOW, _HIGH, _ZEROS, _NOT_FINITE = range(7)


def _columns(tensor: torch.Tensor) -> np.ndarray:
    plain = plain_tensor(tensor)
    assert plain is not None
    vector, counted = TensorReducer().reduced(plain)
    rows = vector.double().numpy()[None]
    return columns(rows, np.array([plain.numel()]), np.array([counted]))[0]


_GENERATOR = torch.Generator().manual_seed(0)


def _normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=_GENERATOR)


TENSORS = {
    "two rows and a rest": _normal(7, 201),
    "exactly a row": _normal(512),
    "few": torch.tensor([3.0, 0.0, -4.0]),
    "one number": torch.tensor(-2.5),
    "positive": _normal(5, 7).abs() + 1,
    "negative": -_normal(5, 7).abs() - 1,
    "zeros": torch.zeros(3, 5),
    "transposed": _normal(6, 9).t(),
    "tiny": _normal(40) * 1e-30,
    "huge": _normal(40) * 1e30,
    "half": _normal(40).half(),
    "bfloat16": _normal(40).bfloat16(),
    "double": _normal(40).double() * 1e200,
    "bool": torch.tensor([True, False, True, True]),
    "small integers": torch.arange(-5, 8, dtype=torch.int8),
    "large integers": torch.tensor([2**40 + 1, -3, 0]),
    "unsigned": torch.tensor([65535, 0, 7], dtype=torch.uint16),
    "complex": torch.tensor([3 + 4j, -1 - 2j]),
    "conjugate": torch.tensor([3 + 4j, -1 - 2j]).conj(),
    "some not finite": torch.tensor([1.0, math.nan, math.inf, -math.inf, 0.0, -2.0]),
}


@pytest.mark.parametrize("name", TENSORS)
def test_all_columns_of_a_tensor_are_numpys(name: str) -> None:
    tensor = TENSORS[name].resolve_conj()
    plain = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    array = plain.double().numpy().reshape(-1)
    finite = array[np.isfinite(array)]
    unit = np.abs(finite).max() or 1.0  # whose square may leave the range
    expected = [
        array.size,
        np.sqrt(((finite / unit) ** 2).mean()) * unit,
        finite.mean(),
        finite.min(),
        finite.max(),
        (finite == 0).mean(),
        array.size - finite.size,
        *array[sample_places(array.size)],
    ]

    np.testing.assert_allclose(
        _columns(TENSORS[name]), expected, rtol=1e-5, atol=1e-6 * np.abs(finite).mean()
    )


def test_an_element_that_is_repeated_counts_once_and_its_repetitions_are_told() -> None:
    column = torch.tensor([[1.0], [math.nan], [-2.0]])
    expanded = _columns(column.expand(3, 4))

    assert expanded[: _NOT_FINITE + 1].tolist() == pytest.approx(
        [12, math.sqrt(2.5), -0.5, -2.0, 1.0, 0.0, 4]
    )
    flat = column.expand(3, 4).reshape(-1).numpy()
    np.testing.assert_array_equal(expanded[_NOT_FINITE + 1 :], flat[sample_places(12)])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_an_integer_beyond_the_digits_of_float32_is_exact(dtype: torch.dtype) -> None:
    found = _columns(torch.tensor([2**24 + 1, -(2**24) - 3], dtype=dtype))

    assert (found[_LOW], found[_HIGH], found[_MEAN]) == (-(2**24) - 3, 2**24 + 1, -1)
    assert {*found[_NOT_FINITE + 1 :]} == {2**24 + 1, -(2**24) - 3}


def test_a_tensor_without_elements_or_finite_ones_has_counts_alone() -> None:
    empty, infinite = _columns(torch.zeros(0, 3)), _columns(torch.full((2,), math.inf))

    assert empty[_SIZE] == 0
    assert np.isnan(empty[1:]).all()
    assert (infinite[_SIZE], infinite[_NOT_FINITE]) == (2, 2)
    assert np.isnan(infinite[[_RMS, _MEAN, _LOW, _HIGH, _ZEROS]]).all()


def test_what_has_no_numbers_here_is_no_plain_tensor() -> None:
    flattened = torch.zeros(2)
    flattened._fsdp_flattened = True  # type: ignore[attr-defined]  # as FSDP1 marks it
    wrapped: list[torch.Tensor | None] = []
    torch.func.vmap(lambda x: wrapped.append(plain_tensor(x)) or x)(torch.ones(2, 3))  # type: ignore[func-returns-value]
    quantized = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)

    for tensor in (torch.eye(2).to_sparse(), torch.empty(2, device="meta"), flattened, quantized):
        assert plain_tensor(tensor) is None
    assert wrapped == [None]
    plain = plain_tensor(torch.ones(2, requires_grad=True))
    assert plain is not None
    assert not plain.requires_grad


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
