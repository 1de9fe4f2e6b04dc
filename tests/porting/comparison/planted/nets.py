"""Eight nets with points in their code at which a mistake can be planted.

They are others than those of ``chains``: a mistake is generated for each module, parameter and
point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

CLASSES, WIDTH, HEADS = 5, 24, 4
VOCABULARY, LENGTH = 30, 10
SIZE, PATCH = 12, 3

FUNCTIONS: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {
    nn.ReLU: F.relu,
    nn.GELU: F.gelu,
    nn.Tanh: torch.tanh,
    nn.ELU: F.elu,
    nn.SiLU: F.silu,
}


@dataclass
class Writing:
    """How the nets are written now.

    Attributes:
        way: a correct way that is another one than the usual.
        point: the module and the point in its code that ``change`` is applied to.
        change: the planted change of a tensor.
        seen: all points that were passed, with whether their tensor had a gradient.
    """

    way: str = ""
    point: tuple[str, str] = ("", "")
    change: Callable[[Tensor], Tensor] | None = None
    seen: dict[tuple[str, str], bool] = field(default_factory=dict)


_writing = Writing()


@contextmanager
def written(writing: Writing) -> Iterator[Writing]:
    """Build and call nets in a way for a while."""
    global _writing
    before, _writing = _writing, writing
    yield writing
    _writing = before


def is_way(name: str) -> bool:
    return _writing.way == name


class Part(nn.Module):
    """A module with points at which its code can go wrong; ``place`` is its name in the net."""

    place = ""

    def at(self, point: str, x: Tensor) -> Tensor:
        """Pass a point of the code."""
        here = self.place, point
        _writing.seen[here] = x.requires_grad
        if _writing.change is not None and _writing.point == here:
            return _writing.change(x)
        return x

    def activate(self, x: Tensor) -> Tensor:
        if is_way("functions"):
            return FUNCTIONS[type(self.act)](x)
        return self.act(x)

    def through(self, block: nn.Module, x: Tensor) -> Tensor:
        if is_way("checkpointed"):
            return checkpoint(block, x, use_reentrant=False)
        return block(x)


class Bottleneck(Part):
    def __init__(self, inner: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 2 * width, 1, bias=False), nn.BatchNorm2d(2 * width)
        shortcut = nn.Conv2d(inner, 2 * width, 1, stride, bias=False)
        self.down = nn.Sequential(shortcut, nn.BatchNorm2d(2 * width))
        self.act = nn.ReLU(inplace=is_way("in_place"))

    def forward(self, x: Tensor) -> Tensor:
        shortcut = self.at("shortcut", self.down(x))
        h = self.activate(self.bn1(self.conv1(x)))
        h = self.activate(self.bn2(self.conv2(h)))
        h = self.at("branch", self.bn3(self.conv3(h)))
        return self.activate(self.at("sum", h + shortcut))


class BottleneckNet(Part):
    """A residual network; its convolutions have no biases but the first one."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.bn, self.act = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(Bottleneck(8, 6, 1))
        self.layer2 = nn.Sequential(Bottleneck(12, 8, 2))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.at("stem", self.pool(self.activate(self.bn(self.stem(self.at("image", x))))))
        h = self.layer2(self.at("middle", self.layer1(h)))
        return self.head(self.at("pooled", h.mean((2, 3))))


class ConvNextBlock(Part):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depth = nn.Conv2d(width, width, 5, padding=2, groups=width)
        self.norm, self.drop = nn.LayerNorm(width, eps=1e-6), nn.Dropout(0.0)
        self.fc1, self.act, self.fc2 = (
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
        )
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        h = self.at("channels_last", self.depth(x).permute(0, 2, 3, 1))
        h = self.fc2(self.activate(self.fc1(self.norm(h))))
        h = self.at("scaled", self.gamma * h)
        return self.at("sum", x + self.drop(h.permute(0, 3, 1, 2)))


class ConvNext(Part):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 2, 2)
        self.stem_norm = nn.LayerNorm(12, eps=1e-6)
        self.blocks = nn.Sequential(ConvNextBlock(12), ConvNextBlock(12))
        self.down = nn.Conv2d(12, 20, 2, 2)
        self.last = ConvNextBlock(20)
        self.norm, self.head = nn.LayerNorm(20, eps=1e-6), nn.Linear(20, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem_norm(self.stem(self.at("image", x)).permute(0, 2, 3, 1))
        h = self.at("stem", h.permute(0, 3, 1, 2))
        for block in self.blocks:
            h = self.through(block, h)
        h = self.last(self.at("down", self.down(h)))
        return self.head(self.norm(self.at("pooled", h.mean((2, 3)))))


class Mlp(Part):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.fc1, self.act = nn.Linear(width, inner), nn.GELU()
        self.drop, self.fc2 = nn.Dropout(0.0), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.drop(self.at("hidden", self.activate(self.fc1(x)))))


