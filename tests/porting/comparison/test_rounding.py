"""Rounding grows from step to step.

Activations change their side of zero, and Adam makes whole steps of noise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from mindsummary_lightning import StepRecorder, compare_runs
from mindsummary_lightning.values.step_chain import sample_places

Rule = Callable[[int, torch.optim.Optimizer], object]
Slopes = Callable[[Any], object]


def _zero(step: int, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()


def _kept(step: int, optimizer: torch.optim.Optimizer) -> None:
    if step != 3:
        optimizer.zero_grad()


def _halved(step: int, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    if step == 3:
        optimizer.param_groups[0]["lr"] /= 2


def _network(kind: str) -> nn.Module:
    if kind == "attention":
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True)
        encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        return nn.Sequential(nn.Embedding(64, 32), encoder, nn.Flatten(), nn.Linear(32 * 192, 10))
    widths = [3, 16, 16, 32, 32]
    blocks = [
        nn.Sequential(nn.Conv2d(a, b, 3, 1, 1), nn.BatchNorm2d(b), nn.ReLU())
        for a, b in itertools.pairwise(widths)
    ]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


def _train(
    run: Path, kind: str, end_step: Rule = _zero, *, has_other_kernels: bool = False
) -> Path:
    torch.manual_seed(3)
    network = _network(kind)
    optimizer, recorder = torch.optim.Adam(network.parameters(), 1e-2), StepRecorder(run, 5)
    for step in range(1, 6):
        inputs = torch.randint(64, (8, 192)) if kind == "attention" else torch.randn(8, 3, 24, 24)
        with (
            torch.backends.mkldnn.flags(enabled=not has_other_kernels),
            recorder.step(network, optimizer, inputs) as loss_is,
        ):
            loss = cross_entropy(network(inputs), torch.arange(8))
            loss_is(loss)
            loss.backward()
            optimizer.step()
            end_step(step, optimizer)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["convolutions", "attention"])
def test_what_rounds_differently_does_not_part(kind: str, tmp_path: Path) -> None:
    first = _train(tmp_path / "a", kind)

    assert (
        compare_runs(first, _train(tmp_path / "b", kind, has_other_kernels=True)).first_difference
        is None
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["convolutions", "attention"])
def test_a_rate_that_a_later_step_halves_is_named(kind: str, tmp_path: Path) -> None:
    first = _train(tmp_path / "a", kind)
    other = _train(tmp_path / "b", kind, _halved, has_other_kernels=True)
    found = compare_runs(first, other).first_difference

    assert found is not None
    assert (found.step, [setting.name for setting in found.settings]) == (4, ["lr"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["convolutions", "attention"])
def test_gradients_that_a_later_step_keeps_are_not_the_same(kind: str, tmp_path: Path) -> None:
    first = _train(tmp_path / "a", kind)
    comparison = compare_runs(first, _train(tmp_path / "b", kind, _kept, has_other_kernels=True))

    assert comparison.verdict in ("different", "undecided")
    assert comparison.first_difference is None or comparison.first_difference.stage is None


@pytest.mark.parametrize("decay", [0.01, 0.0])
@pytest.mark.parametrize("rate", [1e-2, 2e-2])
def test_what_decay_leaves_of_a_gradient_may_be_rounding(
    decay: float, rate: float, tmp_path: Path
) -> None:
    torch.manual_seed(2)
    # decay takes off the first, or nothing
    inputs, slopes = torch.randn(8, 32), torch.tensor([-0.01, -0.5]).repeat(16)
    for run, noise in (("a", 0.0), ("b", 0.01)):  # as of bfloat16
        scale = nn.LayerNorm(32, bias=False)
        scale.weight.register_hook(
            lambda slope, noise=noise: slopes * (1 + noise * torch.linspace(-1, 1, 32))
        )
        optimizer = torch.optim.Adam(
            scale.parameters(), 1e-2 if run == "a" else rate, weight_decay=decay
        )
        with StepRecorder(tmp_path / run, 1).step(scale, optimizer, inputs) as loss_is:
            loss_is(loss := scale(inputs).square().mean())
            loss.backward()
            optimizer.step()
    first = compare_runs(tmp_path / "a", tmp_path / "b", tolerance="bfloat16").first_difference

    assert (first and first.stage) == (None if rate == 1e-2 else "update")


@pytest.mark.parametrize("has_dropout", [True, False])
def test_what_a_module_without_weights_does_otherwise_behind_a_bias_without_effect_is_named(
    has_dropout: bool, tmp_path: Path
) -> None:
    """The bias before a normalization drifts so far that a later output could hide there."""
    for run, sign in (("a", 1), ("b", -1)):
        torch.manual_seed(0)
        network = nn.Sequential(
            nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.1), nn.Linear(16, 4)
        )
        network[0].bias.register_hook(lambda slope, sign=sign: sign * slope)  # type: ignore[operator,union-attr]
        optimizer, recorder = (
            torch.optim.Adam(network.parameters(), 0.1),
            StepRecorder(tmp_path / run, 4),
        )
        for step in range(1, 5):
            torch.manual_seed(step)
            network[2].train(run == "a" or step != 4 or has_dropout)
            with recorder.step(network, optimizer, inputs := torch.randn(8, 8)) as loss_is:
                optimizer.zero_grad()
                loss_is(loss := cross_entropy(network(inputs), torch.arange(8) % 4))
                loss.backward()
                optimizer.step()
    first = compare_runs(tmp_path / "a", tmp_path / "b").first_difference

    assert (first and (first.stage, first.step, first.location and first.location.baseline)) == (
        None if has_dropout else (None, 4, None)
    )


class _Spread(nn.Module):
    """Moves two elements of its inputs, which leaves averages as they are."""

    def __init__(self, far: float) -> None:
        super().__init__()
        self.far = far

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        change = torch.zeros_like(inputs)
        change[0, 0], change[2, 2] = self.far, -self.far
        return inputs + change


def _loop(
    run: Path, network: nn.Module, steps: int, rate: float, scaled: float = 1.0, slopes: Slopes = id
) -> Path:
    """Train on batches that are ``scaled`` in the last step alone, inside the step."""
    optimizer, recorder = torch.optim.SGD(network.parameters(), rate), StepRecorder(run, steps)
    for step in range(1, steps + 1):
        inputs = torch.randn(16, 8, generator=torch.Generator().manual_seed(step))
        with recorder.step(network, optimizer, inputs) as loss_is:
            loss = network(inputs * scaled if step == steps else inputs).square().mean()
            loss_is(loss)
            optimizer.zero_grad()
            loss.backward()
            slopes((step, network))
            optimizer.step()
    return run


def _layers(rounded: float = 0.0) -> nn.Sequential:
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(1 + rounded * torch.randn_like(weight))
    return network


def test_what_an_activation_leaves_of_its_inputs_may_be_rounded_as_they_are(tmp_path: Path) -> None:
    runs = []
    for name, far in (("a", 0.0), ("b", 3e-7)):
        network = nn.Sequential(_layers(), nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 1))
        torch.manual_seed(2)
        with torch.no_grad():
            network[1].weight.normal_(0, 0.01)
            network[1].bias.fill_(-1.0 - far)
            network[1].bias[0] = 0.01 + far  # the only one that is active
            network[3].weight.fill_(0.1)
        runs.append(_loop(tmp_path / name, network, 1, 0.0))

    assert compare_runs(*runs).verdict == "same"


@pytest.mark.slow
def test_inputs_that_are_scaled_late_are_no_drift_of_weights(tmp_path: Path) -> None:
    """Weights may have drifted by rounding of gradients, but not beyond the outputs."""
    first = _loop(tmp_path / "a", _layers(), 40, 1.0)
    found = compare_runs(
        first, _loop(tmp_path / "b", _layers(3e-7), 40, 1.0, 1.006)
    ).shown_difference

    assert found is not None
    assert found.step == 40


def test_a_gradient_that_is_doubled_is_named_though_gradients_were_apart(tmp_path: Path) -> None:
    def rounded(at: tuple[int, nn.Module]) -> None:
        step, network = at
        torch.manual_seed(step)
        for name, weight in network.named_parameters():
            assert weight.grad is not None
            weight.grad *= 1 + {2: 5e-3, 3: 2e-2}.get(step, 0.0) * torch.randn_like(weight)
            weight.grad *= 2.0 if (step, name) == (4, "0.weight") else 1.0

    first = _loop(tmp_path / "a", _layers(), 4, 0.0)
    comparison = compare_runs(first, _loop(tmp_path / "b", _layers(), 4, 0.0, slopes=rounded))
    found = comparison.undecided_difference

    assert found is not None
    assert (found.step, found.stage, comparison.doubt) == (2, "gradients", "later step")


def test_a_loss_may_be_apart_by_what_single_elements_before_it_are(tmp_path: Path) -> None:
    def train(name: str, far: float) -> Path:
        network, recorder = (
            nn.Sequential(nn.Linear(4, 4, bias=False), _Spread(far)),
            StepRecorder(tmp_path / name, 1),
        )
        nn.init.eye_(network[0].weight)
        optimizer = torch.optim.SGD(network.parameters(), 0.0)
        inputs = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 2.0]).unsqueeze(1).expand(6, 4).contiguous()
        with recorder.step(network, optimizer, inputs) as loss_is:
            output = network(inputs)
            loss = (output[0, 0] + output[1, 1]) / 2
            loss_is(loss)
            loss.backward()
            optimizer.step()
        return tmp_path / name

    assert compare_runs(train("a", 0.0), train("b", 4e-6)).verdict == "same"


@pytest.mark.parametrize(
    ("dtype", "name"), [(torch.bfloat16, "bfloat16"), (torch.float16, "float16")]
)
def test_a_loop_whose_modules_compute_in_half_precision_is_compared_by_it(
    dtype: torch.dtype, name: str, tmp_path: Path
) -> None:
    """A recorder of loops states no precision."""
    with torch.autocast("cpu", dtype):
        runs = [
            _loop(tmp_path / run, _layers(far), 2, 0.1) for run, far in (("a", 0.0), ("b", 1e-4))
        ]
    comparison = compare_runs(*runs)

    assert (comparison.verdict, comparison.tolerance.name) == ("same", name)


def _with_gradient_of_bias(
    run: Path, gradient: torch.Tensor, precision: torch.dtype = torch.float32
) -> Path:
    """Record a step in which a bias gets a gradient, relative to the largest gradient."""

    def replace(at: tuple[int, nn.Module]) -> None:
        gradients = [weight.grad for weight in at[1].parameters() if weight.grad is not None]
        largest = max(float(each.square().mean().sqrt()) for each in gradients)
        gradients[1].copy_(gradient * largest)

    with torch.autocast("cpu", precision, enabled=precision != torch.float32):
        return _loop(run, _layers(), 1, 0.1, slopes=replace)


@pytest.mark.parametrize(("precision", "size"), [(torch.bfloat16, 7.9e-3), (torch.float16, 9e-4)])
def test_a_gradient_that_is_zero_but_for_the_rounding_of_half_precision_may_differ(
    precision: torch.dtype, size: float, tmp_path: Path
) -> None:
    """The bias of attention's keys, or a bias before a normalization, has no effect."""
    ones = torch.ones(16)
    exact = _with_gradient_of_bias(tmp_path / "a", 3e-8 * ones)
    rounded = _with_gradient_of_bias(tmp_path / "b", size * ones, precision)
    rounded_again = _with_gradient_of_bias(tmp_path / "c", -size * ones, precision)

    assert compare_runs(exact, rounded).verdict == "same"
    assert compare_runs(rounded, rounded_again).verdict == "same"


