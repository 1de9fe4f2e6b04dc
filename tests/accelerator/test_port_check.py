"""Is my device right? A step of the CPU is the reference, and the stand-in is checked
against it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from mindsummary_lightning import PortReport, StepRecorder, check_port


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.norm, self.head = (
            nn.Linear(8, 8),
            nn.GELU(),
            nn.LayerNorm(8),
            nn.Linear(8, 2),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x + self.norm(self.act(self.first(x))))


def step_of(network: nn.Module) -> object:
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)

    def step(batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        device = next(network.parameters()).device
        optimizer.zero_grad()
        loss = (network(batch[0].to(device)) - batch[1].to(device)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


@pytest.fixture
def reference(tmp_path: Path) -> tuple[Path, nn.Module]:
    torch.manual_seed(0)
    network, batch = Net(), (torch.randn(4, 8), torch.randn(4, 2))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    state = {name: value.clone() for name, value in network.state_dict().items()}
    with StepRecorder(tmp_path, 1, whole_tensors=True).step(network, optimizer, batch) as loss_is:
        loss = (network(batch[0]) - batch[1]).square().mean()
        loss_is(loss)
        loss.backward()
        optimizer.step()
    network.load_state_dict(state)
    return tmp_path, network


def on_device(reference: tuple[Path, nn.Module]) -> PortReport:
    folder, network = reference
    network = network.to("npu")
    return check_port(network, folder, step_of(network))


def test_a_device_that_computes_rightly_has_no_findings(reference: tuple[Path, nn.Module]) -> None:
    report = on_device(reference)

    assert report.findings == []
    assert report.paired_calls == 5


def test_a_kernel_that_is_wrong_is_named_at_its_module(
    reference: tuple[Path, nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    gelu = nn.functional.gelu
    monkeypatch.setattr(nn.functional, "gelu", lambda x, approximate="none": gelu(x) + 1e-3)

    assert [(each.module, each.kind) for each in on_device(reference).findings] == [
        ("act", "output")
    ]
