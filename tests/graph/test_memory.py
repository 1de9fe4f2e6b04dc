"""The observed step needs no more memory than an ordinary one, and what it frees early is freed as
early.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mindsummary_lightning.graph.step_observer import StepObserver


class LiveBytes(TorchDispatchMode):
    """Adds up the storages that operations have made and that anything, autograd included, still
    holds.

    Attributes:
        peak: the largest sum after any operation, in bytes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._sizes: dict[Any, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(output):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                self._sizes[StorageWeakRef(storage)] = storage.nbytes()
        self._sizes = {
            storage: size for storage, size in self._sizes.items() if not storage.expired()
        }
        self.peak = max(self.peak, sum(self._sizes.values()))
        return output


class Net(nn.Module):
    """Two passes with manual optimization, one of them thrown away, and some work without
    gradients.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(part for _ in range(6) for part in (nn.Linear(64, 64), nn.Tanh()))
        )

    def training_step(self, batch: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            for _ in range(3):
                batch = self.layers(batch) + 1
        confidence = self.layers(batch).mean().item()
        self.layers(batch * confidence).square().mean().backward()
        for layer in self.layers:
            batch = layer(batch - (batch + 1) * 0.5)
        return batch.square().mean()


def peak(is_observed: bool) -> int:
    torch.manual_seed(0)
    net, batch = Net(), torch.randn(512, 64)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    observer = StepObserver(net)
    if is_observed:
        observer.arm()
    with LiveBytes() as live:
        net.training_step(batch).backward()
        optimizer.step()
    assert (observer.graph is not None) == is_observed
    return live.peak


def test_the_peak_memory_of_the_observed_step_is_that_of_an_ordinary_one() -> None:
    ordinary = peak(is_observed=False)

    assert ordinary > 12 * 512 * 64 * 4  # what autograd keeps for the last pass
    assert peak(is_observed=True) <= 1.01 * ordinary
