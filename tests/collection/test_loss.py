"""Which number is the loss in what a training step returned."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mindsummary_lightning.collection.loss import mean_loss


@pytest.mark.parametrize(
    "outputs",
    [
        torch.tensor(1.5),
        torch.tensor([1.0, 2.0]),
        torch.tensor([[1.0], [2.0]], dtype=torch.bfloat16),
        torch.tensor(1.5, dtype=torch.float64, requires_grad=True),
        1.5,
        {"loss": torch.tensor(1.5), "logits": torch.zeros(3)},
        (torch.tensor(1.5), torch.tensor(9.0)),
        [{"loss": 1.5}],
    ],
    ids=[
        "tensor",
        "vector",
        "bf16",
        "float64 with grad",
        "number",
        "dict",
        "tuple",
        "list of dict",
    ],
)
def test_the_loss_is_the_mean_of_the_first_output(outputs: Any) -> None:
    loss = mean_loss(outputs)

    assert loss.dtype is torch.float32
    assert not loss.requires_grad
    assert float(loss) == 1.5


def test_lightnings_division_by_the_accumulated_batches_is_undone() -> None:
    loss = mean_loss({"loss": torch.tensor(0.5)}, accumulated_batches=4)

    assert loss is not None
    assert float(loss) == 2.0


@pytest.mark.parametrize(
    "outputs", [None, "loss", {}, {"logits": 1.0}, [], torch.zeros(0)], ids=repr
)
def test_what_holds_no_loss_has_none(outputs: Any) -> None:
    assert mean_loss(outputs) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_stays_so(value: float) -> None:
    assert str(float(mean_loss(torch.tensor(value)))) == str(value)  # type: ignore[arg-type]
