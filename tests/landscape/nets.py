"""Networks, data and checkpoints for the landscape tests; at module level, because other processes
must import them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning.landscape.checkpoints import LandscapeCheckpointWriter
from mindsummary_lightning.values.landscape_settings import LandscapeSettings

WIDTH, CLASSES = 8, 3


def small(inputs: int = WIDTH) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 6), nn.Tanh(), nn.Linear(6, CLASSES))


class Small(nn.Module):
    """A small network, ``net``; others have more or something else by ``prepare``, and change
    ``forward``.
    """

    inputs = WIDTH

    def __init__(self) -> None:
        super().__init__()
        self.net: Any = small(self.inputs)
        self.prepare()

    def prepare(self) -> None:
        """Add what one of them has."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


class Mlp(nn.Sequential):
    """Its first layer is wide enough to be served by three passes."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(80, 16), nn.ReLU(), nn.Linear(16, 4))

    def data(self) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(96, 8, 10), torch.randint(0, 4, (96,))


class ConvNet(nn.Sequential):
    """A wide first convolution, BatchNorm with statistics in buffers, dropout."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(8, 12, 3, padding=1, padding_mode="circular"),
            nn.BatchNorm2d(12),
            nn.ReLU(inplace=True),
            nn.Dropout(0.2),
            nn.Conv2d(12, 6, 3),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(6, 4),
        )

    def data(self) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(96, 8, 9, 9), torch.randint(0, 4, (96,))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(16, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embedding(tokens)).mean(1))

    def data(self) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randint(0, 20, (96, 7)), torch.randint(0, 4, (96,))


class Tied(nn.Module):
    """The decoder is the first layer's weight again, so the first layer's linearity must not be
    used.
    """

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(80, 80)
        self.decoder = nn.Linear(80, 80, bias=False)
        self.decoder.weight = self.encoder.weight
        self.head = nn.Linear(80, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.decoder(self.encoder(x).tanh()))

    def data(self) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(96, 80), torch.randint(0, 4, (96,))


class Frozen(Mlp):
    def __init__(self) -> None:
        super().__init__()
        self[1].requires_grad_(False)


class Lit(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = Mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def training_step(self, batch, batch_idx):  # type: ignore[no-untyped-def]
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("loss", loss)
        return {"loss": loss}

    def data(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.net.data()


LOSS = nn.CrossEntropyLoss()


def loader(net: nn.Module, batch_size: int = 32) -> DataLoader:
    torch.manual_seed(3)
    return DataLoader(TensorDataset(*net.data()), batch_size)


def save(writer: LandscapeCheckpointWriter, number: int, state_dict: Mapping[str, Any]) -> bool:
    """Save a checkpoint that does not wait for the next one."""
    is_saved = writer.save(number, state_dict)
    writer.write()
    return is_saved


def train(
    net: nn.Module, summary_dir: str, steps: int = 7, settings: LandscapeSettings | None = None
) -> None:
    """Train for a few steps and save landscape checkpoints in ``summary_dir``."""
    settings = settings or LandscapeSettings(
        landscape_size=5, num_samples=96, intervals=(tuple(range(1, 7)),)
    )
    torch.manual_seed(0)
    for parameter in net.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=0.2)
    writer = LandscapeCheckpointWriter(summary_dir, type(net).__name__, settings, step_per_epoch=3)
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], 0.2, momentum=0.9)
    batches = list(loader(net))
    for step in range(1, steps):
        x, y = batches[step % len(batches)]
        optimizer.zero_grad()
        LOSS(net(x), y).backward()
        optimizer.step()
        save(writer, step, net.state_dict())