class MixerBlock(Part):
    def __init__(self, places: int) -> None:
        super().__init__()
        self.norm1, self.tokens = nn.LayerNorm(WIDTH), Mlp(places, 2 * places)
        self.norm2, self.channels = nn.LayerNorm(WIDTH), Mlp(WIDTH, 2 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = self.tokens(self.at("turned", self.norm1(x).mT))
        x = self.at("first_sum", x + self.at("turned_back", h.mT))
        return self.at("second_sum", x + self.channels(self.norm2(x)))


class Mixer(Part):
    def __init__(self) -> None:
        super().__init__()
        places = (SIZE // PATCH) ** 2
        self.patch = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.blocks = nn.ModuleList([MixerBlock(places), MixerBlock(places)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.at("patches", self.patch(self.at("image", x)).flatten(2).mT)
        for block in self.blocks:
            h = self.through(block, h)
        return self.head(self.at("pooled", self.norm(h).mean(1)))


class Attention(Part):
    def __init__(self) -> None:
        super().__init__()
        if is_way("fused_qkv"):
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        else:
            self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
            self.value = nn.Linear(WIDTH, WIDTH)
        self.drop, self.out = nn.Dropout(0.0), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        if is_way("fused_qkv"):
            query, key, value = self.qkv(x).chunk(3, -1)
        else:
            query, key, value = self.query(x), self.key(x), self.value(x)
        heads = *x.shape[:2], HEADS, WIDTH // HEADS
        query, key, value = (each.view(heads).transpose(1, 2) for each in (query, key, value))
        query, key = self.at("query", query), self.at("key", key)
        if is_way("fused_attention"):
            mixed = F.scaled_dot_product_attention(query, key, value, ~mask)
        else:
            if is_way("einsum"):
                scores = torch.einsum("bhid,bhjd->bhij", query, key)
            else:
                scores = query @ key.transpose(-2, -1)
            scores = self.at("scores", scores / math.sqrt(WIDTH // HEADS))
            shares = scores.masked_fill(mask, -1e9).softmax(-1)
            mixed = self.drop(self.at("shares", shares)) @ value
        mixed = self.at("joined", mixed.transpose(1, 2).reshape(x.shape))
        return self.out(mixed)


class EncoderBlock(Part):
    def __init__(self) -> None:
        super().__init__()
        self.attn, self.norm1 = Attention(), nn.LayerNorm(WIDTH, eps=1e-12)
        self.mlp, self.norm2 = Mlp(WIDTH, 2 * WIDTH), nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.norm1(self.at("first_sum", x + self.attn(x, mask)))
        return self.norm2(self.at("second_sum", x + self.mlp(x)))


class Encoder(Part):
    """An encoder as BERT's: normalized after the sums, its head tied to the table of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.norm, self.drop = nn.LayerNorm(WIDTH, eps=1e-12), nn.Dropout(0.0)
        self.blocks = nn.ModuleList([EncoderBlock(), EncoderBlock()])
        self.transform, self.act = nn.Linear(WIDTH, WIDTH), nn.GELU()
        self.last_norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.head.weight = self.tokens.weight

    def forward(self, x: Tensor) -> Tensor:
        places = self.places(torch.arange(x.shape[1]))
        h = self.drop(self.norm(self.at("embedded", self.tokens(x) + self.at("places", places))))
        mask = (x == 0)[:, None, None]
        for block in self.blocks:
            h = block(h, mask)
        h = self.last_norm(self.activate(self.transform(self.at("encoded", h))))
        return self.head(h)


class Gru(nn.Module):
    """A GRU, or the same cells called one after the other."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.rnn = nn.GRU(width, WIDTH, batch_first=True)

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        if not is_way("cells"):
            return self.rnn(x, state[None])[0]
        weights = self.rnn._flat_weights
        states = []
        for at in range(x.shape[1]):
            state = torch.gru_cell(x[:, at], state, *weights)
            states.append(state)
        return torch.stack(states, 1)


class Seq2seq(Part):
    """A GRU reads, another one writes and looks at what was read."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(VOCABULARY, WIDTH)
        self.drop = nn.Dropout(0.0)
        self.encoder, self.bridge = Gru(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.act = nn.Tanh()
        self.decoder, self.score = Gru(WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.join, self.norm = nn.Linear(2 * WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, x: Tensor) -> Tensor:
        zero = torch.zeros(x.shape[0], WIDTH)
        read = self.encoder(self.drop(self.at("source", self.source(x))), zero)
        read = self.at("read", read)
        state = self.at("state", self.activate(self.bridge(read[:, -1])))
        wrote = self.decoder(self.at("target", self.target(x.flip(1))), state)
        wrote = self.at("wrote", wrote)
        if is_way("einsum"):
            scores = torch.einsum("bid,bjd->bij", self.score(wrote), read)
        else:
            scores = self.score(wrote) @ read.mT
        shares = self.at("shares", self.at("scores", scores).softmax(-1))
        context = self.at("context", shares @ read)
        joined = self.at("joined", torch.cat([wrote, context], -1))
        return self.head(self.norm(self.activate(self.join(joined))))


class TextNet(Part):
    """Convolutions over words, an LSTM of two layers and directions, means and maxima."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.narrow = nn.Conv1d(WIDTH, WIDTH // 2, 3, padding=1)
        self.wide = nn.Conv1d(WIDTH, WIDTH // 2, 3, padding=2, dilation=2)
        self.bn, self.act = nn.BatchNorm1d(WIDTH), nn.SiLU()
        self.lstm = nn.LSTM(WIDTH, WIDTH // 2, 2, batch_first=True, bidirectional=True)
        self.norm, self.drop = nn.LayerNorm(2 * WIDTH), nn.Dropout(0.0)
        self.fc, self.gate = nn.Linear(2 * WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.at("words", self.tokens(x).mT)
        both = torch.cat([self.at("narrow", self.narrow(h)), self.at("wide", self.wide(h))], 1)
        h = self.at("sum", h + self.activate(self.bn(both)))
        states = self.at("states", self.lstm(self.at("turned", h.mT))[0])
        mean, largest = self.at("mean", states.mean(1)), self.at("largest", states.amax(1))
        h = self.drop(self.norm(torch.cat([mean, largest], 1)))
        h = self.at("gated", self.fc(h) * self.at("gate", self.gate(h).sigmoid()))
        return self.head(h)


class Autoencoder(Part):
    """An image is made smaller, coded, and made again."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 8, 3, 2, 1), nn.GroupNorm(2, 8)
        self.conv2, self.norm2 = nn.Conv2d(8, 16, 3, 2, 1), nn.GroupNorm(4, 16)
        self.act, self.leaky = nn.ELU(), nn.PReLU(16)
        self.code, self.decode = nn.Linear(16 * 9, WIDTH), nn.Linear(WIDTH, 16 * 9)
        self.drop = nn.Dropout(0.0)
        self.up1, self.norm3 = nn.ConvTranspose2d(16, 8, 2, 2), nn.InstanceNorm2d(8, affine=True)
        self.up2, self.last = nn.ConvTranspose2d(8, 8, 2, 2), nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.activate(self.norm1(self.conv1(self.at("image", x))))
        h = self.leaky(self.norm2(self.conv2(self.at("first", h))))
        code = self.code(self.at("flat", h.flatten(1)))
        h = self.decode(self.drop(self.at("code", code))).view(-1, 16, 3, 3)
        h = self.activate(self.norm3(self.up1(self.at("decoded", h))))
        return self.at("made", self.last(self.at("large", self.up2(h))).tanh())


class Tower(Part):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.bn1 = nn.Linear(SIZE, WIDTH), nn.BatchNorm1d(WIDTH)
        self.fc2, self.bn2 = nn.Linear(WIDTH, WIDTH, bias=False), nn.BatchNorm1d(WIDTH)
        self.act, self.drop, self.fc3 = nn.ReLU(), nn.Dropout(0.0), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = self.at("hidden", self.activate(self.bn1(self.fc1(x))))
        h = self.at("sum", h + self.activate(self.bn2(self.fc2(h))))
        return self.at("unit", F.normalize(self.fc3(self.drop(h)), dim=-1))


class Siamese(Part):
    """One tower is called twice, for two halves of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.tower, self.norm = Tower(), nn.LayerNorm(3 * WIDTH)
        self.mix, self.act = nn.Linear(3 * WIDTH, WIDTH), nn.Tanh()
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        left, right = x[:, :SIZE], self.at("right", x[:, SIZE:])
        a, b = self.at("a", self.tower(left)), self.at("b", self.tower(right))
        product, distance = self.at("product", a * b), self.at("distance", (a - b).abs())
        pair = self.at("joined", torch.cat([product, distance, a + b], -1))
        return self.head(self.at("mixed", self.activate(self.mix(self.norm(pair)))))


NETS: dict[str, type[Part]] = {
    "bottleneck": BottleneckNet,
    "convnext": ConvNext,
    "mixer": Mixer,
    "encoder": Encoder,
    "seq2seq": Seq2seq,
    "text": TextNet,
    "autoencoder": Autoencoder,
    "siamese": Siamese,
}
TOKEN_NETS = frozenset({"encoder", "seq2seq", "text"})
COMMON_WAYS = ("loss_module", "wrapped", "einsum", "fused_optimizer", "other_kernels")
WAYS = {
    "bottleneck": ("functions", "in_place", "channels_last"),
    "convnext": ("functions", "channels_last", "checkpointed"),
    "mixer": ("functions", "channels_last", "checkpointed"),
    "encoder": ("functions", "fused_qkv", "fused_attention"),
    "seq2seq": ("functions", "cells"),
    "text": ("functions",),
    "autoencoder": ("functions", "channels_last"),
    "siamese": ("functions",),
}
"""Correct ways of writing a net, in addition to the common ones."""


def build(kind: str) -> Part:
    """Build a net; its modules know their places."""
    net = NETS[kind]()
    for name, module in net.named_modules():
        if isinstance(module, Part):
            module.place = name
    return net
