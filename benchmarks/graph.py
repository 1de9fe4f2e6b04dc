"""What it costs to observe one training step (forward, backward, optimizer), as a multiple of an
ordinary one.

``python benchmarks/graph.py [--rounds N]``. Ordinary and observed steps take turns. A third way is
what a graph cost before it was observed: ``torch.export`` of the model on the same batch. Then two
extreme models, with a limit of two seconds: one of 2,000 modules and one of 20,000 operations.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, os.path.dirname(__file__))

import paired
import torch
from torch import Tensor, nn

from mindsummary_lightning.graph.step_observer import StepObserver


class Residual(nn.Module):
    """A block of ResNet-18."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = (
            nn.Conv2d(inside, outside, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outside),
        )
        self.conv2, self.bn2 = (
            nn.Conv2d(outside, outside, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outside),
        )
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or inside != outside:
            self.downsample = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Two convolutions and a shortcut."""
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(out)) + self.downsample(x))


def resnet18() -> nn.Module:
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    inside = 64
    for outside, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers.append(
            nn.Sequential(Residual(inside, outside, stride), Residual(outside, outside, 1))
        )
        inside = outside
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def transformer(width: int = 256) -> nn.Module:
    layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True)
    return nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)


class ManyOperations(nn.Module):
    """20,000 operations in one forward."""

    def forward(self, x: Tensor) -> Tensor:
        """Add one 20,000 times."""
        for _ in range(20_000):
            x = x + 1
        return x


class Trained(nn.Module):
    """A network with its loss, as a training step has it."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def training_step(self, batch: Tensor) -> Tensor:
        """The loss."""
        return self.network(batch).square().mean()


def step_of(model: Trained, batch: Tensor, is_observed: bool) -> Callable[[], float]:
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters or [torch.zeros(1, requires_grad=True)], 1e-3)

    def step() -> float:
        observer = StepObserver(model)
        start = time.perf_counter()
        if is_observed:
            observer.arm()
        optimizer.zero_grad()
        loss = model.training_step(batch)
        if loss.requires_grad:
            loss.backward()
        optimizer.step()
        seconds = time.perf_counter() - start
        assert observer.error is None
        assert (observer.graph is not None) == is_observed
        return seconds

    return step


def exported(model: Trained, batch: Tensor) -> Callable[[], float]:
    def export() -> float:
        start = time.perf_counter()
        torch.export.export(model.network, (batch,), strict=False)
        return time.perf_counter() - start

    return export


def rows_of(
    models: dict[str, tuple[nn.Module, Tensor]], rounds: int, with_export: bool
) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for name, (network, batch) in models.items():
        model = Trained(network)
        ways = {
            "ordinary step": step_of(model, batch, False),
            "observed step": step_of(model, batch, True),
        }
        if with_export:
            ways["torch.export, once more"] = exported(model, batch)
        for way in ways.values():
            way()
        rows[name] = paired.rounds_of(ways, rounds)
    return rows


class ManyActivations(nn.Module):
    """Keeps 20 tensors of 64 MiB for the backward pass and computes on others in between."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.parts = nn.ModuleList(nn.Tanh() for _ in range(20))

    def forward(self, x: Tensor) -> Tensor:
        """Twenty times the hyperbolic tangent of something temporary."""
        x = x * self.weight
        for part in self.parts:
            x = part(x - (x + 1) * 0.5)
        return x


def peak_memory(is_observed: bool) -> int:
    """Peak resident bytes of a process that does one step."""
    command = [sys.executable, __file__, "--peak", "observed" if is_observed else "ordinary"]
    return (
        int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])
        * 1024
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--peak",
        choices=("ordinary", "observed"),
        help="one step, then print its peak memory in KiB",
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.peak:
        step_of(Trained(ManyActivations()), torch.randn(2**24), arguments.peak == "observed")()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return
    ordinary = {
        "ResNet-18, 8 images of 64 x 64": (resnet18(), torch.randn(8, 3, 64, 64)),
        "ResNet-18, 2 images of 32 x 32": (resnet18(), torch.randn(2, 3, 32, 32)),
        "transformer, 12 layers, 4 x 64 tokens": (transformer(), torch.randn(4, 64, 256)),
        "transformer, 12 layers of width 32, 1 x 4 tokens": (
            transformer(32),
            torch.randn(1, 4, 32),
        ),
    }
    extreme = {
        "2,000 modules": (
            nn.Sequential(*(nn.Linear(4, 4) for _ in range(2000))),
            torch.randn(2, 4),
        ),
        "20,000 operations": (ManyOperations(), torch.randn(2, 4)),
    }
    paired.report(
        "graph",
        "One step, with its graph",
        "ms",
        1e3,
        rows_of(ordinary, arguments.rounds, True),
        "ordinary",
    )
    paired.report(
        "graph extremes",
        "Extreme models",
        "ms",
        1e3,
        rows_of(extreme, arguments.rounds, False),
        "ordinary",
    )
    before, after = peak_memory(False), peak_memory(True)
    print(
        f"peak memory: {before / 2**20:.0f} MiB ordinary, {after / 2**20:.0f} MiB observed, "
        f"x {after / before:.3f}"
    )


if __name__ == "__main__":
    main()
