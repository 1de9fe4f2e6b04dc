"""Models of the kinds people write, each with an example of its input, for the tests of the graph
pages.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.short = nn.Identity() if inside == outside else nn.Conv2d(inside, outside, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.short(x))


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True)
        )
        self.blocks = nn.ModuleList([Block(8, 8), Block(8, 16, 2)])
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.dropout(x.mean((2, 3))))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(8, 16, num_layers=2, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, _ = self.rnn(x)
        return self.head(states[:, -1])


class MaskedAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: torch.Tensor, *, mask: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x, key_padding_mask=mask)[0]


class DictModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Linear(8, 4)
        self.text = nn.Embedding(20, 4)

    def forward(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        image, text = self.image(batch["image"]), self.text(batch["text"]).sum(1)
        return {"joint": image + text, "score": (image * text).sum(-1)}


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        if x.sum() > 0:
            return torch.cat([self.up(x), x], 1)
        return torch.cat([self.down(x), x], 1)


class AwkwardNames(nn.Module):
    NAMES = (
        "dropout", "optimizer", "opt", 'a<b>"c"', "x/y", "größe", "图层", "{|}", "back\\slash",
        "new\nline", " ",
        "Gradients", "1", "Default", "Conv2d[5]_0", "-", "_orig_mod", "é" * 300,
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({name: nn.Linear(4, 4) for name in self.NAMES})
        self.register_parameter("3", nn.Parameter(torch.ones(4)))
        self.register_parameter("parts-ModuleDict", nn.Parameter(torch.ones(4)))
        self.register_buffer("cst1", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts.values():
            x = part(x) + 1.5
        return x * getattr(self, "3") * getattr(self, "parts-ModuleDict") * self.cst1


class Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(50, 8, mode="mean")
        self.head = nn.Linear(8, 2)

    def forward(self, tokens: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return self.head(self.bag(tokens, offsets))


class InPlace(nn.Module):
    """Writes through views, draws random numbers of three kinds, keeps state in attributes and
    lists.
    """

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.calls = 0
        self.seen: list[torch.Tensor] = []
        self.last: torch.Tensor | None = None
        self.average = torch.zeros(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.dropout(self.linear(x), 0.5, training=True) + random.random()
        x[:, 0] = 1.0
        x.add_(torch.rand(4))
        self.average.mul_(0.9).add_(x.detach().mean(0))
        self.calls += 1
        self.seen.append(x)
        self.last = x
        return x


def _digits() -> nn.Module:
    inner = nn.Sequential(*(nn.Linear(4, 4) for _ in range(6)))
    return nn.Sequential(inner, nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(4, 2))))


def _image() -> torch.Tensor:
    return torch.randn(2, 3, 8, 8)


# Kind -> its model and an example of its input, both made anew at each call.
KINDS: dict[str, Callable[[], tuple[nn.Module, Any]]] = {
    "cnn": lambda: (ConvNet(), _image()),
    "lstm": lambda: (Recurrent(), torch.randn(2, 5, 8)),
    "keyword-mask": lambda: (
        MaskedAttention(), {"x": torch.randn(2, 5, 16), "mask": torch.zeros(2, 5, dtype=torch.bool)}
    ),
    "dict": lambda: (DictModel(), {"image": torch.randn(2, 8), "text": torch.randint(0, 20, (2,
    6))}),
    "branch": lambda: (Branching(), torch.randn(3, 4)),
    "awkward-names": lambda: (AwkwardNames(), torch.randn(2, 4)),
    "digits": lambda: (_digits(), torch.randn(2, 4)),
    "bag": lambda: (Bag(), (torch.randint(0, 50, (8,)), torch.tensor([0, 4]))),
    "in-place": lambda: (InPlace(), torch.randn(3, 4)),
    "half": lambda: (ConvNet().to(torch.bfloat16), _image()),
    "identity": lambda: (nn.Identity(), torch.randn(2)),
}  # fmt: skip
