"""A mistake of gradients is named beside one of the forward pass that cannot have caused it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mindsummary_lightning import PortReport, StepRecorder, check_port
from tests.porting.port_check.one_step import check, mean_square, places, record, with_weights_of

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
Change = Callable[[nn.Module], None]


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


class Tied(nn.Module):
    """An embedding whose weight is used again at the end, with code before and after a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(12, 8)
        self.layer, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)
        self.scale, self.last = 4.0, 1.0

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.layer(self.tokens(x) * self.scale))
        return self.last * h @ self.tokens.weight.T


def tied_report(
    folder: Path, *changes: Change, loss: Callable[..., Tensor] = mean_square
) -> PortReport:
    original = Tied()
    record(folder, original, (torch.arange(15).reshape(3, 5) % 12, torch.randn(20)))
    port = with_weights_of(Tied(), original)
    for change in changes:
        change(port)
    return check(folder, port, loss)


def unscaled(port: nn.Module) -> None:
    port.scale = 1.0  # type: ignore[assignment]


def hooked(name: str) -> Change:
    def change(port: nn.Module) -> None:
        port.get_parameter(name).register_hook(lambda gradient: 2 * gradient)

    return change


def padded(port: nn.Module) -> None:
    port.tokens.padding_idx = 1  # type: ignore[union-attr,assignment]


@pytest.mark.parametrize("name", ["layer.weight", "tokens.weight"])
def test_a_hook_on_a_weight_is_named_beside_wrong_code_around_it(name: str, tmp_path: Path) -> None:
    report = tied_report(tmp_path, unscaled, hooked(name))

    module = name.rpartition(".")[0]
    assert places(report) == [("", "inputs"), (module, "weight gradient")]
    assert "hook" in report.findings[1].sentence


def test_a_hook_on_a_weight_is_named_beside_a_penalty_of_all_weights(tmp_path: Path) -> None:
    original = Tied()
    record(tmp_path, original, (torch.randint(0, 12, (3, 5)), torch.randn(20)))
    port = with_weights_of(Tied(), original)
    hooked("layer.weight")(port)

    def loss(output: Tensor, target: Tensor) -> Tensor:
        penalty = sum(weight.square().sum() for weight in port.parameters())
        return mean_square(output, target) + 0.01 * penalty

    assert places(check(tmp_path, port, loss)) == [("", "loss"), ("layer", "weight gradient")]


def test_a_hook_that_the_original_has_too_is_no_mistake(tmp_path: Path) -> None:
    original = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    original[0].weight.register_hook(lambda gradient: 2 * gradient)
    port = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    with_weights_of(port, original)
    port[0].weight.register_hook(lambda gradient: 2 * gradient)
    record_in_place(tmp_path, original)

    assert places(check(tmp_path, port)) == []


def record_in_place(folder: Path, network: nn.Module) -> None:
    """Record a network itself: a copy would have no hooks on its weights."""
    x, y = torch.randn(5, 4), torch.randn(10)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    with StepRecorder(folder, 1, whole_tensors=True).step(network, optimizer, (x, y)) as loss_is:
        loss = mean_square(network(x), y)
        loss_is(loss)
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("first", ["code before the weight's last use", "loss"])
def test_rows_without_gradient_are_named_beside_a_mistake_that_does_not_touch_them(
    first: str, tmp_path: Path
) -> None:
    changes = [padded] if first == "loss" else [unscaled, padded]

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return mean_square(output, target) * (2 if first == "loss" else 1)

    report = tied_report(tmp_path, *changes, loss=loss)

    cause = ("", "loss") if first == "loss" else ("", "inputs")
    assert places(report) == [cause, ("tokens", "weight gradient")]


def test_the_gradient_of_a_tied_weight_follows_from_code_after_its_use(tmp_path: Path) -> None:
    def rescaled(port: nn.Module) -> None:
        port.last = 2.0  # type: ignore[assignment]

    report = tied_report(tmp_path, rescaled)

    assert places(report) == [("", "output")]
    assert "weight gradient" in {each.kind for each in report.findings[0].consequences}


# ---- the update


