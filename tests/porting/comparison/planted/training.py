"""Trains a net of ``nets``: correctly, in another correct way, or with a planted mistake."""

from __future__ import annotations

import logging
import math
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import lightning as L
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import MindInsightLogger, SummaryCollector
from tests.porting.comparison.planted.changes import (
    GRADIENT_CHANGES,
    MODULE_CHANGES,
    POINT_CHANGES,
    WEIGHT_CHANGES,
    EinsumLinear,
    replace_module,
)
from tests.porting.comparison.planted.mistakes import Mistake, mistakes_of
from tests.porting.comparison.planted.nets import (
    CLASSES,
    LENGTH,
    SIZE,
    TOKEN_NETS,
    VOCABULARY,
    Writing,
    build,
    is_way,
    written,
)
from tests.trainer.support import trainer

BATCH, STEPS = 8, 3
_DECAY = 0.05
_SCHEDULE = (1.0, 0.9, 0.8)
_NO_MISTAKE = Mistake("", "", "")
OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "bottleneck": ("SGD", {"lr": 0.05, "momentum": 0.9}),
    "convnext": ("AdamW", {"lr": 2e-3}),
    "mixer": ("Adam", {"lr": 1e-3}),
    "encoder": ("AdamW", {"lr": 1e-3, "betas": (0.9, 0.98), "eps": 1e-6}),
    "seq2seq": ("Adam", {"lr": 2e-3}),
    "text": ("RMSprop", {"lr": 1e-3, "momentum": 0.9}),
    "autoencoder": ("Adagrad", {"lr": 1e-2}),
    "siamese": ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
}
_CLIPPED = {"seq2seq": 1.0}  # the norm to which a net's gradients are clipped
_OPTIONS: dict[str, dict[str, Any]] = {
    "nesterov": {"nesterov": True}, "not_nesterov": {"nesterov": False},
    "momentum_off": {"momentum": 0.8}, "dampening": {"dampening": 0.1},
    "optimizer_eps": {"eps": 1e-3}, "betas": {"betas": (0.9, 0.9)},
    "first_beta": {"betas": (0.8, 0.999)}, "centered": {"centered": True},
    "alpha": {"alpha": 0.9}, "accumulator": {"initial_accumulator_value": 0.1},
    "rate_decay": {"lr_decay": 0.1},
}  # fmt: skip
_RATES = {"rate_off": 1.1, "rate_tenfold": 10.0}
_DECAYS = {"decay_missing": 0.0, "decay_tenfold": 10.0}
_SCHEDULES = {"schedule_early": (0.9, 0.8, 0.7), "schedule_late": (1.0, 1.0, 0.9)}