def test_a_small_gradient_with_the_other_sign_is_named_if_one_run_computed_it_in_float32(
    tmp_path: Path,
) -> None:
    ones = torch.ones(16)
    exact = _with_gradient_of_bias(tmp_path / "a", 7.9e-3 * ones)
    other = _with_gradient_of_bias(tmp_path / "b", -7.9e-3 * ones, torch.bfloat16)
    found = compare_runs(exact, other).first_difference

    assert found is not None
    assert [tensor.candidate for tensor in found.tensors] == ["0.bias"]


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_labels_of_other_samples_are_named_in_half_precision(
    precision: str, tmp_path: Path
) -> None:
    """The loss hardly changes, and each gradient stays within its own tolerance."""
    inputs, labels = torch.randn(64, 16), torch.arange(64) % 4
    for run, shift in (("a", 0), ("b", 1)):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
        optimizer = torch.optim.SGD(net.parameters(), 1e-3)
        given = labels.roll(shift)
        with StepRecorder(tmp_path / run, 1).step(net, optimizer, (inputs, given)) as loss_is:
            loss_is(loss := cross_entropy(net(inputs), given))
            loss.backward()
            optimizer.step()
    found = compare_runs(tmp_path / "a", tmp_path / "b", tolerance=precision).first_difference

    assert found is not None
    assert found.stage == "data"


