"""Losses on a plane are those of a loop that copies the network, sets its parameters and
runs it.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from mindsummary_lightning.landscape.batches import take_batches
from mindsummary_lightning.landscape.evaluation import EvaluationOptions, PlaneLoss, first_loss
from mindsummary_lightning.landscape.mean_loss import MeanLoss
from mindsummary_lightning.landscape.plane import FlatPlane
from tests.landscape import nets
from tests.landscape.plain_loop import (
    CPU,
    POINTS,
    evaluation,
    plain_loop,
    plane_of,
    without_shortcuts,
)

SLOW = [pytest.param(net, marks=pytest.mark.slow) for net in (nets.ConvNet, nets.Transformer)]


@pytest.fixture(params=[nets.Mlp, nets.Tied, nets.Frozen, *SLOW])
def net(request: pytest.FixtureRequest) -> nn.Module:
    torch.manual_seed(1)
    net = request.param()
    for buffer in net.buffers():
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 1.5)
    return net


def test_losses_are_those_of_a_plain_loop(net: nn.Module) -> None:
    plane = plane_of(net)
    expected = plain_loop(net, plane, nets.loader(net))
    np.testing.assert_allclose(evaluation(net, plane).losses(POINTS), expected, rtol=1e-5)
    np.testing.assert_allclose(without_shortcuts(net, plane).losses(POINTS), expected, rtol=1e-5)


def test_several_points_at_once_give_the_same_losses(net: nn.Module) -> None:
    plane = plane_of(net)
    expected = plain_loop(net, plane, nets.loader(net))
    np.testing.assert_allclose(
        evaluation(net, plane, points_at_once=5).losses(POINTS), expected, rtol=1e-5
    )


class Silent(nn.Module):
    def forward(self, *, samples: int) -> None:
        """Take no tensor and give none."""


class Reporting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net, self.report = nets.Mlp(), Silent()

    data = nets.Mlp.data

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.report(samples=len(x))
        return self.net(x)


def test_a_part_that_takes_and_gives_no_tensor_is_no_obstacle() -> None:
    net = Reporting()
    plane = plane_of(net)
    expected = plain_loop(net, plane, nets.loader(net))
    np.testing.assert_allclose(evaluation(net, plane).losses(POINTS), expected, rtol=1e-5)


def test_a_smaller_last_batch_counts_by_its_samples() -> None:
    net = nets.Mlp()
    plane = plane_of(net)
    images, labels = net.data()
    batches = take_batches([(images[:64], labels[:64]), (images[64:72], labels[64:72])], 96, 0)

    together = plain_loop(net, plane, [(images[:72], labels[:72])])
    found = without_shortcuts(net, plane, batches).losses(POINTS)
    np.testing.assert_allclose(found, together, rtol=1e-5)


@pytest.mark.slow
def test_training_mode_draws_the_same_dropout_at_every_point() -> None:
    net = nets.ConvNet()
    found = evaluation(net, plane_of(net), train_mode=True)
    once, again = found.losses(POINTS), found.losses(POINTS[::-1])[::-1]
    np.testing.assert_array_equal(once, again)
    assert not np.allclose(once, evaluation(net, plane_of(net)).losses(POINTS), rtol=1e-3)


def test_threads_that_overlap_leave_the_process_as_it_was() -> None:
    def second() -> None:
        with losses[1].prepared():
            is_in.set()
            assert is_out.wait(60)

    is_in, is_out, thread = threading.Event(), threading.Event(), threading.Thread(target=second)
    losses = [evaluation(net, plane_of(net)) for net in (nets.Mlp().double(), nets.Mlp().double())]
    random.random(), np.random.random()  # noqa: NPY002 - not where a seed leaves them
    before = (
        torch.get_default_dtype(),
        random.getstate(),
        np.random.get_state()[1].tolist(),  # noqa: NPY002 - a user may use it
        torch.get_rng_state().tolist(),
        list(warnings.filters),
    )
    with losses[0].prepared():
        thread.start()
        is_in.wait(0.1)
    is_out.set()
    thread.join()

    assert (
        torch.get_default_dtype(),
        random.getstate(),
        np.random.get_state()[1].tolist(),  # noqa: NPY002 - a user may use it
        torch.get_rng_state().tolist(),
        warnings.filters,
    ) == before


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_first_batch_tells_the_size_of_a_sample_and_whether_batches_are_changed(
    is_changed: bool,
) -> None:
    class Net(nets.Mlp):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x.mul_(2) if is_changed else x * 2)

    net = Net()
    loss, plane = MeanLoss(net, nets.LOSS), plane_of(net)
    batches = take_batches(nets.loader(net), 96, 0)
    before = batches[0].data[0].clone()
    expected = plain_loop(net, plane, nets.loader(net))

    first = first_loss(loss, plane.anchor, batches, CPU, EvaluationOptions())

    assert first == pytest.approx(nets.LOSS(net(before.clone()), batches[0].data[1]).item())
    # the largest tensor is an input of 8 x 10 float32
    assert (loss.bytes_per_sample, loss.changes_batches) == (8 * 10 * 4.0, is_changed)
    found = PlaneLoss(loss, FlatPlane(plane, CPU), batches, EvaluationOptions())
    np.testing.assert_allclose(found.losses(POINTS), expected, rtol=1e-5)
    assert torch.equal(batches[0].data[0], before)


def test_half_precision_parameters_move_in_float32_and_run_in_their_own_type() -> None:
    net = nets.Mlp().bfloat16()
    plane = plane_of(net)
    batches = take_batches([(x.bfloat16(), y) for x, y in nets.loader(net)], 96, 0)
    found = without_shortcuts(net, plane, batches)
    exact = plain_loop(net.float(), plane, nets.loader(net))
    np.testing.assert_allclose(found.losses(POINTS), exact, rtol=0.05)


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="torch.compile needs a C++ compiler"
)
def test_compiled_losses_are_the_same() -> None:
    net = nets.Mlp()
    plane = plane_of(net)
    expected = evaluation(net, plane).losses(POINTS)
    np.testing.assert_allclose(
        evaluation(net, plane, compile=True).losses(POINTS), expected, rtol=1e-5
    )


def test_a_module_without_a_loss_says_what_to_pass() -> None:
    with pytest.raises(TypeError, match="pass loss_fn"):
        MeanLoss(nets.Mlp())
    with pytest.raises(TypeError, match=r"\(\*inputs, target\), got dict"):
        MeanLoss(nets.Mlp(), nets.LOSS)({"x": torch.zeros(2, 80)}, 0)
