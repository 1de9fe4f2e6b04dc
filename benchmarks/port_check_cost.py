"""What recording and checking a whole step cost.

Run ``python benchmarks/port_check_cost.py [resnet50] [gpt2]``.
Prints seconds of a plain step, of a recorded one and of the check, the size of the file and the
peak of memory.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from mindsummary_lightning import StepRecorder, check_port
from mindsummary_lightning.fileio.whole_step_file import whole_step_path


class Bottleneck(nn.Module):
    """A block of ResNet-50."""

    def __init__(self, inner: int, width: int, stride: int) -> None:
        super().__init__()
        outer = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = (
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.conv3, self.bn3 = nn.Conv2d(width, outer, 1, bias=False), nn.BatchNorm2d(outer)
        self.relu = nn.ReLU(inplace=True)
        self.down = nn.Sequential()
        if stride != 1 or inner != outer:
            self.down = nn.Sequential(
                nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)
            )

    def forward(self, x: Tensor) -> Tensor:
        """The output of the module."""
        h = self.relu(self.bn1(self.conv1(x)))
        h = self.relu(self.bn2(self.conv2(h)))
        return self.relu(self.bn3(self.conv3(h)) + self.down(x))


class ResNet50(nn.Sequential):
    """ResNet-50 for images of 224 x 224."""

    def __init__(self) -> None:
        layers: list[nn.Module] = [
            nn.Conv2d(3, 64, 7, 2, 3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
        ]
        layers.append(nn.MaxPool2d(3, 2, 1))
        inner = 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for number in range(count):
                layers.append(Bottleneck(inner, width, stride if number == 0 else 1))
                inner = 4 * width
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class GptBlock(nn.Module):
    """A block of GPT-2 small."""

    def __init__(self, width: int = 768) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.act, self.proj = (
            nn.Linear(width, 4 * width),
            nn.GELU("tanh"),
            nn.Linear(4 * width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        """The output of the module."""
        q, k, v = (
            part.unflatten(-1, (12, -1)).transpose(1, 2)
            for part in self.c_attn(self.ln_1(x)).chunk(3, -1)
        )
        mixed = (
            functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            .transpose(1, 2)
            .flatten(2)
        )
        x = x + self.c_proj(mixed)
        return x + self.proj(self.act(self.fc(self.ln_2(x))))


class Gpt2(nn.Module):
    """GPT-2 small, with tied embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
        self.h, self.ln_f = nn.ModuleList(GptBlock() for _ in range(12)), nn.LayerNorm(768)

    def forward(self, x: Tensor) -> Tensor:
        """The output of the module."""
        h = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
        for block in self.h:
            h = block(h)
        return self.ln_f(h) @ self.wte.weight.T


def gpt2_loss(output: Tensor, target: Tensor) -> Tensor:
    """Mean cross-entropy of all tokens."""
    return functional.cross_entropy(output.flatten(0, 1), target.flatten())


CASES: dict[
    str, tuple[Callable[[], nn.Module], Callable[[], tuple[Tensor, Tensor]], Callable[..., Tensor]]
] = {
    "resnet50": (
        ResNet50,
        lambda: (torch.randn(4, 3, 224, 224), torch.randint(0, 1000, (4,))),
        functional.cross_entropy,
    ),
    "gpt2": (
        Gpt2,
        lambda: (torch.randint(0, 50257, (1, 1024)), torch.randint(0, 50257, (1, 1024))),
        gpt2_loss,
    ),
}


@contextlib.contextmanager
def timed(name: str) -> Iterator[None]:
    """Print the seconds of a block."""
    begin = time.perf_counter()
    yield
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"  {name}: {time.perf_counter() - begin:.1f} s, peak {peak:.2f} GB", flush=True)


def measure(kind: str) -> None:
    """Print the figures of one network."""
    make, make_batch, loss_function = CASES[kind]
    torch.manual_seed(0)
    network, batch = make(), make_batch()
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        optimizer.zero_grad()
        loss = loss_function(network(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss

    print(kind, flush=True)
    step(batch)
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    optimizer.state.clear()
    with timed("plain step"):
        step(batch)
    network.load_state_dict(weights)
    optimizer.state.clear()
    with tempfile.TemporaryDirectory() as folder:
        recorder = StepRecorder(folder, 1, whole_tensors=True)
        with timed("recorded step"), recorder.step(network, optimizer, batch) as loss_is:
            loss_is(step(batch))
        print(f"  file: {os.path.getsize(whole_step_path(folder, 1)) / 1e6:,.0f} MB", flush=True)
        network.load_state_dict(weights)
        with timed("check"):
            report = check_port(network, folder, step)
        print(report.text())


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        measure(name)
