"""Models as people write them, each with its data and its loss by hand; at module level, for other
processes.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import lightning
import numpy as np
import torch
import torchmetrics
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, TensorDataset

from tests.landscape import bound_networks, nets
from tests.landscape.nets import CLASSES, WIDTH, Small, small

COUNT = 24
LOSS = nn.CrossEntropyLoss()


def data(width: int = WIDTH) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(COUNT, width, generator=generator)
    return x, torch.randint(0, CLASSES, (COUNT,), generator=generator)


def pairs(width: int = WIDTH) -> list[Any]:
    """Batches of 10, 10 and 4 samples."""
    x, y = data(width)
    return list(zip(x.split(10), y.split(10), strict=True))


class Aliased(Small):
    """A submodule with two names."""

    def prepare(self) -> None:
        del self.net
        self.first = nn.Linear(64, 6)
        self.net = nn.Sequential(self.first, nn.ReLU(), nn.Linear(6, CLASSES))
        self.last = self.net[2]


class UsedTwice(Small):
    def prepare(self) -> None:
        layer = nn.Linear(64, 64)
        self.net = nn.Sequential(layer, nn.Tanh(), layer, nn.Linear(64, CLASSES))


class FrozenBackbone(Small):
    def prepare(self) -> None:
        self.backbone = nn.Linear(64, 8).requires_grad_(False)
        self.net = nn.Sequential(self.backbone, nn.ReLU(), nn.Linear(8, CLASSES))


class SharedMemory(nn.Module):
    """Two parameters that are one memory, but not one object."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder, self.head = (
            nn.Linear(WIDTH, size) for size in (WIDTH, WIDTH, CLASSES)
        )
        self.decoder.weight = nn.Parameter(self.encoder.weight.data)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.decoder(self.encoder(x).tanh()))


class RunningMean(Small):
    """Normalises by a mean of its own, which each call moves in place, and in evaluation too."""

    def prepare(self) -> None:
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        self.mean.data.mul_(0.5).add_(0.5 * x.mean(0) * self.net[0].weight.mean())
        self.calls += 1
        return self.net(x - self.mean) * (1 + 0.1 * self.calls)


