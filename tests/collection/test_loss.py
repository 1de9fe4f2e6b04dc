"""Which number is the loss in what a training step returned."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mindsummary_lightning.collection.loss import loss_alone, mean_loss, mean_of_losses


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


def test_what_is_kept_of_outputs_is_the_loss_without_what_it_was_computed_of() -> None:
    alone = torch.tensor(2.0, requires_grad=True) * 3
    of_many, element = torch.tensor([1.0, 2.0, 6.0]), torch.arange(1000.0)[7]

    kept = [loss_alone({"loss": loss, "logits": of_many}) for loss in (alone, of_many, element)]
    assert [float(each) for each in kept] == [6.0, 3.0, 7.0]
    assert not any(each.requires_grad for each in kept)
    assert kept[0].data_ptr() == alone.data_ptr()  # it is no copy
    assert [each.untyped_storage().nbytes() for each in kept] == [4, 4, 4]
    assert [loss_alone(each) for each in (None, 1.5, [{"loss": 2}], {})] == [None, 1.5, 2, None]
    for outputs in (alone, of_many, element, 1.5):
        assert mean_loss(loss_alone(outputs)) == mean_loss(outputs)


def test_the_loss_of_several_batches_is_the_mean_of_those_that_have_one() -> None:
    losses = [torch.tensor(1.0), None, torch.tensor(5.0)]

    mean = mean_of_losses([lambda loss=loss: loss for loss in losses])  # type: ignore[misc]
    assert mean is not None
    assert float(mean) == 3.0
    assert mean_of_losses([lambda: None]) is None
