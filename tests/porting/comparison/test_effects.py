"""A value without effect on loss and gradients is no difference; others are located."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mindsummary_lightning import Comparison, StepRecorder, compare_runs

Loss = Callable[[Any, torch.Tensor], torch.Tensor]


def _compared(tmp_path: Path, *runs: tuple[nn.Module, Any, Loss], steps: int = 1) -> Comparison:
    """Record two networks that begin with the weights of the first.

    Each has its own batches and its own loss.
    """
    state = [x.clone() for x in runs[0][0].state_dict().values()]
    for name, (net, batches, loss_of) in zip("ab", runs, strict=True):
        net.load_state_dict(dict(zip(net.state_dict(), state, strict=True)))
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        recorder = StepRecorder(tmp_path / name, steps)
        for batch in batches:
            with recorder.step(net, optimizer, batch) as loss_is:
                optimizer.zero_grad()
                loss_is(loss := loss_of(net(batch["x"]), batch["y"]))
                loss.backward()
                optimizer.step()
    return compare_runs(tmp_path / "a", tmp_path / "b")


def _batches(steps: int = 1) -> list[dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    return [{"x": torch.randn(6, 8), "y": torch.arange(6) % 4} for _ in range(steps)]


LAST: dict[str, tuple[nn.Module, nn.Module, Loss, Loss, bool]] = {
    "a logarithm": (nn.LogSoftmax(-1), nn.Identity(), F.nll_loss, F.cross_entropy, True),
    "a logarithm along the batch": (
        nn.LogSoftmax(0), nn.Identity(), F.nll_loss, F.cross_entropy, False
    ),
    "an epsilon": (
        nn.LayerNorm(4, 1e-6, False), nn.LayerNorm(4, 2e-6, False), F.cross_entropy,
        F.cross_entropy, False
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", LAST)
def test_what_a_loss_function_does_may_be_the_end_of_the_network(what: str, tmp_path: Path) -> None:
    *ends, loss_a, loss_b, is_right = LAST[what]
    nets = [nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4), end) for end in ends]
    comparison = _compared(tmp_path, (nets[0], _batches(), loss_a), (nets[1], _batches(), loss_b))

    first = comparison.first_difference
    assert first is None if is_right else first is not None and first.stage == "forward"
    assert comparison.output_statistics is not None
    for stage in comparison.output_statistics.shown.table.summaries():
        if stage.stage == "forward":
            assert stage.distance is not None
            assert is_right is (stage.distance < 1e-6)


def test_samples_in_another_order_are_the_same_training_in_later_steps_too(tmp_path: Path) -> None:
    class Rounded(nn.Linear):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            y = super().forward(x)
            if self.calls > 1:  # as rounding, which has grown
                y.register_hook(lambda slope: slope * (1 + 1e-4 * torch.randn_like(slope)))
            return y

    turned = [{name: x.flip(0) for name, x in batch.items()} for batch in _batches(3)]
    right = nn.Linear(8, 4), _batches(3), F.cross_entropy
    comparison = _compared(tmp_path, right, (Rounded(8, 4), turned, F.cross_entropy), steps=3)

    assert comparison.first_difference is None, comparison.sentence
    assert comparison.output_statistics is not None
    assert comparison.output_statistics.judged_step == 1


@pytest.mark.parametrize("are_exchanged", [False, True])
def test_a_tensor_of_the_batch_that_stands_for_another_is_named(
    are_exchanged: bool, tmp_path: Path
) -> None:
    given = {"x": torch.randn(6, 8), "y": torch.arange(6) % 4, "z": torch.arange(6) % 3}
    other = {**given, "y": given["z"]} | ({"z": given["y"]} if are_exchanged else {})
    runs = ((nn.Linear(8, 4), [batch], F.cross_entropy) for batch in (given, other))
    first = _compared(tmp_path, *runs).first_difference

    assert first is not None
    assert first.stage == "data"
    assert (
        sorted((tensor.baseline, tensor.candidate) for tensor in first.tensors)
        == [("y", "y"), ("z", "z")][: 1 + are_exchanged]
    )


class _Sum(nn.Module):
    """Sums over the edges of a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.last = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, given: dict[str, torch.Tensor]) -> torch.Tensor:
        nodes, (one, other) = self.linear(given["nodes"]), given["edges"]
        return self.last(torch.zeros_like(nodes).index_add(0, other, nodes[one]).relu().sum(0))


