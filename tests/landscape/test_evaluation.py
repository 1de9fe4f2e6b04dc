"""The loss on a plane against a plain loop that copies the network, sets its parameters and runs it."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from mindsummary_lightning.landscape.batches import take_batches
from mindsummary_lightning.landscape.evaluation import EvaluationOptions, PlaneLoss, loss_on_plane
from mindsummary_lightning.landscape.mean_loss import MeanLoss, moving_names
from mindsummary_lightning.landscape.plane import Plane
from tests.landscape import nets

CPU = torch.device("cpu")
POINTS = np.array([[x, y] for y in (-0.9, 0.0, 0.3) for x in (-1.0, 0.0, 0.2, 0.8)])


def plane_of(net: nn.Module, names: list[str] | None = None) -> Plane:
    torch.manual_seed(5)
    names = moving_names(net) if names is None else names
    tensors = dict(net.named_parameters()) | dict(net.named_buffers())
    anchor = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    first, second = ({name: 0.3 * torch.randn_like(anchor[name]) for name in names} for _ in range(2))
    return Plane(anchor, first, second)


def plain_loop(net: nn.Module, plane: Plane, loader: object, loss_fn: object = nets.LOSS) -> np.ndarray:
    net = copy.deepcopy(net).eval()
    losses = []
    for x, y in POINTS:
        with torch.no_grad():
            for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
                moved = x * plane.first[name] + y * plane.second[name] if name in plane.first else 0
                tensor.copy_(plane.anchor[name] + moved)
            losses.append(np.mean([loss_fn(net(inputs), target).item() for inputs, target in loader]))
    return np.array(losses)


def evaluation(net: nn.Module, plane: Plane, loss_fn: object = nets.LOSS, **options: object) -> PlaneLoss:
    batches = take_batches(nets.loader(net), 96, 0)
    return loss_on_plane(MeanLoss(net, loss_fn), plane, batches, CPU, EvaluationOptions(**options))


@pytest.fixture(params=[nets.Mlp, nets.ConvNet, nets.Transformer, nets.Tied, nets.Frozen])
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
    np.testing.assert_allclose(evaluation(net, plane, use_structure=False).losses(POINTS), expected, rtol=1e-5)


def test_several_points_at_once_give_the_same_losses(net: nn.Module) -> None:
    plane = plane_of(net)
    expected = plain_loop(net, plane, nets.loader(net))
    np.testing.assert_allclose(evaluation(net, plane, points_at_once=5).losses(POINTS), expected, rtol=1e-5)


def test_only_networks_whose_first_layer_is_affine_are_served_by_three_passes() -> None:
    served = {cls: evaluation(cls(), plane_of(cls()))._affine is not None for cls in (nets.Mlp, nets.ConvNet)}
    assert served == {nets.Mlp: True, nets.ConvNet: True}
    for cls in (nets.Transformer, nets.Tied):
        assert evaluation(cls(), plane_of(cls()))._affine is None, cls


def test_the_loss_of_few_classes_is_reordered_and_no_other() -> None:
    net = nets.Mlp()
    plane = plane_of(net)
    torch.manual_seed(4)
    loader = list(zip(torch.randn(1024, 8, 10).split(32), torch.randint(4, (1024,)).split(32), strict=True))
    batches = take_batches(loader, 1024, 0)

    def squares(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (output - target[:, None]).square().mean()

    found = loss_on_plane(MeanLoss(net, nets.LOSS), plane, batches, CPU, EvaluationOptions())
    assert found._few_classes is not None
    np.testing.assert_allclose(found.losses(POINTS), plain_loop(net, plane, loader), rtol=1e-5)
    for loss_fn, options in ((nets.LOSS, EvaluationOptions(use_structure=False)), (squares, EvaluationOptions())):
        assert loss_on_plane(MeanLoss(net, loss_fn), plane, batches, CPU, options)._few_classes is None


class Penalised(nets.Mlp):
    """Uses the first weight a second time, outside its layer."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + 1e-4 * self[1].weight.pow(2).sum()


class ScaledFirst(nets.Mlp):
    """Its first layer's input depends on a parameter that no module is called for."""

    def __init__(self) -> None:
        super().__init__()
        self.input_weight = nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x * self.input_weight)