def test_a_weight_that_no_optimizer_has_is_named_beside_another_rate(tmp_path: Path) -> None:
    original = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    record(tmp_path, original, (torch.randn(5, 4), torch.randn(10)))
    port = with_weights_of(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), original)

    def optimizer(network: nn.Module) -> torch.optim.Optimizer:
        weights = [each for name, each in network.named_parameters() if name != "2.weight"]
        return torch.optim.SGD(weights, lr=0.11, momentum=0.9)

    report = check(tmp_path, port, optimizer=optimizer)

    assert places(report) == [("2", "update"), ("", "update")]
    assert (
        report.findings[0].sentence
        == "The original's step changes weight 2.weight, but the port's step does not."
    )
    assert "lr is 0.11" in report.findings[1].sentence


def adam(network: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(network.parameters(), 1e-3)


@pytest.mark.parametrize("way", ["norm", "value", "factor"])
def test_gradients_that_are_changed_before_the_step_are_named_where_adam_hides_it(
    way: str, tmp_path: Path
) -> None:
    original = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    record(tmp_path, original, (torch.randn(5, 4), torch.randn(10)), optimizer=adam)
    port = with_weights_of(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), original)

    stepping = adam(port)

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        stepping.zero_grad()
        loss = mean_square(port(batch[0]), batch[1])
        loss.backward()
        if way == "norm":
            nn.utils.clip_grad_norm_(port.parameters(), 1e-3)
        elif way == "value":
            nn.utils.clip_grad_value_(port.parameters(), 1e-4)
        else:
            for weight in port.parameters():
                weight.grad.mul_(3)  # type: ignore[union-attr]
        stepping.step()
        return loss

    report = check_port(port, tmp_path, step)

    assert places(report) == [("", "update")]
    assert "The optimizer gets gradients that differ" in report.findings[0].sentence


def test_settings_without_an_effect_in_the_step_are_no_finding_but_are_said(tmp_path: Path) -> None:
    original = nn.Linear(4, 2)
    record(tmp_path, original, (torch.randn(5, 4), torch.randn(10)), optimizer=adam)
    port = with_weights_of(nn.Linear(4, 2), original)

    def optimizer(network: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(network.parameters(), 1e-3, betas=(0.8, 0.999))

    report = check(tmp_path, port, optimizer=optimizer)

    assert places(report) == []
    assert "betas.0 is 0.8, in the original 0.9" in str(report.not_tested[0].reason)


# ---- arguments and precision


def test_a_step_that_calls_no_module_says_so(tmp_path: Path) -> None:
    original = nn.Linear(4, 2)
    record(tmp_path, original, (torch.randn(5, 4), torch.randn(10)))
    port = with_weights_of(nn.Linear(4, 2), original)

    report = check_port(port, tmp_path, lambda batch: None)

    assert "not tested: modules: the step has called no module of the original" in report.text()


class Crossed(nn.Module):
    """Attention of a sequence to a memory, or to itself by mistake."""

    def __init__(self, is_wrong: bool) -> None:
        super().__init__()
        self.is_wrong = is_wrong
        self.first, self.inner, self.last = nn.Linear(8, 8), Pair(), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        memory, h = self.first(x), self.last(x)
        return self.inner(h, h if self.is_wrong else memory)


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        return self.query(x) * self.key(memory).tanh()


def test_a_tensor_that_is_passed_twice_gets_the_value_of_each_place(tmp_path: Path) -> None:
    original = Crossed(is_wrong=False)
    record(tmp_path, original, (torch.randn(4, 8), torch.randn(16)))

    report = check(tmp_path, with_weights_of(Crossed(is_wrong=True), original))

    assert places(report) == [("", "inputs")]


class Bare(nn.Module):
    """Code with weights of its own, before any module is called."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.head = nn.Parameter(torch.randn(8, 8)), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x + F.silu(x @ self.weight))


def test_code_under_autocast_is_judged_with_the_tolerance_of_its_precision(tmp_path: Path) -> None:
    original = Bare()
    record(tmp_path, original, (torch.randn(16, 8), torch.randn(16)))
    port = with_weights_of(Bare(), original)

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return mean_square(output.float(), target)

    with torch.autocast("cpu", torch.bfloat16):
        assert places(check(tmp_path, port, loss)) == []
