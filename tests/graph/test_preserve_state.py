"""Nothing of a model or of the process changes when its graph is captured, whichever way the graph came about."""

from __future__ import annotations

import random
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning.errors import GraphCaptureError
from mindsummary_lightning.graph import forward_capture
from mindsummary_lightning.graph.capture import capture_example
from tests.graph.models import KINDS, Branching, ConvNet, InPlace


def bits(model: nn.Module) -> dict[str, bytes]:
    return {name: t.contiguous().view(torch.uint8).numpy().tobytes() if t.dim() else t.numpy().tobytes()
            for name, t in model.state_dict().items()}  # fmt: skip


def everything(model: nn.Module) -> list[Any]:
    """What a module is made of, by identity, and what its containers hold."""
    found: list[Any] = []
    for part in model.modules():
        for name, value in part.__dict__.items():
            content = list(value.items()) if isinstance(value, dict) else value
            found.append(
                (name, id(value), [id(x) for x in content] if isinstance(value, list) else repr(type(content)))
            )
            if isinstance(value, dict):
                found.append([(key, id(entry)) for key, entry in value.items()])
    return found


def random_states() -> list[Any]:
    return [random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().numpy().tobytes()]  # type: ignore[union-attr,index]  # noqa: NPY002


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_weights_buffers_modes_hooks_attributes_gradients_and_random_states_stay(kind: str) -> None:
    model, example = KINDS[kind]()
    for number, weight in enumerate(model.parameters()):
        weight.grad = torch.full_like(weight, number)
        weight.requires_grad_(number % 3 > 0)
    for number, part in enumerate(model.modules()):
        part.train(number % 2 == 0)
        part.register_forward_hook(lambda *_: None)
        part.register_forward_pre_hook(lambda *_: None)
        part.register_full_backward_hook(lambda *_: None)
    before = [
        bits(model), everything(model), random_states(), [part.training for part in model.modules()],
        [(id(w.grad), w.grad.tolist() if w.grad is not None else None, w.requires_grad, w.data_ptr())
         for w in model.parameters()],
    ]  # fmt: skip

    capture_example(model, example)

    after = [
        bits(model), everything(model), random_states(), [part.training for part in model.modules()],
        [(id(w.grad), w.grad.tolist() if w.grad is not None else None, w.requires_grad, w.data_ptr())
         for w in model.parameters()],
    ]  # fmt: skip
    assert after == before


class BranchingInPlace(InPlace):
    """The same things done to a model that torch.export refuses, so that a real pass does them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() == 12345.0:
            return x
        with torch.no_grad():
            self.linear.weight.mul_(2)
            self.linear.bias.data = self.linear.bias.data + 1
            x.mul_(3)
            np.random.rand()  # noqa: NPY002 - the global generator is what must stay
        return self.norm(super().forward(x))


def test_a_real_pass_gives_back_what_it_wrote_to() -> None:
    model, example = BranchingInPlace(), torch.randn(3, 4)
    before = [bits(model), everything(model), random_states(), example.clone().tolist(), model.average.tolist(),
              [w.data_ptr() for w in model.parameters()]]  # fmt: skip

    graph = capture_example(model, example)

    assert {"BatchNorm1d", "mul_", "rand"} <= {node.op_type for node in graph.nodes}
    assert [bits(model), everything(model), random_states(), example.tolist(), model.average.tolist(),
            [w.data_ptr() for w in model.parameters()]] == before  # fmt: skip


def test_a_failed_capture_changes_nothing_either() -> None:
    class Failing(BranchingInPlace):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            super().forward(x)
            raise RuntimeError("at the very end")

    model, example = Failing(), torch.randn(3, 4)
    before = [bits(model), everything(model), random_states(), example.clone().tolist()]

    with pytest.raises(GraphCaptureError, match="at the very end"):
        capture_example(model, example)

    assert [bits(model), everything(model), random_states(), example.tolist()] == before


def test_no_hook_of_ours_stays_if_another_cannot_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise TypeError("no such hook in this torch")

    monkeypatch.setattr(forward_capture, "register_module_forward_hook", refused)
    with pytest.raises(GraphCaptureError, match="no such hook"):
        capture_example(Branching(), torch.randn(2, 4))

    assert not nn.modules.module._global_forward_pre_hooks


def test_a_torch_whose_hooks_get_no_keywords_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    model, example = Branching(), torch.randn(2, 4)
    graph = capture_example(model, example)
    monkeypatch.setattr(forward_capture, "_HOOKS_GET_KWARGS", False)
    again = capture_example(model, example)

    assert [node.full_name for node in again.nodes] == [node.full_name for node in graph.nodes]


@pytest.mark.parametrize("build", [ConvNet, Branching])
def test_hooks_of_the_user_do_not_run(build: type[nn.Module]) -> None:
    model = build()
    calls: list[str] = []
    for part in model.modules():
        part.register_forward_hook(lambda *_: calls.append("hook"))
        part.register_forward_pre_hook(lambda *_: calls.append("pre"))

    capture_example(model, torch.randn(2, 3, 8, 8) if build is ConvNet else torch.randn(2, 4))

    assert calls == []


def test_hooks_that_compute_weights_do_run() -> None:
    model = nn.Sequential(nn.utils.spectral_norm(nn.Linear(4, 4)))

    graph = capture_example(model, torch.randn(2, 4))

    assert "0.weight_orig" in {parameter.name for parameter in graph.parameters}


class _Training(pl.LightningModule):
    def __init__(self, capture_at: int | None, branching: bool) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
        self.capture_at, self.branching = capture_at, branching
        self.losses: list[float] = []
        self.graphs: list[Any] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.log("inside", x.mean())
        out: torch.Tensor = self.net(x)
        if self.branching and out.sum() == 12345.0:
            return out * 2
        return out

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        if index == self.capture_at:
            self.graphs.append(capture_example(self, batch))
        loss = self(batch[0]).square().mean()
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), 0.01)


def _trained(capture_at: int | None, branching: bool, tmp_path: Any) -> _Training:
    pl.seed_everything(7, verbose=False)
    model = _Training(capture_at, branching)
    trainer = pl.Trainer(
        max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        accelerator="cpu", default_root_dir=tmp_path,
    )  # fmt: skip
    data = TensorDataset(torch.randn(40, 4), torch.randn(40))
    trainer.fit(model, DataLoader(data, 8, shuffle=True))
    return model


@pytest.mark.parametrize("branching", [False, True], ids=["exported", "run"])
@pytest.mark.filterwarnings("ignore")
def test_a_training_with_a_capture_in_it_has_bit_equal_losses(branching: bool, tmp_path: Any) -> None:
    plain, watched = (_trained(at, branching, tmp_path) for at in (None, 2))

    assert watched.losses == plain.losses
    assert bits(watched) == bits(plain)
    (graph,) = watched.graphs
    assert "Default/network-_Training/net-Sequential/0-Linear" in {node.scope for node in graph.nodes}