class Borrowing(nets.Mlp):
    """Its first layer's input depends, too little for the numbers to show, on a layer called later."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x * (1 + 1e-5 * self[3].bias.mean()))


class Twice(nets.Tied):
    """Calls its first layer twice, so that one output cannot stand for both."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.encoder(x)))


@pytest.mark.parametrize("cls", [Penalised, ScaledFirst, Borrowing, Twice])
def test_first_layers_that_are_not_affine_are_left_alone(cls: type[nn.Module]) -> None:
    net = cls()
    plane = plane_of(net)
    found = evaluation(net, plane)
    assert found._affine is None
    np.testing.assert_allclose(found.losses(POINTS), plain_loop(net, plane, nets.loader(net)), rtol=1e-5)


def test_batches_are_joined_only_if_the_mean_loss_stays() -> None:
    net = nets.Mlp()
    plane = plane_of(net)
    assert len(evaluation(net, plane)._batches) == 1

    def summed(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(output, target, reduction="sum")

    found = evaluation(net, plane, summed)
    assert len(found._batches) == 3
    np.testing.assert_allclose(found.losses(POINTS), plain_loop(net, plane, nets.loader(net), summed), rtol=1e-5)


def test_unequal_batches_count_by_their_samples() -> None:
    net = nets.Mlp()
    plane = plane_of(net)
    batches = take_batches(nets.loader(net, batch_size=40), 96, 0)
    assert [batch.samples for batch in batches] == [40, 40, 16]
    whole = take_batches(nets.loader(net, batch_size=96), 96, 0)
    options = EvaluationOptions(use_structure=False)
    found = [loss_on_plane(MeanLoss(net, nets.LOSS), plane, b, CPU, options).losses(POINTS) for b in (batches, whole)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_the_module_and_the_random_state_are_as_before() -> None:
    net = nets.ConvNet().train()
    net[3].eval()
    found = evaluation(net, plane_of(net), train_mode=True)
    before = copy.deepcopy(net.state_dict())
    modes = [module.training for module in net.modules()]
    state = torch.get_rng_state()
    found.losses(POINTS)
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert [module.training for module in net.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)


def test_training_mode_draws_the_same_dropout_at_every_point() -> None:
    net = nets.ConvNet()
    found = evaluation(net, plane_of(net), train_mode=True)
    once, again = found.losses(POINTS), found.losses(POINTS[::-1])[::-1]
    np.testing.assert_array_equal(once, again)
    assert not np.allclose(once, evaluation(net, plane_of(net)).losses(POINTS), rtol=1e-3)


def test_a_lightning_module_gives_its_loss_by_its_training_step() -> None:
    net = nets.Lit()
    plane = plane_of(net)
    expected = plain_loop(net, plane, nets.loader(net), lambda output, target: nets.LOSS(output, target))
    np.testing.assert_allclose(evaluation(net, plane, None).losses(POINTS), expected, rtol=1e-5)


def test_half_precision_parameters_move_in_float32_and_run_in_their_own_type() -> None:
    net = nets.Mlp().bfloat16()
    plane = plane_of(net)
    batches = take_batches([(x.bfloat16(), y) for x, y in nets.loader(net)], 96, 0)
    found = loss_on_plane(MeanLoss(net, nets.LOSS), plane, batches, CPU, EvaluationOptions(use_structure=False))
    exact = plain_loop(net.float(), plane, nets.loader(net))
    np.testing.assert_allclose(found.losses(POINTS), exact, rtol=0.05)


def test_compiled_losses_are_the_same() -> None:
    net = nets.Mlp()
    plane = plane_of(net)
    expected = evaluation(net, plane).losses(POINTS)
    np.testing.assert_allclose(evaluation(net, plane, compile=True).losses(POINTS), expected, rtol=1e-5)


def test_a_module_without_a_loss_says_what_to_pass() -> None:
    with pytest.raises(TypeError, match="pass loss_fn"):
        MeanLoss(nets.Mlp())
    with pytest.raises(TypeError, match=r"\(\*inputs, target\), not dict"):
        MeanLoss(nets.Mlp(), nets.LOSS)({"x": torch.zeros(2, 80)}, 0)