def _generator(name: str, seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(zlib.crc32(f"{name} {seed}".encode()))


def weight_of(name: str, shape: torch.Size, seed: int) -> Tensor:
    """Return the initial value of a weight by its name."""
    draw = torch.randn(shape, generator=_generator(name, seed))
    last = name.rpartition(".")[2]
    if last in ("running_var", "gamma"):
        return 0.5 + draw.abs()
    if len(shape) == 1:
        return 0.1 * draw + (last == "weight")
    return draw / math.sqrt(math.prod(shape[1:]))


def _carry(net: nn.Module, seed: int) -> None:
    state = {}
    for name, tensor in net.state_dict().items():
        if not tensor.is_floating_point():
            continue
        if "qkv" in name:
            parts = [name.replace("qkv", part) for part in ("query", "key", "value")]
            shape = torch.Size([tensor.shape[0] // 3, *tensor.shape[1:]])
            state[name] = torch.cat([weight_of(part, shape, seed) for part in parts])
        else:
            own = name.replace("head.weight", "tokens.weight") if _is_tied(net) else name
            state[name] = weight_of(own, tensor.shape, seed)
    net.load_state_dict(state, strict=False)


def _is_tied(net: nn.Module) -> bool:
    tokens, head = getattr(net, "tokens", None), getattr(net, "head", None)
    return tokens is not None and head.weight is tokens.weight


_DATA_CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "mean_std": lambda x: x * 2 - 0.3,
    "nearly_scaled": lambda x: x * 1.001,
    "bgr": lambda x: x.flip(1),
    "mirrored": lambda x: x.flip(-1),
    "transposed": lambda x: x.mT.contiguous(),
    "rounded": lambda x: (x * 64).round() / 64,
    "reversed": lambda x: x.flip(1),
    "tokens_off": lambda x: torch.where(x > 0, x % (VOCABULARY - 1) + 1, x),
    "truncated": lambda x: torch.where(torch.arange(LENGTH) < LENGTH - 3, x, 0),
    "later_tokens": lambda x: x.roll(1, 1),
    "third_batch": lambda x: torch.cat([x[: 2 * BATCH], x[2 * BATCH :].flip(-1)]),
}


def batches(kind: str, seed: int, mistake: Mistake = _NO_MISTAKE) -> TensorDataset:
    """Return the data of a net."""
    random, count = _generator(f"data of {kind}", seed), BATCH * STEPS
    if kind in TOKEN_NETS:
        x = torch.randint(1, VOCABULARY, (count, LENGTH), generator=random)
        lengths = torch.randint(LENGTH // 2, LENGTH + 1, (count, 1), generator=random)
        x = torch.where(torch.arange(LENGTH) < lengths, x, 0)
    elif kind == "siamese":
        x = torch.randn(count, 2 * SIZE, generator=random)
    else:
        x = 0.3 + torch.randn(count, 3, SIZE, SIZE, generator=random)
    y = torch.randint(0, CLASSES, (count,), generator=random)
    if kind in ("encoder", "seq2seq"):
        y = (x * 7 + 3) % VOCABULARY
    if kind == "autoencoder":
        y = (x / 2).tanh()
    what = mistake.what if not mistake.where else ""
    x = _DATA_CHANGES.get(what, lambda x: x)(x)
    if what == "other_order":
        x, y = x.roll(1, 0), y.roll(1, 0)
    if what == "labels_off":
        y = y * 1.01 if y.is_floating_point() else (y + 1) % CLASSES
    return TensorDataset(x, y.flip(0) if what == "labels_of_others" else y)


def loss_of(kind: str, out: Tensor, y: Tensor, what: str, net: nn.Module) -> Tensor:
    """Return the loss, correct or with a mistake."""
    out, y = (out.flatten(0, 1), y.flatten()) if out.ndim == 3 else (out, y)
    if what == "first_half":
        out, y = out[: len(out) // 2], y[: len(y) // 2]
    reduction = "sum" if what == "summed" else "mean"
    if kind == "autoencoder":
        function: Callable[..., Tensor] = F.l1_loss if what == "absolute" else F.mse_loss
        criterion: nn.Module = nn.MSELoss()
        options: dict[str, Any] = {}
    else:
        function, criterion = F.cross_entropy, nn.CrossEntropyLoss()
        weight = torch.linspace(0.5, 1.5, out.shape[1]) if what == "weighted" else None
        smoothing = 0.1 if what == "smoothing" else 0.0
        options = {"weight": weight, "label_smoothing": smoothing}
    out = out.softmax(1) if what == "softmax_twice" else out
    if is_way("loss_module"):
        return criterion(out, y)
    loss = function(out, y, reduction=reduction, **options)
    if what == "halved":
        loss = loss / 2
    if what == "penalty":
        loss = loss + 1e-3 * sum(weight.square().sum() for weight in net.parameters())
    return loss


class Port(L.LightningModule):
    """A net with its loss and its optimizer."""

    def __init__(self, kind: str, net: nn.Module, mistake: Mistake) -> None:
        super().__init__()
        self.kind, self.mistake = kind, mistake
        self.what = mistake.what if not mistake.where else ""
        if is_way("wrapped"):
            self.backbone = nn.ModuleDict({"inner": net})
        else:
            self.model = net

    @property
    def net(self) -> nn.Module:
        return self.backbone["inner"] if hasattr(self, "backbone") else self.model

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return loss_of(self.kind, self.net(batch[0]), batch[1], self.what, self.net)

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: Any) -> None:
        if self.what != "gradients_kept":
            optimizer.zero_grad()

    def configure_optimizers(self) -> Any:
        name, options = OPTIMIZERS[self.kind]
        name = {"adam": "Adam", "adamw": "AdamW"}.get(self.what, name)
        options = options | _OPTIONS.get(self.what, {})
        options["lr"] *= _RATES.get(self.what, 1.0)
        can_be_fused = name in ("Adam", "AdamW", "SGD", "Adagrad")
        if is_way("fused_optimizer") and can_be_fused:
            options["fused"] = True
        optimizer = getattr(torch.optim, name)([*self._groups(options["lr"])], **options)
        factors = _SCHEDULES.get(self.what, _SCHEDULE)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: factors[min(step, STEPS - 1)]
        )
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    def _groups(self, rate: float) -> Iterator[dict[str, Any]]:
        """Yield the groups of parameters: with decay, without, and that of a mistake."""
        what, where = self.mistake.what, self.mistake.where
        decay = _DECAY * _DECAYS.get(self.what, 1.0)
        own = {"own_rate": {"lr": 2 * rate}, "own_decay": {"weight_decay": 0.5}}.get(what)
        decayed, others = [], []
        for name, weight in self.net.named_parameters():
            is_own = name == where
            if is_own and own is not None:
                yield {"params": [weight], "weight_decay": decay * (weight.ndim > 1), **own}
            elif not (is_own and what == "left_out"):
                is_decayed = weight.ndim > 1 or self.what == "decay_of_all"
                (decayed if is_decayed else others).append(weight)
        yield {"params": decayed, "weight_decay": decay}
        yield {"params": others, "weight_decay": 0.0}


@contextmanager
def other_kernels() -> Iterator[None]:
    """Compute linear layers, convolutions and norms in another order, as a baseline may do."""

    def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        product = x.flip(-1) @ weight.flip(-1).T
        return product if bias is None else product + bias

    def layer_norm(
        x: Tensor, shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> Tensor:
        centered = x - x.mean(-1, keepdim=True)
        deviation = (centered.square().mean(-1, keepdim=True) + eps).sqrt()
        return centered / deviation * weight + bias

    def gelu(x: Tensor, approximate: str = "none") -> Tensor:
        return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))

    with ExitStack() as stack:
        for name, function in (("linear", linear), ("layer_norm", layer_norm), ("gelu", gelu)):
            stack.enter_context(mock.patch.object(F, name, function))
        stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
        yield


def points_of(kind: str) -> dict[tuple[str, str], bool]:
    """Return the points of a net, with whether gradients flow through them."""
    with written(Writing()) as writing:
        build(kind)(batches(kind, 0).tensors[0][:2])
    return writing.seen


def all_mistakes(kind: str) -> list[Mistake]:
    return mistakes_of(kind, build(kind), points_of(kind))


def train(
    kind: str,
    directory: Path,
    *,
    seed: int = 0,
    way: str = "",
    mistake: Mistake = _NO_MISTAKE,
    is_baseline: bool = False,
) -> dict[str, Tensor]:
    """Train and record a net, and return its state after the last step."""
    writing = Writing(way)
    if mistake.what in POINT_CHANGES and ":" in mistake.where:
        module, _, point = mistake.where.partition(":")
        writing = Writing(way, (module, point), POINT_CHANGES[mistake.what])
    with ExitStack() as stack:
        stack.enter_context(written(writing))
        if is_baseline:
            stack.enter_context(other_kernels())
        if way == "other_kernels":
            stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
        torch.manual_seed(seed)
        net = build(kind)
        _carry(net, seed)
        _plant(net, mistake)
        torch.manual_seed(seed)
        port = Port(kind, net, mistake)
        _fit(port, batches(kind, seed, mistake), directory)
        return {name: tensor.detach().clone() for name, tensor in net.state_dict().items()}


def _plant(net: nn.Module, mistake: Mistake) -> None:
    what, where = mistake.what, mistake.where
    if is_way("channels_last"):
        net.to(memory_format=torch.channels_last)
    if is_way("einsum"):
        for name, module in [*net.named_modules()]:
            if type(module) is nn.Linear:
                replace_module(net, name, EinsumLinear(module))
    if not where or ":" in where:
        return
    if mistake.stage == "weights" and what in WEIGHT_CHANGES:
        weight = net.get_parameter(where)
        with torch.no_grad():
            weight.copy_(WEIGHT_CHANGES[what](where, weight))
    elif what in GRADIENT_CHANGES:
        GRADIENT_CHANGES[what](net.get_parameter(where))
    elif what in MODULE_CHANGES:
        replace_module(net, where, MODULE_CHANGES[what](net.get_submodule(where)))


def _fit(port: Port, data: TensorDataset, directory: Path) -> None:
    recorder = SummaryCollector(
        collect_freq=1,
        collect_specified_data={"collect_landscape": None, "collect_graph": False},
        collect_output_statistics=True,
    )
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    clip, algorithm = _CLIPPED.get(port.kind), "norm"
    if port.what == "clipped":
        clip = 0.05
    if port.what == "clipped_by_value":
        clip, algorithm = 0.001, "value"
    if port.what == "clip_missing":
        clip = None
    running = trainer(
        logger=MindInsightLogger(directory.parent, name="", version=directory.name),
        callbacks=[recorder],
        gradient_clip_val=clip,
        gradient_clip_algorithm=algorithm,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        running.fit(port, DataLoader(data, BATCH))
