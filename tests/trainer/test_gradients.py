"""Gradients in real trainings: scaled, sparse, of several steps in a batch.

Each is recorded at the right step.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch.plugins import MixedPrecision
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from mindsummary_lightning import SummaryCollector, SummaryReader
from tests.trainer.support import Net, data, loader, points, trainer


def _histograms(run: Path, name: str) -> dict[int, Any]:
    return {
        step: histogram for step, _, histogram in SummaryReader(run).histograms(f"{name}.gradient")
    }


class Noting(Net):
    """Keeps the norm of the gradients that each optimizer step really uses."""

    def __init__(self, fused: bool = False, divisor: float = 1.0) -> None:
        super().__init__()
        self.fused, self.divisor = fused, divisor
        self.norms: list[float] = []
        self.largest: list[float] = []

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        gradients = (
            torch.cat([parameter.grad.flatten() for parameter in self.parameters()]) / self.divisor
        )  # type: ignore[union-attr]
        self.norms.append(float(gradients.norm()))
        self.largest.append(float(self.first.weight.grad.max()) / self.divisor)  # type: ignore[union-attr]

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1, fused=self.fused)


@pytest.mark.parametrize("fused", [False, True], ids=["unscaled by Lightning", "fused"])
def test_gradients_of_a_scaled_loss_are_recorded_unscaled(tmp_path: Path, fused: bool) -> None:
    # A Trainer refuses float16 on the CPU, not its plugin: the scaler is a real one.
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    plugin = MixedPrecision("16-mixed", "cpu", scaler)
    net = Noting(fused, divisor=2.0**12 if fused else 1.0)
    collector = SummaryCollector(
        tmp_path, 1, {"histogram_regular": "first.weight"}, collect_gradients=True
    )
    trainer(logger=False, callbacks=[collector], plugins=[plugin]).fit(net, loader(3))

    assert [value for _, value in points(tmp_path, "gradient_norm")] == pytest.approx(
        net.norms, rel=1e-5
    )
    recorded = _histograms(tmp_path, "first.weight")
    assert [recorded[step].max for step in (1, 2, 3)] == pytest.approx(net.largest, rel=1e-5)
    assert max(net.norms) < 100


@pytest.mark.parametrize("optimizer", ["SparseAdam", "SGD"])
def test_sparse_gradients_are_recorded(tmp_path: Path, optimizer: str) -> None:
    class Words(Net):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(50, 4, sparse=True)

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(self.table(x).mean(1))

        def configure_optimizers(self) -> Any:
            return getattr(torch.optim, optimizer)(self.table.parameters(), lr=0.1)

        def on_before_optimizer_step(self, optimizer: Any) -> None:
            self.seen = self.table.weight.grad.to_dense().numpy().copy()  # type: ignore[union-attr]

    words = torch.tensor([[3, 3, 7], [3, 9, 9], [1, 3, 3], [2, 2, 2]])
    batches = DataLoader(TensorDataset(words, torch.tensor([0, 1, 0, 1])), 4)
    net = Words()
    collector = SummaryCollector(
        tmp_path, 1, {"histogram_regular": "table"}, collect_gradients=True
    )
    running = trainer(logger=False, callbacks=[collector])
    running.fit(net, batches)

    assert running.global_step == 1
    assert points(tmp_path, "gradient_norm")[0][1] == pytest.approx(
        float(np.linalg.norm(net.seen)), rel=1e-5
    )
    histogram = _histograms(tmp_path, "table.weight")[1]
    assert histogram.count == 200
    assert (histogram.min, histogram.max) == pytest.approx(
        (net.seen.min(), net.seen.max()), rel=1e-5
    )


class Thrice(Net):
    """Three steps of one optimizer in each batch, and one of another."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.last: list[tuple[float, float]] = []

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        first, second = self.optimizers()  # type: ignore[misc]
        for optimizer, part, times in ((first, self.first, 3), (second, self.second, 1)):
            for _ in range(times):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(self(batch[0]), batch[1])
                self.manual_backward(loss)
                norm = float(
                    torch.cat([parameter.grad.flatten() for parameter in part.parameters()]).norm()
                )  # type: ignore[union-attr]
                optimizer.step()
            if part is self.first:
                first_norm = norm
        self.last.append((first_norm, norm))
        return loss.detach()

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(part.parameters(), lr=0.5) for part in (self.first, self.second)]


def test_of_several_optimizer_steps_in_a_batch_the_last_of_each_optimizer_counts(
    tmp_path: Path,
) -> None:
    net = Thrice()
    collector = SummaryCollector(tmp_path, 1, {"histogram_regular": ".*"}, collect_gradients=True)
    trainer(logger=False, callbacks=[collector]).fit(net, loader(4))

    expected = [float(np.hypot(*norms)) for norms in net.last]
    assert [step for step, _ in points(tmp_path, "gradient_norm")] == [1, 2, 3, 4]
    assert [value for _, value in points(tmp_path, "gradient_norm")] == pytest.approx(
        expected, rel=1e-5
    )
    assert list(_histograms(tmp_path, "first.weight")) == [1, 2, 3, 4]


class Stream(IterableDataset[Any]):
    """Eight batches of four, which nobody knows beforehand."""

    def __iter__(self) -> Iterator[Any]:
        return iter(data(8))


def test_the_last_step_has_no_norm_of_an_earlier_one(tmp_path: Path) -> None:
    collector = SummaryCollector(tmp_path, 3, collect_gradients=True)
    trainer(logger=False, callbacks=[collector]).fit(Net(), DataLoader(Stream(), 4))

    assert [step for step, _ in points(tmp_path, "loss/auto")] == [1, 3, 6, 8]
    assert [step for step, _ in points(tmp_path, "gradient_norm")] == [1, 3, 6]
