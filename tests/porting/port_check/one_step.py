"""Records one step of an original in torch, and checks a port of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mindsummary_lightning import PortReport, StepRecorder, check_port

Loss = Callable[[Any, torch.Tensor], torch.Tensor]


def mean_square(output: Any, target: torch.Tensor) -> torch.Tensor:
    return (output.flatten()[: target.numel()] - target.flatten()).square().mean()


def _optimizer(network: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)


def record(
    folder: Path,
    network: nn.Module,
    inputs: tuple[torch.Tensor, ...],
    loss: Loss = mean_square,
    steps: int = 1,
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] = _optimizer,
) -> None:
    """Record steps of a copy of a network; the last of the inputs is the target."""
    network = copy.deepcopy(network)
    stepping = optimizer(network)
    recorder = StepRecorder(folder, steps, whole_tensors=True)
    for _ in range(steps):
        with recorder.step(network, stepping, inputs) as loss_is:
            stepping.zero_grad()
            value = loss(network(*inputs[:-1]), inputs[-1])
            loss_is(value)
            value.backward()
            stepping.step()


def check(
    folder: Path,
    network: nn.Module,
    loss: Loss = mean_square,
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] = _optimizer,
) -> PortReport:
    """Check a port on the recorded batches."""
    stepping = optimizer(network)

    def step(batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        stepping.zero_grad()
        value = loss(network(*batch[:-1]), batch[-1])
        value.backward()
        stepping.step()
        return value

    return check_port(network, folder, step)


def with_weights_of(port: nn.Module, original: nn.Module) -> nn.Module:
    """The port, with the original's weights by their order."""
    with torch.no_grad():
        for mine, other in zip(
            port.state_dict().values(), original.state_dict().values(), strict=True
        ):
            mine.copy_(other.reshape(mine.shape))
    return port


def places(report: PortReport) -> list[tuple[str, str]]:
    """Module and kind of each finding."""
    return [(finding.module, finding.kind) for finding in report.findings]