class MemoryBank(Small):
    """A buffer that is not saved, bound anew in each call."""

    def prepare(self) -> None:
        self.register_buffer("bank", torch.zeros(CLASSES), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        out = self.net(x)
        self.bank = 0.5 * self.bank + out.mean(0)
        return out + self.bank


class Counting(Small):
    """State in plain attributes: a number, a list, an object."""

    def prepare(self) -> None:
        self.calls, self.losses, self.state = 0, [], Memory()

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.losses.append(x.mean())
        self.state.total = self.state.total + 1
        return self.net(x) * (
            1 + 0.1 * self.calls + 0.1 * len(self.losses) + 0.1 * self.state.total
        )


class Memory:
    def __init__(self) -> None:
        self.total = 0


class Slotted:
    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0


class Hidden(Small):
    """State where no attribute has it: slots, variables of a hook and of a partial, generators of
    its own.
    """

    def prepare(self) -> None:
        self.state = Slotted()
        self.numbers, self.python, self.older = (
            np.random.default_rng(0),
            random.Random(0),
            np.random.RandomState(0),
        )
        self.net[0].register_forward_hook(counting_hook())
        self.net[1].register_forward_hook(partial(counting_in, {"calls": 0}))

    def forward(self, x: Tensor) -> Tensor:
        self.state.total += 1
        draw = self.numbers.random() + self.python.random() + self.older.rand()
        return self.net(x) * (1 + 0.1 * self.state.total + 0.1 * draw)


def counting_hook() -> Any:
    calls, outputs = 0, []

    def hook(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        outputs.append(output.detach())
        hook.calls = getattr(hook, "calls", 0) + 1
        return output * (1 + 0.1 * calls + 0.1 * len(outputs) + 0.1 * hook.calls)

    return hook


def counting_in(store: dict[str, int], module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    store["calls"] += 1
    return output * (1 + 0.1 * store["calls"])


class Caching(Small):
    """Computes a weight once, in its first call."""

    cached: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.cached is None:
            self.cached = self.net[0].weight.softmax(0)
        return self.net(x) + nn.functional.linear(x, self.cached[:CLASSES])


class Viewed(Small):
    """Its parameters are parts of one buffer, and views of them are used too."""

    def prepare(self) -> None:
        self.flat = torch.cat([parameter.detach().flatten() for parameter in self.net.parameters()])
        start = 0
        for parameter in self.net.parameters():
            parameter.data = self.flat[start : start + parameter.numel()].view_as(parameter)
            start += parameter.numel()
        self.half = self.net[0].weight.detach()[:CLASSES]
        self.scale_weight = nn.Parameter(torch.zeros(CLASSES))
        self.prior = torch.distributions.Normal(self.scale_weight.detach(), torch.ones(CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        return self.prior.log_prob(
            self.net(x) * self.flat.norm() + nn.functional.linear(x, self.half)
        )


class Scripted(Small):
    def prepare(self) -> None:
        self.net = nn.Sequential(torch.jit.script(small(64)), nn.Linear(CLASSES, CLASSES))


class SparseGraph(Small):
    """Sparse buffers, and a sparse matrix in each batch."""

    def prepare(self) -> None:
        self.register_buffer("mixing", torch.eye(WIDTH).roll(1, 0).to_sparse())
        self.register_buffer("rows", torch.eye(WIDTH).to_sparse_csr())

    def forward(self, x: Tensor, neighbours: Tensor) -> Tensor:  # type: ignore[override]
        return self.net(neighbours @ x + (self.mixing @ x.T).T + (self.rows @ x.T).T)


class Spectral(nn.Module):
    """Complex weights, as in Fourier neural operators, and a weight of integers, which does not
    move.
    """

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(5, 5, dtype=torch.complex64))
        self.order_weight = nn.Parameter(torch.arange(WIDTH), requires_grad=False)
        self.register_buffer("turn", torch.polar(torch.ones(5), torch.arange(5.0)))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(x) * self.turn @ self.weights
        return self.head(torch.fft.irfft(spectrum, n=WIDTH)[:, self.order_weight].tanh() + x)


class Awaking(Small):
    """Changes its buffer only where the loss is large, so that not every point does."""

    def prepare(self) -> None:
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        out = self.net(x)
        if out.abs().mean() > 0.35:
            self.scale *= 1.5
        return out * self.scale


class OldWeightNorm(Small):
    def prepare(self) -> None:
        self.net = nn.Sequential(
            torch.nn.utils.weight_norm(nn.Linear(64, 6)), nn.ReLU(), nn.Linear(6, CLASSES)
        )


class Parametrized(Small):
    def prepare(self) -> None:
        one = torch.nn.utils.parametrizations.weight_norm(nn.Linear(64, 6))
        other = torch.nn.utils.parametrizations.spectral_norm(nn.Linear(6, CLASSES))
        self.net = nn.Sequential(one, nn.ReLU(), other)


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 5, batch_first=True), nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        lengths = torch.arange(len(x)) % 2 + 1
        packed = pack_padded_sequence(
            x.view(-1, 2, 4), lengths, batch_first=True, enforce_sorted=False
        )
        return self.head(self.lstm(packed)[1][0][-1])


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.norm, self.head = nn.LayerNorm(4), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = x.view(-1, 2, 4)
        return self.head(self.norm(self.attention(x, x, x)[0]).mean(1))


class MaxNorm(nn.Module):
    """An embedding that changes its weight in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(4, 6, max_norm=0.5), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embedding((x[:, 0] > 0).long()))


class Captured(Small):
    """What refers to its parameters outside of their modules, and a hook."""

    inputs = 64

    def prepare(self) -> None:
        self.weights = [self.net[0].weight, self.net[2].weight]
        self.net[0].register_forward_hook(double)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x) + sum(weight.pow(2).mean() for weight in self.weights)


def double(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    return 2 * output


class Lit(lightning.LightningModule, Small):
    """The usual one; the others change it."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        loss = cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        return loss


class Metrics(Lit):
    def prepare(self) -> None:
        self.accuracy = torchmetrics.Accuracy("multiclass", num_classes=CLASSES)
        self.scores = torchmetrics.CatMetric()

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        out = self.net(batch[0])
        self.accuracy(out, batch[1])
        self.scores.update(out.mean())
        loss = cross_entropy(out, batch[1])
        self.log("accuracy", self.accuracy)
        return {"loss": loss * (1 + self.accuracy.compute())}


class LazyNet(Small):
    def prepare(self) -> None:
        self.net = nn.Sequential(nn.LazyLinear(6), nn.LazyBatchNorm1d(), nn.Linear(6, CLASSES))


def materialized(module: nn.Module) -> nn.Module:
    """As after a first batch."""
    if hasattr(module, "configure_model"):
        module.configure_model()
    if isinstance(module, LazyNet):
        module(data()[0])
    return getattr(module, "_orig_mod", module)


class Configured(Lit):
    def prepare(self) -> None:
        self.net = None

    def configure_model(self) -> None:
        if self.net is None:
            self.net = small()


class Gan(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Sequential(nn.Linear(4, WIDTH))
        self.discriminator = small()

    def training_step(self, batch: Any, batch_idx: int) -> None:
        self.optimizers()[0].step()


class Distilled(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.teacher, self.student = small().requires_grad_(False), small()

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        with torch.no_grad():
            target = self.teacher(batch[0])
        return mse_loss(self.student(batch[0]), target)


class Ema(Lit):
    def prepare(self) -> None:
        self.ema = copy.deepcopy(self.net).requires_grad_(False)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        for slow, fast in zip(self.ema.parameters(), self.net.parameters(), strict=True):
            slow.data.mul_(0.9).add_(fast.data, alpha=0.1)
        return super().training_step(batch, batch_idx) + mse_loss(
            self.net(batch[0]), self.ema(batch[0])
        )


class Transferring(Lit):
    def prepare(self) -> None:
        self.register_buffer("mean", torch.full((WIDTH,), 0.3))

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return [batch[0] * 2, batch[1]]

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return [batch[0] - self.mean, batch[1]]


class Augmenting(Lit):
    """Asks its trainer whether it trains."""

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return [batch[0] * 2, batch[1]] if self.trainer.training else batch


class DictBatch(Lit):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        target = batch.pop("y")
        return cross_entropy(self.net(batch["x"]), target)


class InPlaceBatch(Lit):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        batch[0].mul_(0.5).add_(1)
        return super().training_step(batch, batch_idx)


class Graph:
    """A batch as libraries of graph networks have them."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def to(self, device: Any, **_: Any) -> Graph:
        return Graph(self.x.to(device), self.y.to(device))


class GraphNet(Lit):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        neighbours = torch.roll(batch.x, 1, 0)
        return cross_entropy(self.net(batch.x + neighbours), batch.y)


class NoIndex(Lit):
    def training_step(self, batch: Any) -> Any:  # type: ignore[override]
        return super().training_step(batch, 0)


class AsksItsTrainer(Lit):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.logger.experiment.add_scalar("x", 1)
        return super().training_step(batch, batch_idx) * (
            1 + self.trainer.current_epoch + self.current_epoch
        )


class Physics(Lit):
    """Its loss has a derivative of the network."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        x = batch[0].clone().requires_grad_()
        out = self.net(x).sum()
        (slope,) = torch.autograd.grad(out, x, create_graph=True)
        return super().training_step(batch, batch_idx) + slope.pow(2).mean()


class Mixup(Lit):
    """Random numbers of NumPy and Python, the same at every point."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        share = 0.5 + 0.1 * np.random.rand() + 0.1 * random.random()  # noqa: NPY002 - as users write it
        return super().training_step(
            [share * batch[0] + (1 - share) * batch[0].flip(0), batch[1]], batch_idx
        )


class Contrastive(Lit):
    """A loss of pairs in a batch, so that batches must not be joined."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        out = nn.functional.normalize(self.net(batch[0]), dim=1)
        return cross_entropy(out @ out.T, torch.arange(len(out)))


class SeveralLoaders(Lit):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return super().training_step(batch["a"], batch_idx) + 0.5 * super().training_step(
            batch["b"], batch_idx
        )


class Data(lightning.LightningDataModule):
    def setup(self, stage: str) -> None:
        self.pairs = TensorDataset(*data())

    def train_dataloader(self) -> Any:
        return DataLoader(self.pairs, 10)

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return [3 * batch[0] if self.trainer.training else batch[0], batch[1]]


def loader() -> Any:
    return DataLoader(TensorDataset(*data()), 10)


def wide() -> list[Any]:
    return pairs(64)


def by_hand(module: nn.Module, batch: Any, index: int) -> Tensor:
    return LOSS(module(*batch[:-1]), batch[-1])


def step(module: Any, batch: Any, index: int) -> Tensor:
    module.log = lambda *_, **__: None
    loss = module.training_step(batch, index)
    return loss["loss"] if isinstance(loss, dict) else loss


def step_in_epoch_zero(module: Any, batch: Any, index: int) -> Tensor:
    return cross_entropy(module.net(batch[0]), batch[1])


@dataclass(frozen=True)
class Animal:
    """A model, how it was trained, what is asked of it, and its loss of one batch by hand."""

    make: Callable[[], nn.Module]
    batches: Callable[[], list[Any]] = pairs
    loss: Callable[[Any, Any, int], Tensor] = by_hand
    data: Callable[[], Any] | None = None
    loss_fn: Any = LOSS
    part: Callable[[Any], Any] | None = None  # what is passed of it
    prefix: str | None = None
    dtype: torch.dtype = torch.float32
    has_gradients: bool = False  # in its loss
    samples: int = COUNT


def lit(make: Callable[[], nn.Module], loss: Any = step, **others: Any) -> Animal:
    return Animal(make, loss=loss, loss_fn=None, **others)


ZOO = {
    "mlp": Animal(
        nets.Mlp, lambda: [(x.repeat(1, 2)[:, :80].view(-1, 8, 10), y) for x, y in wide()]
    ),
    "convolutions": Animal(
        nets.ConvNet,
        lambda: [(torch.stack([x.sin()] * 8, 1).view(-1, 8, 8, 8), y) for x, y in wide()],
    ),
    "transformer": Animal(
        nets.Transformer, lambda: [((x.abs() * 9).long() % 20, y) for x, y in pairs()]
    ),
    "tied": Animal(nets.Tied, lambda: [(x.repeat(1, 2)[:, :80], y) for x, y in wide()]),
    "aliased": Animal(Aliased, wide),
    "used twice": Animal(UsedTwice, wide),
    "frozen backbone": Animal(FrozenBackbone, wide),
    "shared memory": Animal(SharedMemory),
    "running mean": Animal(RunningMean),
    "memory bank": Animal(MemoryBank),
    "counting": Animal(Counting),
    "awaking": Animal(Awaking),
    "hidden state": Animal(Hidden),
    "caching": Animal(Caching),
    "viewed": Animal(Viewed),
    "scripted": Animal(Scripted, wide),
    "sparse": Animal(
        SparseGraph, lambda: [(x, torch.eye(len(x)).roll(1, 0).to_sparse(), y) for x, y in pairs()]
    ),
    "spectral": Animal(Spectral),
    "old weight norm": Animal(OldWeightNorm, wide),
    "parametrized": Animal(Parametrized, wide),
    "packed": Animal(Packed),
    "attention": Animal(Attention),
    "max norm": Animal(MaxNorm),
    "captured": Animal(Captured, wide),
    "lazy": Animal(LazyNet),
    "lightning": lit(Lit),
    "metrics": lit(Metrics),
    "configured": lit(Configured),
    "gan": Animal(
        Gan,
        loss=lambda gan, batch, _: LOSS(gan.discriminator(batch[0]), batch[1]),
        part=lambda gan: gan.discriminator,
    ),
    "student": Animal(
        Distilled,
        loss=lambda both, batch, _: LOSS(both.student(batch[0]), batch[1]),
        part=lambda both: both.student,
        prefix="student",
    ),
    "distilled": lit(Distilled),
    "ema": lit(Ema),
    "transferring": lit(
        Transferring,
        lambda net, batch, index: step(net, [2 * batch[0] - net.mean, batch[1]], index),
    ),
    "augmenting": lit(Augmenting, lambda net, batch, _: LOSS(net.net(2 * batch[0]), batch[1])),
    "dict batches": lit(DictBatch, batches=lambda: [{"x": x, "y": y} for x, y in pairs()]),
    "in-place batches": lit(InPlaceBatch),
    "graphs": lit(GraphNet, batches=lambda: [Graph(x, y) for x, y in pairs()]),
    "no index": lit(NoIndex, lambda net, batch, _: LOSS(net.net(batch[0]), batch[1])),
    "asks its trainer": lit(AsksItsTrainer, step_in_epoch_zero),
    "physics": lit(Physics, has_gradients=True),
    "mixup": lit(Mixup),
    "contrastive": lit(Contrastive),
    "several loaders": lit(
        SeveralLoaders,
        batches=lambda: [{"a": pair, "b": pair} for pair in pairs()],
        data=lambda: {"a": loader(), "b": loader()},
    ),
    "data module": lit(Lit, batches=lambda: [[3 * x, y] for x, y in pairs()], data=Data),
    "bf16-true": lit(Lit, dtype=torch.bfloat16),
    "64-true": lit(Lit, dtype=torch.float64),
    # not run compiled: only its LightningModule is asked
    "compiled": lit(lambda: torch.compile(Lit())),
}


ZOO |= {
    f"bound: {make.__name__}": lit(make, batches=bound_networks.batches, samples=48)
    for make in bound_networks.BOUND
}


def converted(batch: Any, dtype: torch.dtype) -> Any:
    if dtype == torch.float32:
        return copy.deepcopy(batch)
    return [part.to(dtype) if part.is_floating_point() else part for part in batch]


def walk(animal: Animal, steps: int) -> Iterator[dict[str, Tensor]]:
    """The state dicts of a training: each parameter moves a little, each floating buffer too."""
    torch.manual_seed(1)
    module = materialized(animal.make())
    # complex ones stay
    module = module if animal.dtype == torch.float32 else module.to(animal.dtype)
    generator = torch.Generator().manual_seed(2)
    for _ in range(steps):
        with torch.no_grad():
            for name, tensor in module.state_dict(keep_vars=True).items():
                if tensor.is_complex():
                    tensor.add_(
                        0.1 * torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
                    )
                elif tensor.is_floating_point() and (tensor.requires_grad or "mean" in name):
                    noise = torch.randn(tensor.shape, generator=generator) * 0.1
                    tensor.add_(noise.to(tensor.dtype))
        yield module.state_dict()


def fresh(animal: Animal, seed: int = 3) -> Any:
    """As a user builds it in the program that makes the landscapes, with weights of its own."""
    torch.manual_seed(seed)
    return animal.make()
