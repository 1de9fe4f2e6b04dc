"""How far correct ports are from their originals, module by module.

The tolerances of the port check come from here.

``python benchmarks/port_check_rounding.py``. The port is the original with other kernels, or in
another precision. Each line gives the greatest and the 99th percentile of the relative distances of
outputs and of gradients.
"""

from __future__ import annotations

import contextlib
import copy
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

from mindsummary_lightning import StepRecorder, check_port
from mindsummary_lightning.porting.port_check import (
    forward_check,
    output_gradient_check,
    weight_gradient_check,
)


class Convolutions(nn.Module):
    """Convolutions and normalizations."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.SiLU(),
            nn.Conv2d(16, 32, 3, 2), nn.BatchNorm2d(32),
            nn.ReLU(), nn.Conv2d(32, 32, 3, groups=32), nn.GroupNorm(4, 32), nn.GELU(),
        )  # fmt: skip
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores, shape ``(n, 10)``."""
        return self.head(self.body(x).mean((2, 3)))


class Attention(nn.Module):
    """Three layers of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs = nn.Linear(24, 64)
        self.layers = nn.ModuleList(
            [nn.TransformerEncoderLayer(64, 4, 128, 0.0, batch_first=True) for _ in range(3)]
        )
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores, shape ``(n, 10)``."""
        x = self.inputs(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


class Recurrent(nn.Module):
    """Two layers of an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(24, 48, 2, batch_first=True)
        self.norm, self.head = nn.LayerNorm(48), nn.Linear(48, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores, shape ``(n, 10)``."""
        return self.head(self.norm(self.cells(x)[0][:, -1]))


NETWORKS: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "convolutions": (Convolutions, (8, 3, 24, 24)),
    "attention": (Attention, (8, 16, 24)),
    "recurrent": (Recurrent, (8, 16, 24)),
}


@contextlib.contextmanager
def other_kernels():
    """Without oneDNN, with another number of threads, images in the order of channels last."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if threads > 1 else 2)
    with torch.backends.mkldnn.flags(enabled=False):
        yield
    torch.set_num_threads(threads)


def autocast(dtype: torch.dtype) -> Callable[[], AbstractContextManager[object]]:
    return lambda: torch.autocast("cpu", dtype)


CASES = {
    "float64, other kernels": (torch.float64, other_kernels),
    "float32, other kernels": (torch.float32, other_kernels),
    "bfloat16 autocast against float32": (torch.float32, autocast(torch.bfloat16)),
    "float16 autocast against float32": (torch.float32, autocast(torch.float16)),
}


@contextlib.contextmanager
def noted(module: ModuleType, name: str, distances: list[float]) -> Iterator[None]:
    """Note the distance of every comparison that a module makes by one of its functions."""
    function = getattr(module, name)

    def note(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        distance = getattr(result, "distance", result)
        if np.isfinite(distance):
            distances.append(float(distance))
        return result

    setattr(module, name, note)
    try:
        yield
    finally:
        setattr(module, name, function)


def measure(
    network: nn.Module, shape: tuple[int, ...], dtype: torch.dtype, context
) -> dict[str, list[float]]:
    torch.manual_seed(1)
    x, y = torch.randn(shape, dtype=dtype), torch.randint(0, 10, shape[:1])
    original = network.to(dtype)
    port = copy.deepcopy(original)
    if len(shape) == 4 and context is other_kernels:
        port = port.to(memory_format=torch.channels_last)
    with tempfile.TemporaryDirectory() as folder:
        optimizer = torch.optim.AdamW(original.parameters(), 1e-3)
        recorder = StepRecorder(folder, 1, whole_tensors=True)
        with recorder.step(original, optimizer, (x, y)) as loss_is:
            loss = nn.functional.cross_entropy(original(x), y)
            loss_is(loss)
            loss.backward()
            optimizer.step()
        updates = torch.optim.AdamW(port.parameters(), 1e-3)

        def step(batch):
            updates.zero_grad()
            with context():
                loss = nn.functional.cross_entropy(port(batch[0]).to(dtype), batch[1])
            loss.backward()
            updates.step()
            return loss

        found: dict[str, list[float]] = {"outputs": [], "gradients": []}
        outputs = noted(forward_check, "compared", found["outputs"])
        of_outputs = noted(output_gradient_check, "relative_distance", found["gradients"])
        of_weights = noted(weight_gradient_check, "relative_distance", found["gradients"])
        with outputs, of_outputs, of_weights:
            report = check_port(port, folder, step)
        found["findings"] = [finding.distance for finding in report.findings]
    return found


def main() -> None:
    for case, (dtype, context) in CASES.items():
        for name, (kind, shape) in NETWORKS.items():
            if name == "recurrent" and case.startswith("float16"):
                continue  # PyTorch has no LSTM in float16 on a CPU
            torch.manual_seed(0)
            found = measure(kind(), shape, dtype, context)
            parts = [
                f"{which} at most {max(values):.1e}, 99 % {np.quantile(values, 0.99):.1e}"
                for which, values in found.items()
                if values and which != "findings"
            ]
            print(f"{case:36s} {name:13s} {'; '.join(parts)}; findings: {len(found['findings'])}")


if __name__ == "__main__":
    main()
