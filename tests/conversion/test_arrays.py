"""``to_array``: accepted inputs, and the messages for all others."""

from __future__ import annotations

import decimal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from mindsummary_lightning.conversion.arrays import at_least_1d, to_array
from mindsummary_lightning.conversion.numeric import to_scalar, to_tensor
from mindsummary_lightning.errors import RecordTooLargeError
from mindsummary_lightning.values import DataType


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (3, np.int64),
        (2.5, np.float64),
        (True, np.bool_),
        (np.float16(2), np.float16),
        ([[1, 2], [3, 4]], np.int64),
        ((1.0, 2), np.float64),
        (np.arange(3, dtype=">f4"), np.float32),
        (np.arange(3, dtype=np.longdouble), np.float64),
        (torch.tensor(1.5), np.float32),
        (torch.tensor(1.5, dtype=torch.bfloat16), np.float32),
        (torch.ones(2).to(torch.float8_e4m3fn), np.float32),
        (torch.ones(2, dtype=torch.uint8), np.uint8),
        (torch.ones(2, requires_grad=True), np.float32),
        (torch.nn.Parameter(torch.ones(2, dtype=torch.float64)), np.float64),
        ([torch.tensor(1.0), torch.tensor(2.0)], np.float32),
    ],
    ids=repr,
)
def test_numbers_keep_their_values_and_get_a_dtype_of_the_format(value: Any, dtype: type) -> None:
    array = to_array(value)

    assert array.dtype.type is dtype
    assert array.dtype.isnative
    expected = (
        value.detach().double().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    )
    np.testing.assert_array_equal(array.astype(np.float64), expected.astype(np.float64))


def test_a_cpu_tensor_is_viewed_and_not_copied() -> None:
    tensor = torch.zeros(5)
    array = to_array(tensor)
    tensor[2] = 7

    assert array[2] == 7


def test_a_number_gets_a_dimension_and_an_array_keeps_its_own() -> None:
    assert at_least_1d(2.5).tolist() == [2.5]
    assert at_least_1d(torch.tensor([[1, 2], [3, 4]])).tolist() == [[1, 2], [3, 4]]


def test_objects_of_numbers_are_float64() -> None:
    array = to_array(np.array([[1, 2.5, True]], dtype=object))

    assert (array.dtype, array.tolist()) == (np.float64, [[1.0, 2.5, 1.0]])


def test_a_negative_view_shows_its_true_values() -> None:
    imaginary = torch.tensor([1 + 2j, 3 - 4j]).conj().imag  # carries the negative bit

    assert imaginary.is_neg()
    assert to_array(imaginary).tolist() == [-2.0, 4.0]


def test_a_tensor_inside_functional_transforms_is_unwrapped() -> None:
    seen: list[Any] = []

    def loss(weight: torch.Tensor) -> torch.Tensor:
        seen.append(to_array(weight * 2).copy())
        return weight.sum()

    torch.func.grad(loss)(torch.ones(3))
    torch.func.vmap(loss)(torch.ones(2, 3))

    assert [array.tolist() for array in seen] == [[2.0] * 3, [[2.0] * 3] * 2]


def test_sparse_and_quantized_tensors_are_made_plain() -> None:
    sparse = torch.eye(3).to_sparse()
    quantized = torch.quantize_per_tensor(torch.tensor([0.5, 1.0]), 0.5, 0, torch.qint8)

    assert to_array(sparse).tolist() == np.eye(3).tolist()
    assert to_array(quantized).tolist() == [0.5, 1.0]


