"""Functions have the names of the torch.nn classes that users know them by."""

from __future__ import annotations

import pytest

from mindsummary_lightning.graph.node_details import familiar_name


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
        ("_", None, "op"),
    ],
)
def test_a_function_has_the_name_that_users_know(
    function: str, module_class: str | None, op_type: str
) -> None:
    assert familiar_name(function, module_class) == op_type
