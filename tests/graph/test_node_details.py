"""Functions have the names of the torch.nn classes that users know them by, and values the types
of the summary format.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mindsummary_lightning.graph.node_details import (
    attribute_value,
    attributes_of,
    familiar_name,
    graph_type,
    tensor_type,
)
from mindsummary_lightning.values import DataType, TensorType, TupleType
from mindsummary_lightning.values.graph_nodes import Attribute


@pytest.mark.parametrize(
    ("function", "module_class", "op_type"),
    [
        ("conv2d", None, "Conv2d"),
        ("relu_", None, "ReLU"),
        ("cross_entropy", None, "CrossEntropyLoss"),
        ("kl_div", None, "KLDivLoss"),
        ("mse_loss", None, "MSELoss"),
        ("binary_cross_entropy", None, "BCELoss"),
        ("batch_norm", None, "BatchNorm"),
        ("batch_norm", "BatchNorm2d", "BatchNorm2d"),
        ("relu", "Linear", "ReLU"),
        ("matmul", None, "matmul"),
        ("add_", None, "add_"),
        ("__getitem__", None, "getitem"),
        ("__iadd__", None, "iadd"),
        ("_", None, "op"),
        ("rnn_tanh", None, "RNN"),
        ("multi_head_attention_forward", None, "MultiheadAttention"),
        ("batch_norm", "SyncBatchNorm", "BatchNorm"),
    ],
)
def test_a_function_has_the_name_that_users_know(
    function: str, module_class: str | None, op_type: str
) -> None:
    assert familiar_name(function, module_class) == op_type


def test_the_lengths_of_a_nested_tensor_are_open_after_the_first() -> None:
    nested = torch.nested.nested_tensor([torch.zeros(2, 4), torch.zeros(3, 4)])

    assert tensor_type(nested) == TensorType(DataType.FLOAT32, (2, -1, -1))
    assert tensor_type(torch.zeros(2, 0, dtype=torch.int16)) == TensorType(DataType.INT16, (2, 0))


def test_the_type_of_a_container_is_that_of_its_first_64_elements() -> None:
    one, two = TensorType(DataType.FLOAT32, (1,)), TensorType(DataType.BOOL, ())

    found = graph_type({"a": torch.ones(1), "b": [torch.tensor(True), 5], "c": None})
    assert found == TupleType((one, TupleType((two, DataType.NONE)), DataType.NONE))
    assert graph_type([torch.ones(1)] * 65) == TupleType((one,) * 64)
    assert graph_type(5) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 2.5, None, True, torch.float16], (1, 2.5, None, True, DataType.FLOAT16)),
        ([1, "a"], "[1, 'a']"),
        (["a", "b"], "['a', 'b']"),
        (tuple(range(50)), tuple(range(50))),
        (tuple(range(51)), str(tuple(range(51)))),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), str(-(2**63))),
        (torch.zeros(2, 3), "tensor of shape (2, 3), torch.float32"),
        (torch.float8_e5m2, "torch.float8_e5m2"),
        ("x" * 240, "x" * 240),
        ("x" * 241, "x" * 240 + "..."),
    ],
    ids=lambda value: str(value)[:20],
)
def test_an_attribute_keeps_what_the_reader_can_take(value: Any, expected: Any) -> None:
    assert attribute_value(value) == expected
    assert type(attribute_value(value)) is type(expected)


@pytest.mark.parametrize(
    ("dtype", "is_told"),
    [
        (torch.bool, False),
        (torch.float32, False),
        (torch.complex64, True),
        (torch.bfloat16, True),
        (torch.float8_e5m2, True),
    ],
)
def test_a_dtype_that_the_reader_does_not_know_is_an_attribute(
    dtype: torch.dtype, is_told: bool
) -> None:
    told = (Attribute("output_dtype", str(dtype)),) if is_told else ()

    assert attributes_of([("p", 0.5)], torch.zeros(1, dtype=dtype)) == (Attribute("p", 0.5), *told)
    assert attributes_of([("p", 0.5)], [torch.zeros(1, dtype=dtype)]) == (Attribute("p", 0.5),)
