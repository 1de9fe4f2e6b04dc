"""A port in torch: what is right is not reported, what is wrong is, at its place."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from mindsummary_lightning import StepRecorder, check_port
from tests.porting.port_check.one_step import check, mean_square, places, record, with_weights_of

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def images(channels: int = 3, size: int = 8) -> tuple[Tensor, ...]:
    return torch.randn(4, channels, size, size), torch.randn(8)


def sequences() -> tuple[Tensor, ...]:
    return torch.randn(4, 6, 8), torch.randn(16)


class Block(nn.Module):
    """Convolutions with a shortcut, and what may be otherwise in a port."""

    def __init__(self, way: str = "") -> None:
        super().__init__()
        self.way = way
        self.conv1, self.bn1 = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        if way != "functions":
            self.relu = nn.ReLU(inplace=way == "in_place")

    def act(self, x: Tensor) -> Tensor:
        return F.relu(x) if self.way == "functions" else self.relu(x)

    def forward(self, x: Tensor) -> Tensor:
        h = self.act(self.bn1(self.conv1(x)))
        h = self.bn2(self.conv2(h))
        if self.way == "shortcut_missing":
            return self.act(h)
        if self.way == "shortcut_scaled":
            return self.act(h + 1.001 * x)
        if self.way == "shortcut_detached":
            return self.act(h + x.detach())
        if self.way == "relu_missing":
            return h + x
        return self.act(h + x)


class Net(nn.Module):
    def __init__(self, **ways: str) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.pool = nn.MaxPool2d(3, 2, padding=0 if ways.get("pool") == "no_padding" else 1)
        self.block1, self.block2 = Block(ways.get("block1", "")), Block(ways.get("block2", ""))
        self.head = nn.Linear(8, 4)
        self.ways = ways

    def forward(self, x: Tensor) -> Tensor:
        h = self.block2(self.block1(self.pool(self.stem(x))))
        if self.ways.get("head") == "maximum":
            return self.head(h.amax((2, 3)))
        return self.head(h.mean((2, 3)))


@pytest.mark.parametrize("way", ["", "functions", "in_place"])
def test_a_port_that_is_right_has_no_findings(way: str, tmp_path: Path) -> None:
    original, batch = Net(), images()
    record(tmp_path, original, batch, steps=2)

    report = check(tmp_path, with_weights_of(Net(block1=way, block2=way), original))

    assert places(report) == []
    assert report.paired_calls >= 2 * 9
    assert report.agreed > 100
    assert report.to_dict()["findings"] == []


@pytest.mark.parametrize(
    ("ways", "module", "kind"),
    [
        ({"block1": "shortcut_missing"}, "block1", "output"),
        ({"block2": "shortcut_scaled"}, "block2", "inputs"),
        ({"block2": "relu_missing"}, "block2", "output"),
        ({"block1": "shortcut_detached"}, "block1", "gradient"),
        ({"head": "maximum"}, "", "inputs"),
    ],
)
def test_a_mistake_is_reported_once_at_its_module(
    ways: dict[str, str], module: str, kind: str, tmp_path: Path
) -> None:
    original, batch = Net(), images()
    record(tmp_path, original, batch)

    report = check(tmp_path, with_weights_of(Net(**ways), original))

    assert [finding.module for finding in report.findings] == [module]
    assert report.findings[0].kind == kind


def test_mistakes_are_all_found_in_one_run(tmp_path: Path) -> None:
    original, batch = Net(), images()
    record(tmp_path, original, batch)
    port = with_weights_of(Net(block1="shortcut_scaled", head="maximum"), original)
    port.block2.bn2.eps = 1e-2
    port.block1.conv1.padding_mode = "reflect"
    port.block1.conv1._reversed_padding_repeated_twice = [1, 1, 1, 1]

    report = check(tmp_path, port)

    assert sorted(places(report)) == [
        ("", "inputs"),
        ("block1", "inputs"),
        ("block1.conv1", "output"),
        ("block2.bn2", "output"),
    ]


def test_a_place_has_file_and_line_and_the_operations_there(tmp_path: Path) -> None:
    original, batch = Net(), images()
    record(tmp_path, original, batch)

    (finding,) = check(tmp_path, with_weights_of(Net(block2="shortcut_scaled"), original)).findings

    assert [each.name for each in finding.operations] == ["mul", "add"]
    assert all("test_check_port.py:" in each.line for each in finding.operations)
    assert "test_check_port.py:" in finding.line
    assert "between block2.bn2 and block2.relu" in finding.sentence


def test_a_pool_of_another_size_is_reported_once_and_what_follows_is_judged(tmp_path: Path) -> None:
    original, batch = Net(), images()
    record(tmp_path, original, batch)
    port = with_weights_of(Net(pool="no_padding"), original)
    port.block2.bn1.eps = 1e-2

    report = check(tmp_path, port)

    assert places(report) == [("pool", "output"), ("block2.bn1", "output")]
    assert report.findings[0].shape_reference == (4, 8, 4, 4)
    assert report.findings[0].shape_port == (4, 8, 3, 3)


# ---- weights, batch, loss, update


def test_a_weight_that_was_not_transferred_is_reported(tmp_path: Path) -> None:
    original, batch = Net(), images()
    record(tmp_path, original, batch)
    port = with_weights_of(Net(), original)
    with torch.no_grad():
        port.block1.conv2.weight.mul_(1.01)

    assert places(check(tmp_path, port)) == [("block1.conv2", "weights")]


def test_weights_that_were_not_transferred_at_all_are_one_finding(tmp_path: Path) -> None:
    record(tmp_path, Net(), images())

    report = check(tmp_path, Net())

    assert places(report) == [("", "weights")]
    assert "transfer the original's weights" in report.findings[0].sentence


def test_a_loss_that_differs_is_reported_and_its_gradients_follow_from_it(tmp_path: Path) -> None:
    original, batch = Net(), images()
    record(tmp_path, original, batch)

    report = check(
        tmp_path,
        with_weights_of(Net(), original),
        lambda x, y: (x.flatten()[:8] - y).square().sum() / 9,
    )

    assert places(report) == [("", "loss")]
    assert {each.kind for each in report.findings[0].consequences} <= {
        "gradient",
        "weight gradient",
    }


def test_settings_of_an_optimizer_that_differ_are_named(tmp_path: Path) -> None:
    original, batch = Net(), images()
    record(tmp_path, original, batch)

    def optimizer(network: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(network.parameters(), lr=0.11, momentum=0.9)

    report = check(tmp_path, with_weights_of(Net(), original), optimizer=optimizer)

    assert places(report) == [("", "update")]
    assert "lr is 0.11, in the original 0.1" in report.findings[0].sentence


def test_a_frozen_weight_has_no_gradient(tmp_path: Path) -> None:
    original, batch = Net(), images()
    record(tmp_path, original, batch)
    port = with_weights_of(Net(), original)
    port.block1.conv2.weight.requires_grad_(False)

    assert places(check(tmp_path, port)) == [("block1.conv2", "no gradient")]


def test_a_weight_gradient_that_is_scaled_is_named_beside_a_wrong_loss(tmp_path: Path) -> None:
    original, batch = Net(), images()
    record(tmp_path, original, batch)
    port = with_weights_of(Net(), original)
    port.head.weight.register_hook(lambda gradient: 2 * gradient)

    report = check(tmp_path, port, lambda output, target: 3 * mean_square(output, target))

    assert places(report) == [("", "loss"), ("head", "weight gradient")]


def test_momentum_of_a_running_statistic_is_an_update(tmp_path: Path) -> None:
    original, batch = Net(), images()
    record(tmp_path, original, batch)
    port = with_weights_of(Net(), original)
    port.block1.bn2.momentum = 0.2

    assert {*places(check(tmp_path, port))} == {("block1.bn2", "update")}


# ---- other structures that are right


class Concatenated(nn.Module):
    def __init__(self, takes_list: bool) -> None:
        super().__init__()
        self.takes_list = takes_list
        self.first, self.second, self.mix = nn.Linear(8, 4), nn.Linear(8, 4), Mix()

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.first(x), self.second(x)]
        return self.mix(parts if self.takes_list else torch.cat(parts, 1))


class Mix(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: Any) -> Tensor:
        return self.linear(torch.cat(x, 1) if isinstance(x, list) else x)


def test_a_list_is_compared_with_its_concatenation(tmp_path: Path) -> None:
    original = Concatenated(takes_list=False)
    record(tmp_path, original, (torch.randn(6, 8), torch.randn(12)))

    report = check(tmp_path, with_weights_of(Concatenated(takes_list=True), original))

    assert places(report) == []


class Fused(nn.Sequential):
    """A normalization with its activation, as one module."""

    def __init__(self) -> None:
        super().__init__(nn.Conv2d(3, 8, 3), NormAct(8), nn.Conv2d(8, 4, 1))


class NormAct(nn.BatchNorm2d):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).relu()


def test_a_fused_module_is_another_structure(tmp_path: Path) -> None:
    original = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1))
    record(tmp_path, original, images())

    assert places(check(tmp_path, with_weights_of(Fused(), original))) == []


class LastAct(nn.Module):
    def __init__(self, is_inside: bool) -> None:
        super().__init__()
        layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)]
        self.body = nn.Sequential(*layers, nn.ReLU()) if is_inside else nn.Sequential(*layers)
        self.act = nn.Identity() if is_inside else nn.ReLU()
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.act(self.body(x)))


def test_a_container_may_end_before_its_last_activation(tmp_path: Path) -> None:
    original = LastAct(is_inside=True)
    record(tmp_path, original, images())

    assert places(check(tmp_path, with_weights_of(LastAct(is_inside=False), original))) == []


class Ties(nn.Module):
    def __init__(self, is_flipped: bool) -> None:
        super().__init__()
        self.conv, self.relu, self.head = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Linear(8, 2)
        self.is_flipped = is_flipped

    def forward(self, x: Tensor) -> Tensor:
        h = self.relu(self.conv(x) - 1.0)
        if self.is_flipped:  # of equal elements another one receives the gradient
            h = F.max_pool2d(h.flip(2, 3), 3).flip(2, 3)
        else:
            h = F.max_pool2d(h, 3)
        return self.head(h.mean((2, 3)))


def test_gradients_of_equal_maxima_may_go_to_any_of_them(tmp_path: Path) -> None:
    original = Ties(is_flipped=False)
    record(tmp_path, original, images())

    assert places(check(tmp_path, with_weights_of(Ties(is_flipped=True), original))) == []


class ChannelsLast(nn.Module):
    """Holds images as NHWC between its convolutions."""

    def __init__(self, is_last: bool) -> None:
        super().__init__()
        self.conv, self.act, self.head = nn.Conv2d(3, 8, 3), nn.GELU(), nn.Linear(8, 2)
        self.is_last = is_last

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv(x)
        h = self.act(h.permute(0, 2, 3, 1)) if self.is_last else self.act(h)
        return self.head(h.mean((1, 2) if self.is_last else (2, 3)))


def test_another_layout_is_no_mistake(tmp_path: Path) -> None:
    original = ChannelsLast(is_last=False)
    record(tmp_path, original, images())

    assert places(check(tmp_path, with_weights_of(ChannelsLast(is_last=True), original))) == []


class Attention(nn.Module):
    def __init__(self, way: str = "") -> None:
        super().__init__()
        self.way = way
        if way in ("fused", "fused_wrong"):
            self.qkv = nn.Linear(8, 24)
        else:
            self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.out = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        if hasattr(self, "qkv"):
            q, k, v = self.qkv(x).chunk(3, -1)
        else:
            q, k, v = self.q(x), self.k(x), self.v(x)
        scores = q @ k.mT / (8**0.5 if self.way != "fused_wrong" else 4.0)
        if self.way == "detached":
            scores = scores.detach()
        return self.out(scores.softmax(-1) @ v)


class Transformer(nn.Module):
    def __init__(self, way: str = "") -> None:
        super().__init__()
        self.norm, self.attn, self.head = nn.LayerNorm(8), Attention(way), nn.Linear(8, 2)
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x + self.attn(self.norm(x)))


def fused(original: Transformer, way: str) -> Transformer:
    port = Transformer(way)
    state = original.state_dict()
    for last in ("weight", "bias"):
        state[f"attn.qkv.{last}"] = torch.cat([state.pop(f"attn.{name}.{last}") for name in "qkv"])
    port.load_state_dict(state)
    return port


@pytest.mark.parametrize(("way", "found"), [("fused", []), ("fused_wrong", [("attn", "inputs")])])
def test_query_key_and_value_may_be_one_layer(
    way: str, found: list[tuple[str, str]], tmp_path: Path
) -> None:
    original = Transformer()
    record(tmp_path, original, sequences(), steps=2)

    assert places(check(tmp_path, fused(original, way))) == found


def test_scores_that_are_detached_stop_the_gradient(tmp_path: Path) -> None:
    original = Transformer()
    record(tmp_path, original, sequences())

    report = check(tmp_path, with_weights_of(Transformer("detached"), original))

    assert places(report) == [("attn", "no gradient")]
    sentences = " ".join(
        [report.findings[0].sentence, *(each.sentence for each in report.findings[0].consequences)]
    )
    assert "attn.q" in sentences
    assert "attn.k" in sentences


@dataclass
class Output:
    hidden: Tensor
    parts: dict[str, Tensor]


class Nested(nn.Module):
    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.inner, self.head, self.scale = Inner(), nn.Linear(8, 2), scale

    def forward(self, x: Tensor) -> Tensor:
        output = self.inner(x, extra={"bias": x.mean()})
        return self.head(output.hidden + self.scale * output.parts["low"])


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor, extra: dict[str, Tensor]) -> Output:
        h = self.linear(x) + extra["bias"]
        return Output(h, {"low": h.tanh(), "high": h.exp()})


@pytest.mark.parametrize(("scale", "found"), [(1.0, []), (1.1, [("", "inputs")])])
def test_outputs_may_be_nested(scale: float, found: list[tuple[str, str]], tmp_path: Path) -> None:
    original = Nested()
    record(tmp_path, original, sequences())

    assert places(check(tmp_path, with_weights_of(Nested(scale), original))) == found


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool | None, eps: float = 1e-5) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8, eps)) for _ in range(2)
        )
        self.head, self.reentrant = nn.Linear(8, 2), reentrant

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for block in self.blocks:
            h = (
                block(h)
                if self.reentrant is None
                else checkpoint(block, h, use_reentrant=self.reentrant)
            )
        return self.head(h)


@pytest.mark.parametrize("reentrant", [True, False])
def test_blocks_may_be_computed_again_in_the_backward_pass(reentrant: bool, tmp_path: Path) -> None:
    original = Checkpointed(None)
    record(tmp_path, original, sequences())

    report = check(tmp_path, with_weights_of(Checkpointed(reentrant), original))
    wrong = check(tmp_path, with_weights_of(Checkpointed(reentrant, eps=1e-2), original))

    assert places(report) == []
    assert places(wrong) == [("blocks.0.2", "output"), ("blocks.1.2", "output")]


class Fallback(nn.Module):
    """Tries a module that raises, and computes the same in its own code."""

    def __init__(self, tries: bool = True, scale: float = 1.0) -> None:
        super().__init__()
        self.first, self.fast, self.second = nn.Linear(8, 8), Unsupported(), nn.Linear(8, 8)
        self.tries, self.scale = tries, scale

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        if self.tries:
            try:
                h = self.fast(h)
            except NotImplementedError:
                h = torch.relu(h) * self.scale
        else:
            h = torch.relu(h)
        return self.second(h)


class Unsupported(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError


@pytest.mark.parametrize(("scale", "found"), [(1.0, []), (1.01, [("0", "inputs")])])
def test_a_module_may_raise_an_error_that_the_port_catches(
    scale: float, found: list[tuple[str, str]], tmp_path: Path
) -> None:
    original = nn.Sequential(Fallback(tries=False), nn.GELU(), nn.Linear(8, 3))
    record(tmp_path, original, sequences())
    port = with_weights_of(
        nn.Sequential(Fallback(scale=scale), nn.GELU(), nn.Linear(8, 3)), original
    )

    report = check(tmp_path, port)

    assert places(report) == found


class Recurrent(nn.Module):
    def __init__(self, *, is_batch_first: bool = True, with_state: bool = False) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 8, num_layers=2, bidirectional=True, batch_first=is_batch_first)
        self.head, self.with_state, self.is_batch_first = (
            nn.Linear(16, 2),
            with_state,
            is_batch_first,
        )

    def forward(self, x: Tensor) -> Tensor:
        zeros = torch.zeros(4, x.shape[0], 8)
        state = (zeros, zeros.clone()) if self.with_state else None
        if not self.is_batch_first:
            h, _ = self.lstm(x.transpose(0, 1), state)
            return self.head(h.transpose(0, 1))
        return self.head(self.lstm(x, state)[0])


@pytest.mark.parametrize("ways", [{}, {"with_state": True}, {"is_batch_first": False}])
def test_an_lstm_of_several_layers_may_be_called_in_other_ways(
    ways: dict[str, bool], tmp_path: Path
) -> None:
    original = Recurrent()
    record(tmp_path, original, sequences())

    assert places(check(tmp_path, with_weights_of(Recurrent(**ways), original))) == []


class Masked(nn.Module):
    def __init__(self, way: str = "keep") -> None:
        super().__init__()
        self.inner, self.way = MaskedInner(way), way

    def forward(self, x: Tensor) -> Tensor:
        keep = torch.ones(6, 6, dtype=torch.bool).tril(-1 if self.way == "wrong" else 0)
        return self.inner(x, ~keep if self.way == "leave_out" else keep)


class MaskedInner(nn.Module):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.linear, self.way = nn.Linear(8, 8), way

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        h = self.linear(x)
        hidden = mask if self.way == "leave_out" else ~mask
        return (h @ h.mT).masked_fill(hidden, -1e9).softmax(-1) @ h


@pytest.mark.parametrize(("way", "found"), [("leave_out", []), ("wrong", [("", "inputs")])])
def test_a_mask_of_the_opposite_sense_is_no_mistake(
    way: str, found: list[tuple[str, str]], tmp_path: Path
) -> None:
    original = Masked()
    record(tmp_path, original, sequences())

    assert places(check(tmp_path, with_weights_of(Masked(way), original))) == found


class Dropping(nn.Module):
    def __init__(self, probability: float, *, is_function: bool = False) -> None:
        super().__init__()
        self.first, self.drop, self.head = nn.Linear(8, 8), nn.Dropout(probability), nn.Linear(8, 2)
        self.is_function = is_function

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        h = F.dropout(h, self.drop.p, self.training) if self.is_function else self.drop(h)
        return self.head(h)


def test_dropout_that_is_on_in_both_is_said_and_what_follows_is_judged(tmp_path: Path) -> None:
    original = Dropping(0.3)
    record(tmp_path, original, sequences())
    port = with_weights_of(Dropping(0.3), original)

    report = check(tmp_path, port)

    assert places(report) == []
    assert [each.what for each in report.not_tested] == ["drop (Dropout)"]
    assert "random numbers" in report.text()


@pytest.mark.parametrize(
    ("is_function", "module", "kind"), [(False, "drop", "output"), (True, "", "inputs")]
)
def test_dropout_that_only_the_port_has_is_a_mistake(
    is_function: bool, module: str, kind: str, tmp_path: Path
) -> None:
    original = Dropping(0.0)
    record(tmp_path, original, sequences())

    report = check(tmp_path, with_weights_of(Dropping(0.3, is_function=is_function), original))

    assert places(report) == [(module, kind)]


def test_rounding_of_a_badly_conditioned_module_is_measured(tmp_path: Path) -> None:
    class Cancels(nn.Module):
        def __init__(self, order: int) -> None:
            super().__init__()
            self.first, self.norm, self.head = nn.Linear(8, 8), Difference(order), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.norm(self.first(x)))

    class Difference(nn.Module):
        """Subtracts great numbers, in one order or another."""

        def __init__(self, order: int) -> None:
            super().__init__()
            self.order = order

        def forward(self, x: Tensor) -> Tensor:
            return (x + 1e3) - 1e3 if self.order else (x - 1e3) + 1e3

    original = Cancels(0)
    record(tmp_path, original, sequences())

    assert places(check(tmp_path, with_weights_of(Cancels(1), original))) == []


def test_rounding_is_measured_behind_other_modules_too(tmp_path: Path) -> None:
    class Waves(nn.Module):
        """Amplifies rounding, in one order of factors or another."""

        def __init__(self, factors: tuple[float, float]) -> None:
            super().__init__()
            self.factors = factors

        def forward(self, x: Tensor) -> Tensor:
            return torch.sin(x * self.factors[0] * self.factors[1])

    original, port = (
        nn.Sequential(nn.Linear(8, 8), Waves(factors), nn.Linear(8, 2))
        for factors in ((700, 3), (3, 700))
    )
    record(tmp_path, original, sequences())

    assert places(check(tmp_path, with_weights_of(port, original))) == []


def test_a_port_in_bfloat16_is_judged_by_its_tolerance(tmp_path: Path) -> None:
    original = Transformer()
    record(tmp_path, original, sequences())
    port = with_weights_of(Transformer(), original)
    optimizer = torch.optim.SGD(port.parameters(), lr=0.1, momentum=0.9)

    def step(batch: tuple[Tensor, ...]) -> Tensor:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            output = port(batch[0])
        loss = (output.float().flatten()[:16] - batch[1]).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    report = check_port(port, tmp_path, step)

    assert places(report) == []
    assert report.to_dict()["precision"] == "bfloat16"


# ---- the state afterwards


def states(network: nn.Module, optimizer: torch.optim.Optimizer) -> list[bytes]:
    """Everything that a training depends on, as bytes."""
    found: list[bytes] = [
        tensor.detach().numpy().tobytes() for tensor in network.state_dict().values()
    ]
    for parameter in network.parameters():
        found.append(b"" if parameter.grad is None else parameter.grad.numpy().tobytes())
    for state in optimizer.state.values():
        found.extend(
            value.numpy().tobytes() for value in state.values() if isinstance(value, Tensor)
        )
    found.extend(repr(group["lr"]).encode() for group in optimizer.param_groups)
    found += [torch.get_rng_state().numpy().tobytes(), repr(random.getstate()).encode()]
    found.append(np.random.get_state()[1].tobytes())  # noqa: NPY002
    found.append(repr([module.training for module in network.modules()]).encode())
    hooks = [(module._forward_hooks, module._forward_pre_hooks) for module in network.modules()]
    found.append(repr(hooks).encode())
    return found


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam])
def test_everything_is_as_before_and_a_training_goes_on_bit_for_bit(
    make: Callable[..., torch.optim.Optimizer], tmp_path: Path
) -> None:
    original, batch = Net(), images()
    record(tmp_path, original, batch, steps=2)
    port = with_weights_of(Net(block1="shortcut_scaled", pool="no_padding"), original)
    port.block2.eval()
    optimizer = make(port.parameters(), lr=0.1)

    def step(batch: tuple[Tensor, ...]) -> Tensor:
        optimizer.zero_grad()
        np.random.rand()  # noqa: NPY002
        loss = (port(batch[0]).flatten()[:8] - batch[1] * torch.rand(())).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    step(batch)  # so that the optimizer has a state
    other, other_optimizer = copy.deepcopy((port, optimizer))
    before = states(port, optimizer)
    random_state = torch.get_rng_state()

    check_port(port, tmp_path, step)

    assert states(port, optimizer) == before
    losses = [step(batch).item() for _ in range(3)]
    torch.set_rng_state(random_state)
    port, optimizer = other, other_optimizer
    assert [step(batch).item() for _ in range(3)] == losses


def test_an_error_of_the_users_own_is_raised_and_everything_is_as_before(tmp_path: Path) -> None:
    original, batch = Net(), images()
    record(tmp_path, original, batch)
    port = with_weights_of(Net(), original)
    optimizer = torch.optim.SGD(port.parameters(), lr=0.1)
    before = states(port, optimizer)

    def step(batch: tuple[Tensor, ...]) -> Tensor:
        port(batch[0])
        raise KeyError("of the user's own")

    with pytest.raises(KeyError, match="of the user's own"):
        check_port(port, tmp_path, step)
    assert states(port, optimizer) == before


def test_attributes_of_modules_are_given_back(tmp_path: Path) -> None:
    class Counting(nn.Linear):
        def __init__(self) -> None:
            super().__init__(8, 2)
            self.count, self.seen = 0, [0]

        def forward(self, x: Tensor) -> Tensor:
            self.count += 1
            self.seen.append(self.count)
            self.new = x
            return super().forward(x)

    original = Counting()
    record(tmp_path, original, sequences())
    port = with_weights_of(Counting(), original)

    check(tmp_path, port)

    assert (port.count, port.seen, hasattr(port, "new")) == (0, [0], False)


# ---- wrong uses


def test_a_wrong_use_is_one_clear_line(tmp_path: Path) -> None:
    original, batch = Net(), images()
    record(tmp_path / "whole", original, batch)
    StepRecorder(tmp_path / "plain", 1)
    (tmp_path / "plain").mkdir(exist_ok=True)

    def step(batch: Any) -> None:
        return None

    cases: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (
            FileNotFoundError,
            "does not exist",
            lambda: check_port(original, tmp_path / "none", step),
        ),
        (ValueError, "whole_tensors=True", lambda: check_port(original, tmp_path / "plain", step)),
        (
            ValueError,
            "steps must be recorded",
            lambda: check_port(original, tmp_path / "whole", step, [7]),
        ),
        (
            ValueError,
            "the port's weights",
            lambda: check_port(nn.LSTM(5, 7), tmp_path / "whole", step),
        ),
        (TypeError, "module must be", lambda: check_port(None, tmp_path / "whole", step)),  # type: ignore[arg-type]
        (TypeError, "step_function must be", lambda: check_port(original, tmp_path / "whole", 3)),  # type: ignore[arg-type]
    ]
    for kind, text, use in cases:
        with pytest.raises(kind, match=text) as caught:
            use()
        assert "\n" not in str(caught.value)


def test_a_step_that_is_too_large_leaves_no_file_and_states_its_size(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    network = Net()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    recorder = StepRecorder(tmp_path, 1, whole_tensors=True, whole_tensors_max_bytes=10_000)
    with recorder.step(network, optimizer, images()) as loss_is:
        loss = network(images()[0]).mean()
        loss_is(loss)
        loss.backward()
        optimizer.step()

    assert not [*tmp_path.glob("*.npz")]
    assert not [*tmp_path.glob("*.tmp")]
    assert "must have at most 0.0 MB, got " in caplog.text


def test_a_step_after_one_that_failed_is_checked_from_the_originals_optimizer_state(
    tmp_path: Path,
) -> None:
    class Fails(nn.Sequential):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            Fails.calls += 1
            if Fails.calls == 2:
                raise ValueError("odd value")
            return super().forward(x)

    original, batch = (
        nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)),
        (torch.randn(5, 3), torch.randn(10)),
    )
    record(tmp_path, original, batch, steps=3)

    report = check(tmp_path, with_weights_of(Fails(nn.Linear(3, 4), nn.Linear(4, 2)), original))

    assert places(report) == []
    assert [bool(step.paired_calls) for step in report.steps] == [True, False, True]