@pytest.mark.parametrize("is_right", [True, False])
def test_nodes_of_a_graph_may_have_other_numbers(is_right: bool, tmp_path: Path) -> None:
    torch.manual_seed(1)
    nodes, edges, order = (
        torch.randn(6, 8),
        torch.tensor([[0, 1, 2, 4, 0], [1, 2, 3, 5, 4]]),
        torch.randperm(6),
    )
    moved = {"nodes": nodes[order], "edges": order.argsort()[edges] if is_right else edges}
    batches = [{"x": x, "y": torch.tensor(1)} for x in ({"nodes": nodes, "edges": edges}, moved)]
    comparison = _compared(tmp_path, *((_Sum(), [batch], F.cross_entropy) for batch in batches))

    assert (comparison.first_difference is None) is is_right, comparison.sentence
    assert comparison.output_statistics is not None
    for stage in comparison.output_statistics.shown.table.summaries():
        assert not is_right or (stage.distance or 0) < 1e-5


class _Routed(nn.Module):
    """Gives a tensor and a number, or two numbers, as a mixture of experts gives its balance."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.linear, self.how = nn.Linear(8, 4), how

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.linear(x)
        balance = (y.softmax(-1).mean(0) ** 2).sum() * (1 if self.how == "right" else 2)
        return y * (1.01 if self.how == "tensor" else 1), balance


class _Net(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.routed, self.how = _Routed("right" if how == "loss" else how), how

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, balance = self.routed(x)
        smoothing = 0.1 if self.how == "loss" else 0.0
        return y, F.cross_entropy(y, torch.arange(6) % 4, label_smoothing=smoothing) + balance


@pytest.mark.parametrize("how", ["tensor", "number", "loss"])
def test_a_module_that_gives_numbers_beside_a_tensor_is_no_loss_function(
    how: str, tmp_path: Path
) -> None:
    def loss(given: tuple[torch.Tensor, torch.Tensor], labels: torch.Tensor) -> torch.Tensor:
        return given[1]

    first = _compared(
        tmp_path, *((_Net(x), _batches(), loss) for x in ("right", how))
    ).first_difference

    assert first is not None
    module = first.location and first.location.candidate
    assert (first.stage, module) == (("loss", None) if how == "loss" else ("forward", "routed"))


class _Twice(nn.Module):
    """Calls two layers, or one of them twice."""

    def __init__(self, is_right: bool) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4)
        self.is_right = is_right

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.first(x))
        return self.last((self.second if self.is_right else self.first)(hidden))


def test_a_module_that_is_called_for_another_one_is_a_mistake_of_the_code_around(
    tmp_path: Path,
) -> None:
    nets = ((_Twice(is_right), _batches(), F.cross_entropy) for is_right in (True, False))
    first = _compared(tmp_path, *nets).first_difference

    assert first is not None
    assert first.location is not None
    assert (first.location.baseline, first.location.candidate) == ("", "")


class _Read(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(2 * state))


class _Loop(nn.Module):
    """Reads its state in each turn, or always the first."""

    def __init__(self, is_right: bool) -> None:
        super().__init__()
        self.is_right = is_right
        self.first, self.read, self.cell = nn.Linear(8, 8), _Read(), nn.GRUCell(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = begin = self.first(x)
        for _ in range(3):
            state = self.cell(self.read(state if self.is_right else begin), state)
        return state


def test_what_a_loop_gives_to_a_module_is_said_of_the_code_of_the_loop(tmp_path: Path) -> None:
    runs = ((_Loop(is_right), _batches(), F.cross_entropy) for is_right in (True, False))
    first = _compared(tmp_path, *runs).first_difference

    assert first is not None
    assert first.location is not None
    assert (first.location.baseline, first.location.candidate) == ("", "")


class _Four(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :4]


SIZES: dict[str, tuple[nn.Module, nn.Module, bool]] = {
    "of a pool": (nn.MaxPool1d(2, ceil_mode=True), nn.MaxPool1d(2), False),
    "of what is cut off": (nn.ConstantPad1d((0, 1), 1.0), nn.ConstantPad1d((0, 3), 1.0), True),
}


@pytest.mark.parametrize("what", SIZES)
def test_another_size_of_an_output_is_said_of_the_module_that_makes_it(
    what: str, tmp_path: Path
) -> None:
    *modules, is_right = SIZES[what]
    last = _Four() if is_right else nn.AdaptiveAvgPool1d(4)
    runs = (
        (nn.Sequential(nn.Linear(8, 9), module, last, nn.Tanh()), _batches(), F.cross_entropy)
        for module in modules
    )
    comparison = _compared(tmp_path, *runs)
    first = comparison.first_difference

    assert (first is None) == is_right
    if first is not None:
        assert first.location is not None
        assert (first.location.baseline, first.location.candidate) == ("1", "1")
        assert (
            "its inputs agree, its output differs in its size or its number of non-finite elements"
            in comparison.sentence
        )
