"""The name of a loss: by the module or function that computed it, never by what a model is called
or has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mindsummary_lightning.graph.loss_name import WatchedLosses, loss_name
from mindsummary_lightning.graph.step_observer import StepObserver

Loss = Callable[[Any, torch.Tensor, torch.Tensor], torch.Tensor]


class Dice(nn.Module):
    """A loss of the user's own, without the word in its name."""

    def forward(self, scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return 1 - 2 * (scores.sigmoid() * target).sum() / (scores.sigmoid() + target).sum()


class MseLoss(torch.autograd.Function):
    """Named like one of autograd's own functions."""

    @staticmethod
    def forward(context: Any, scores: torch.Tensor) -> torch.Tensor:
        return scores.sum()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient


class Gate(nn.Module):
    """A module of the user's own without parameters, which is no loss."""

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        return scores.sigmoid() * scores


class WeightedLoss(nn.Module):
    """One with a parameter, around another."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(scores, target) * self.weight.exp() - self.weight


class Net(nn.Module):
    """Has modules of many losses; the function given says which one it uses."""

    def __init__(self, loss: Loss) -> None:
        super().__init__()
        self.layer, self.loss = nn.Linear(3, 3), loss
        self.unused_first, self.mse, self.ce = (
            nn.L1Loss(),
            nn.MSELoss(),
            nn.CrossEntropyLoss(label_smoothing=0.1),
        )
        self.dice, self.weighted, self.head = (
            Dice(),
            WeightedLoss(),
            nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)),
        )

        self.gate = Gate()

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        return self.loss(self, self.layer(batch), torch.rand(4, 3))


def classes(x: torch.Tensor) -> torch.Tensor:
    return x.argmax(1)


def by_hand(net: Net, scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (scores - target).square().mean()


# What computes the loss -> its name in an observed step, and by watched modules and autograd alone
# where that differs.
LOSSES: dict[str, tuple[Loss, str | None] | tuple[Loss, str | None, str | None]] = {
    "module": (lambda net, x, y: net.mse(x, y), "MSELoss"),
    "module, smoothed": (lambda net, x, y: net.ce(x, classes(y)), "CrossEntropyLoss"),
    "function": (lambda net, x, y: F.smooth_l1_loss(x, y), "smooth_l1_loss"),
    "function beside its module": (lambda net, x, y: F.mse_loss(x, y), "mse_loss"),
    "function without a class in autograd": (lambda net, x, y: F.l1_loss(x, y), "l1_loss", None),
    "cross entropy": (lambda net, x, y: F.cross_entropy(x, classes(y)), "cross_entropy"),
    "cross entropy of pixels": (
        lambda net, x, y: F.cross_entropy(x[..., None, None], classes(y)[:, None, None]),
        "cross_entropy",
    ),
    "nll of pixels": (
        lambda net, x, y: F.nll_loss(x[..., None, None], classes(y)[:, None, None]), "nll_loss",
    ),
    "nll": (lambda net, x, y: F.nll_loss(x.log_softmax(1), classes(y)), "nll_loss",
    "cross_entropy"),
    "nll alone": (lambda net, x, y: F.nll_loss(x, classes(y)), "nll_loss"),
    "module made in the step": (lambda net, x, y: nn.HuberLoss()(x, y), "HuberLoss", "huber_loss"),
    "module without the word": (lambda net, x, y: net.dice(x, y), "Dice"),
    "module with a parameter": (lambda net, x, y: net.weighted(x, y), "WeightedLoss"),
    "not reduced": (lambda net, x, y: F.mse_loss(x, y, reduction="none").mean(1).sum(), "mse_loss"),
    "masked": (lambda net, x, y: (F.mse_loss(x, y, reduction="none") * y).sum() / y.sum(),
    "mse_loss"),
    "masked by an index": (lambda net, x, y: F.mse_loss(x, y, reduction="none")[y > 0.5].mean(),
    "mse_loss"),
    "masked by zeros": (lambda net, x, y: torch.where(y > 0, F.mse_loss(x, y, reduction="none"),
    0).sum(),
                        "mse_loss"),
    "scaled and cast": (lambda net, x, y: (F.mse_loss(x, y) * 0.5 / 3).double(), "mse_loss"),
    "view": (lambda net, x, y: F.mse_loss(x, y).reshape(1).squeeze(), "mse_loss"),
    "root of a loss": (lambda net, x, y: F.mse_loss(x, y).sqrt(), None),
    "sum": (lambda net, x, y: F.mse_loss(x, y) + 0.1 * net.ce(x, y), "mse_loss + CrossEntropyLoss"),
    "sum of the same": (lambda net, x, y: sum(F.mse_loss(x, y) for _ in range(3)), "mse_loss"),
    "mean of several": (lambda net, x, y: torch.stack([F.mse_loss(x, y), F.huber_loss(x,
    y)]).mean(),
                        "mse_loss + huber_loss"),
    "sum with a penalty": (lambda net, x, y: F.mse_loss(x, y) + x.square().mean(), None),
    "weighted by what is trained": (lambda net, x, y: F.mse_loss(x, y) * net.weighted.weight, None),
    "plain mean": (lambda net, x, y: x.mean(), None),
    "by hand": (by_hand, None),
    "the user's autograd function": (lambda net, x, y: MseLoss.apply(x), None),
    "a module that gives many numbers": (lambda net, x, y: net.gate(x).sum(), None),
    "a network that gives one number": (lambda net, x, y: net.head(x).sum(), None),
}  # fmt: skip


@pytest.mark.parametrize("is_observed", [True, False])
@pytest.mark.parametrize("kind", LOSSES)
def test_a_loss_has_the_name_of_what_computed_it(kind: str, is_observed: bool) -> None:
    compute, *expected = LOSSES[kind]
    net = Net(compute)
    observer, watched = StepObserver(net), WatchedLosses(net)
    if is_observed:
        observer.arm()
    loss = net.training_step(torch.rand(4, 3), 0)

    assert (
        loss_name(loss, observer.losses if is_observed else watched.names)
        == expected[0 if is_observed else -1]
    )


def test_losses_are_watched_until_the_end() -> None:
    net = Net(lambda net, x, y: net.mse(x, y) + net.ce(x, y) + net.dice(x, y))
    watched = WatchedLosses(net)
    loss = net.training_step(torch.rand(4, 3), 0)
    hooks = sum(len(part._forward_hooks) for part in net.modules())
    watched.end()
    watched.end()
    names = dict(watched.names)
    net.training_step(torch.rand(4, 3), 0)

    assert loss_name(loss, watched.names) == "MSELoss + CrossEntropyLoss + Dice"
    assert (hooks, sum(len(part._forward_hooks) for part in net.modules())) == (6, 0)
    assert watched.names == names


def test_a_loss_that_needs_no_gradient_has_no_name() -> None:
    assert loss_name(torch.tensor(1.0), {}) is None


def test_a_product_of_losses_has_no_name() -> None:
    given, wanted = torch.ones(2, requires_grad=True), torch.zeros(2)
    loss = nn.functional.mse_loss(given, wanted) * nn.functional.huber_loss(given, wanted)

    assert loss_name(loss, {}) is None
    assert loss_name(2 * nn.functional.mse_loss(given, wanted), {}) == "mse_loss"


@pytest.mark.slow
def test_only_what_is_not_compiled_is_watched() -> None:
    net = nn.Sequential(torch.compile(nn.Sequential(Dice())), nn.MSELoss(), Dice())
    WatchedLosses(net)
    assert [bool(part._forward_hooks) for part in net.modules()] == [False] * 4 + [True] * 2


def test_a_scripted_loss_is_not_watched() -> None:
    net = nn.Sequential(torch.jit.script(nn.MSELoss()), nn.MSELoss())
    WatchedLosses(net)
    assert [bool(part._forward_hooks) for part in net.modules()] == [False, False, True]


def test_a_sum_without_end_has_no_name() -> None:
    loss = torch.ones((), requires_grad=True).exp()
    for _ in range(2000):
        loss = loss + 1

    assert loss_name(loss, {}) is None