@pytest.mark.parametrize("has_other_gradient", [False, True])
def test_weights_of_half_precision_may_be_rounded_apart_if_their_gradients_differ(
    has_other_gradient: bool, tmp_path: Path
) -> None:
    """A weight of 1 stays or becomes 1 - 2**-8, by a percent of its gradient."""
    inputs = torch.randn(8, 16, dtype=torch.bfloat16)
    for run, factor in (("a", 1 - 2**-8), ("b", 1 + 2**-7)):
        layer = nn.Linear(16, 16).bfloat16()
        gradient, rate = (factor, 2**-9) if has_other_gradient else (1.0, 2**-9 * factor)
        optimizer = torch.optim.SGD(layer.parameters(), rate)
        for weight in layer.parameters():
            nn.init.ones_(weight)
        with StepRecorder(tmp_path / run, 1).step(layer, optimizer, inputs) as loss_is:
            loss_is(loss := layer(inputs).float().square().mean())
            loss.backward()
            for weight in layer.parameters():
                weight.grad.fill_(gradient)  # type: ignore[union-attr]
            optimizer.step()
    found = compare_runs(tmp_path / "a", tmp_path / "b").first_difference

    assert (found is None) == has_other_gradient


class _Uneven(torch.optim.SGD):
    """Moves two elements that no sample shows, in opposite directions."""

    def step(self, closure: Any = None) -> None:
        super().step(closure)
        weight = self.param_groups[0]["params"][0].view(-1)
        hidden = sorted({*range(len(weight))} - {*sample_places(len(weight)).tolist()})[:2]
        with torch.no_grad():
            weight[hidden] += torch.tensor([0.05, -0.05])


def test_an_update_of_other_elements_than_the_samples_differs(tmp_path: Path) -> None:
    """Their mean agrees, too: a decay of the weights moves them to both sides of it."""
    for run, kind in (("a", torch.optim.SGD), ("b", _Uneven)):
        torch.manual_seed(4)
        network = nn.Linear(16, 16)
        optimizer = kind(network.parameters(), 0.1)
        with StepRecorder(tmp_path / run, 1).step(network, optimizer) as loss_is:
            loss_is(loss := network(torch.ones(8, 16)).square().mean())
            loss.backward()
            optimizer.step()
    first = compare_runs(tmp_path / "a", tmp_path / "b").first_difference

    assert first is not None
    assert (first.stage, first.tensors[0].baseline) == ("update", "weight")