def test_a_huge_sparse_tensor_is_refused() -> None:
    largest, huge = (
        torch.sparse_coo_tensor(torch.tensor([[3]]), torch.tensor([1.0]), (size,))
        for size in (10_000_000, 10_000_001)
    )

    assert np.flatnonzero(to_array(largest)).tolist() == [3]
    assert to_array(torch.zeros(1, dtype=torch.int8).expand(10_000_001)).size == 10_000_001
    with pytest.raises(TypeError, match="too large to be made dense"):
        to_array(huge)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "; found None$"),
        ("0.5", "; found the text '0.5'$"),
        ("x" * 41, f"; found the text '{'x' * 40}'$"),
        (b"ab", "; found a bytes of dtype |S2$"),
        (1 + 2j, "; found a complex of dtype complex128$"),
        (object(), "; found a object$"),
        (["a"], "; found a list of dtype <U1$"),
        ([1, None], "; found a list$"),
        (decimal.Decimal("1"), "; found a Decimal$"),
        ({"a": 1}, "; found a dict$"),
        (np.array(["a"]), "; found an array of dtype <U1 and shape (1,)$"),
        (np.array([], object), "; found an array of dtype object and shape (0,)$"),
        (np.array(["2024-01-01"], dtype="M8[D]"), "dtype datetime64[D] and shape (1,)"),
        (np.ma.masked_array([1.0], mask=[True]), "masked array"),
        (torch.zeros(2, dtype=torch.complex64), "torch.complex64"),
        (torch.zeros(2, device="meta"), "no data"),
        (
            torch.nested.nested_tensor([torch.ones(1), torch.ones(2)], layout=torch.jagged),
            "nested tensor",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_holds_no_real_numbers_is_refused_by_name(value: Any, found: str) -> None:
    with pytest.raises(TypeError, match="expected a number") as refusal:
        to_array(value)

    assert found in f"{refusal.value}$"  # the sign of the end


def test_an_error_of_the_users_array_is_passed_on() -> None:
    class Broken:
        def __array__(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("the device is gone")

        def __iter__(self) -> Any:
            raise AssertionError("is asked for once")

    with pytest.raises(RuntimeError, match="the device is gone"):
        to_array(Broken())


class _Placement:
    def __init__(self, is_whole: bool) -> None:
        self.is_whole = is_whole

    def is_replicate(self) -> bool:
        return self.is_whole

    def __repr__(self) -> str:
        return "R" if self.is_whole else "S"


class _Distributed(torch.Tensor):
    """A tensor that has the names of a ``DTensor``."""

    placements: tuple[_Placement, ...] = ()

    def full_tensor(self) -> torch.Tensor:
        raise AssertionError("is a collective call, which would wait for other ranks")

    def to_local(self) -> torch.Tensor:
        return torch.tensor([4.0, 5.0])


@pytest.mark.parametrize("whole", [(True,), (True, True), (False,), (True, False)])
def test_only_a_tensor_that_every_rank_has_is_read_from_this_one(
    whole: tuple[bool, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Distributed, "placements", tuple(map(_Placement, whole)))
    tensor = torch.zeros(3, dtype=torch.float64).as_subclass(_Distributed)

    if all(whole):
        assert to_array(tensor).tolist() == [4.0, 5.0]
    else:
        with pytest.raises(TypeError, match=r"a DTensor with placements .*S.*: pass \.to_local"):
            to_array(tensor)


class _Unreadable(torch.Tensor):
    words = ""

    def cpu(self) -> torch.Tensor:
        raise RuntimeError(self.words)


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ("you can't allocate memory here", MemoryError, "^you can't allocate memory here$"),
        ("CUDA out of memory", MemoryError, "^CUDA out of memory$"),
        (
            "no way",
            TypeError,
            r"dtype torch.float64, shape \(2, 3\) on cpu, which PyTorch cannot convert: no way$",
        ),
    ],
)
def test_a_tensor_that_pytorch_cannot_convert_is_told_from_one_without_room(
    words: str, error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Unreadable, "words", words)

    with pytest.raises(error, match=message):
        to_array(torch.zeros(2, 3, dtype=torch.float64).as_subclass(_Unreadable))


def test_ragged_lists_are_refused() -> None:
    with pytest.raises(TypeError, match="found a list that is not an array"):
        to_array([[1, 2], [3]])


def test_a_list_of_tensors_that_require_grad_is_read_and_one_without_data_is_named() -> None:
    weight = torch.ones(2, requires_grad=True)
    assert to_array([weight, (weight * 2)]).tolist() == [[1.0, 1.0], [2.0, 2.0]]
    assert to_array([weight.sum(), 3.0]).tolist() == [2.0, 3.0]
    with pytest.raises(TypeError, match="has a shape but no data"):
        to_array([torch.empty(2, device="meta")])


@pytest.mark.slow
def test_numbers_are_taken_without_importing_torch() -> None:
    program = (
        "import sys, numpy as np\n"
        "from mindsummary_lightning.conversion.histograms import to_histogram\n"
        "from mindsummary_lightning.conversion.image_batches import batch_to_image\n"
        "from mindsummary_lightning.conversion.numeric import to_scalar, to_tensor\n"
        "from mindsummary_lightning.conversion.user_images import to_image\n"
        "to_scalar(1), to_tensor([1]), to_histogram([1.0]), batch_to_image(np.zeros((1, 1, "
        "2, 2)))\n"
        "assert 'torch' not in sys.modules and 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    "value", [2.5, np.float32(2.5), np.full((1, 1), 2.5), [2.5], torch.tensor([[2.5]])], ids=repr
)
def test_a_scalar_is_the_one_number_in_any_shape(value: Any) -> None:
    scalar = to_scalar(value)

    assert type(scalar) is float
    assert scalar == 2.5


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_scalar_may_be_anything_but_finite(number: float) -> None:
    np.testing.assert_equal(to_scalar(torch.tensor(number)), number)


@pytest.mark.parametrize("value", [[], [1, 2], torch.zeros(2, 2)], ids=repr)
def test_none_or_several_numbers_are_no_scalar(value: Any) -> None:
    with pytest.raises(ValueError, match="exactly one element"):
        to_scalar(value)


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
)
def test_a_tensor_of_integers_keeps_the_name_of_its_dtype(dtype: torch.dtype) -> None:
    tensor = to_tensor(torch.tensor([[0, 1]]).to(dtype))

    assert tensor.data_type == DataType[str(dtype).removeprefix("torch.").upper()]
    assert tensor.data.dtype == np.float32
    assert tensor.data.tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize(
    ("dtype", "named"),
    [
        (torch.float16, DataType.FLOAT16),
        (torch.float32, DataType.FLOAT32),
        (torch.float64, DataType.FLOAT64),
        (torch.bfloat16, DataType.FLOAT32),
    ],
)
def test_a_tensor_of_floats_is_named_as_the_reader_knows_it(
    dtype: torch.dtype, named: DataType
) -> None:
    tensor = to_tensor(torch.tensor([0.5, float("nan"), -float("inf")], dtype=dtype))

    assert tensor.data_type is named
    np.testing.assert_array_equal(tensor.data, np.array([0.5, np.nan, -np.inf], np.float32))


@pytest.mark.parametrize(
    "source", [np.zeros(4, np.float32), torch.zeros(4), torch.zeros(4, dtype=torch.float64)]
)
def test_a_tensor_owns_its_memory(source: Any) -> None:
    tensor = to_tensor(source)
    source[:] = 9

    assert tensor.data.tolist() == [0.0] * 4


def test_a_tensor_beyond_float32_becomes_infinite_without_a_warning() -> None:
    assert to_tensor(np.array([1e300, -1e300])).data.tolist() == [np.inf, -np.inf]


def test_a_single_number_is_no_tensor() -> None:
    with pytest.raises(ValueError, match="record it as a scalar"):
        to_tensor(torch.tensor(1.0))


def test_a_tensor_larger_than_the_reader_shows_is_refused() -> None:
    assert to_tensor(np.broadcast_to(np.float32(0), (10_000_000,))).data.size == 10_000_000
    with pytest.raises(RecordTooLargeError, match="at most 10000000"):
        to_tensor(np.broadcast_to(np.float32(0), (10_000_001,)))
