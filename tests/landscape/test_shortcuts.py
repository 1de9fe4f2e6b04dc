"""Shortcuts of the loss on a plane: used where they are exact, and only there."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from mindsummary_lightning.landscape.shortcuts import KeptLayerLoss
from tests.landscape import nets
from tests.landscape.plain_loop import POINTS, evaluation, plain_loop, plane_of


class UsesItsWeightAgain(nets.Mlp):
    """Uses the weight of its first layer a second time, outside the layer."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * (1 + self[1].weight.pow(2).mean())


class ScaledFirst(nets.Mlp):
    """Its first layer's input depends on a parameter that belongs to no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.input_weight = nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x * self.input_weight)


class Again(nets.Mlp):
    """Calls its first layer a second time on the same input, after its output was
    changed in place.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self[0](x)
        self[1](x).mul_(0)
        return self[3](self[1](x).relu())


class TanhLinear(nn.Linear):
    """Is not affine in its weight, although its class says Linear."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight.tanh(), self.bias)


class NotAffine(nets.Mlp):
    """Its first layer is a subclass with a computation of its own."""

    def __init__(self) -> None:
        super().__init__()
        self[1] = TanhLinear(80, 16)


@pytest.mark.parametrize(
    "cls",
    [
        *(nets.Mlp, nets.Tied, nets.Frozen, UsesItsWeightAgain),
        pytest.param(nets.ConvNet, marks=pytest.mark.slow),
    ],
)
def test_a_first_layer_on_a_fixed_input_is_computed_once_for_all_points(
    cls: type[nn.Module],
) -> None:
    net = cls()
    plane = plane_of(net)
    found = evaluation(net, plane)
    assert isinstance(found, KeptLayerLoss)
    np.testing.assert_allclose(
        found.losses(POINTS), plain_loop(net, plane, nets.loader(net)), rtol=1e-5
    )


@pytest.mark.parametrize(
    "cls",
    [ScaledFirst, Again, NotAffine, pytest.param(nets.Transformer, marks=pytest.mark.slow)],
)
def test_a_layer_on_other_inputs_computes(cls: type[nn.Module]) -> None:
    net = cls()
    plane = plane_of(net)
    found = evaluation(net, plane).losses(POINTS)
    np.testing.assert_allclose(found, plain_loop(net, plane, nets.loader(net)), rtol=1e-5)


class Bound(nets.Mlp):
    """Takes batches of 32 alone, and counts what it was called with."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.sizes.append(len(x))
        return super().forward(x.view(32, 80))


def test_batches_that_cannot_be_joined_stay_apart_which_one_line_says(
    caplog: pytest.LogCaptureFixture,
) -> None:
    net = Bound()
    plane = plane_of(net)
    with caplog.at_level("INFO"):
        found = evaluation(net, plane)
    assert len(found.batches) == 3
    np.testing.assert_allclose(
        found.losses(POINTS), plain_loop(net, plane, nets.loader(net)), rtol=1e-5
    )
    (message,) = caplog.messages
    assert message.startswith(
        "loss landscape: computed without joining batches, which raises RuntimeError: shape"
    )
    assert net.sizes == []


def test_batches_are_joined_only_if_the_mean_loss_stays() -> None:
    net = nets.Mlp()
    plane = plane_of(net)
    assert len(evaluation(net, plane).batches) == 1

    def summed(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(output, target, reduction="sum")

    found = evaluation(net, plane, summed)
    assert len(found.batches) == 3
    np.testing.assert_allclose(
        found.losses(POINTS), plain_loop(net, plane, nets.loader(net), summed), rtol=1e-5
    )


@pytest.mark.parametrize(("error", "batches"), [(5e-7, 1), (5e-6, 3)])
def test_batches_are_joined_if_the_mean_loss_stays_to_2e_6(error: float, batches: int) -> None:
    def nearly(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        off = error if len(target) == 96 else 0.0
        return nets.LOSS(output, target) * (1 + off)

    net = nets.Mlp()
    assert len(evaluation(net, plane_of(net), nearly).batches) == batches


@pytest.mark.parametrize(
    "option", [{"points_at_once": 2}, {"train_mode": True}, {"precision": "bf16-mixed"}]
)
def test_no_shortcut_is_tried_where_it_could_change_the_loss(option: dict[str, object]) -> None:
    net = nets.Mlp()
    found = evaluation(net, plane_of(net), **option)
    assert not isinstance(found, KeptLayerLoss)
    assert len(found.batches) == 3
