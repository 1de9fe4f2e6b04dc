"""The same nets in PyTorch, and what a port may get wrong: each error by a name, the step and the
class it shows in.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from mindsummary_lightning import SummaryRecord
from tests.porting.comparison.ports.data import BATCH, NETS, STEPS

_NORMS = ("bn1", "bn2", "norm")


class Mistake(NamedTuple):
    """Where a mistake must be found: its step and class, and the rule or tensor that names it, if
    any can.
    """

    step: int
    kind: str
    named: str = ""


class Cnn(nn.Module):
    def __init__(self, wrong: str) -> None:
        super().__init__()
        self.wrong = wrong
        self.conv1, self.bn1 = nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(16, eps=1e-3 if wrong == "bn_eps" else 1e-5)
        self.fc1, self.norm, self.fc2 = nn.Linear(144, 32), nn.LayerNorm(32), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pool = F.avg_pool2d if self.wrong == "avgpool" else F.max_pool2d
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = pool(F.relu(self.bn2(self.conv2(x))), 2)
        h = self.fc1(x.flatten(1))
        h = F.gelu(h) if self.wrong == "activation" else F.relu(h)
        h = h.detach() + 0 * h if self.wrong == "detach" else h
        return self.fc2(self.norm(h))


class Mlp(nn.Module):
    def __init__(self, wrong: str) -> None:
        super().__init__()
        self.emb, self.fc1, self.fc2 = nn.Embedding(50, 32), nn.Linear(32, 64), nn.Linear(64, 32)
        self.norm = nn.LayerNorm(32, eps=1e-5 if wrong == "norm_eps" else 1e-7)
        self.head, self.act = nn.Linear(32, 4), nn.GELU("none" if wrong == "activation" else "tanh")
        self.wrong = wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.emb(x)
        inner = self.fc2(self.act(self.fc1(h)))
        h = self.norm(inner if self.wrong == "no_residual" else h + inner)
        return self.head(h.amax(1) if self.wrong == "pooling" else h.mean(1))


class Regression(nn.Module):
    def __init__(self, wrong: str) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(6, 24), nn.Linear(24, 24), nn.Linear(24, 1)
        self.wrong = wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        act = F.hardtanh if self.wrong == "activation" else torch.tanh
        h = act(self.fc1(x))
        h = act(self.fc2(h.detach() if self.wrong == "detach" else h))
        return self.fc3(h)


class Attention(nn.Module):
    def __init__(self, wrong: str) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(16, 16) for _ in range(4))
        self.norm, self.head, self.wrong = nn.LayerNorm(16), nn.Linear(16, 2), wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = 1.0 if self.wrong == "no_scale" else 4.0
        weights = (self.query(x) @ self.key(x).mT / scale).softmax(
            1 if self.wrong == "softmax_axis" else -1
        )
        h = self.norm(x + self.out(weights @ self.value(x)))
        return self.head(h[:, 0] if self.wrong == "pooling" else h.mean(1))


class Recommender(nn.Module):
    def __init__(self, wrong: str) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(40, 8), nn.Embedding(40, 8)
        self.user_bias, self.item_bias, self.wrong = nn.Embedding(40, 1), nn.Embedding(40, 1), wrong

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        if self.wrong == "swapped":
            user, item = item, user
        product = (self.users(user) * self.items(item)).sum(1)
        bias = self.user_bias(user)[:, 0] + (
            0 if self.wrong == "no_item_bias" else self.item_bias(item)[:, 0]
        )
        return torch.sigmoid(product + bias)


NET_CLASSES = {
    "cnn": Cnn,
    "mlp": Mlp,
    "regression": Regression,
    "attention": Attention,
    "recommender": Recommender,
}

_EVERYWHERE = {
    "learning_rate": Mistake(1, "update", "update_ratio"),
    "schedule": Mistake(21, "update", "update_ratio"),
    "batch": Mistake(6, "forward"),
    "weights": Mistake(1, "forward"),
    "frozen": Mistake(1, "update"),
    "sum": Mistake(1, "forward", "loss_ratio"),
}
MISTAKES: dict[str, dict[str, Mistake]] = {
    "cnn": {
        **_EVERYWHERE,
        "bn_eps": Mistake(1, "forward"),
        "avgpool": Mistake(1, "forward"),
        "activation": Mistake(1, "forward"),
        "detach": Mistake(1, "update", "unchanged"),
        "decay_of_all": Mistake(1, "update"),
        "no_decay": Mistake(1, "update"),
        "nesterov": Mistake(1, "update", "update_ratio"),
        "dampening": Mistake(2, "update"),
        "clip": Mistake(1, "update", "update_ratio"),
        "accumulation": Mistake(1, "update"),
    },
    "mlp": {
        **_EVERYWHERE,
        "norm_eps": Mistake(1, "forward"),
        "activation": Mistake(1, "forward"),
        "no_residual": Mistake(1, "forward"),
        "pooling": Mistake(1, "forward"),
        "decay_of_all": Mistake(1, "update"),
        "betas": Mistake(2, "update"),
    },
    "regression": {
        **_EVERYWHERE,
        "activation": Mistake(1, "forward"),
        "detach": Mistake(1, "update", "unchanged"),
        "momentum": Mistake(2, "update"),
        "clip": Mistake(1, "update", "update_ratio"),
        "l1": Mistake(1, "forward"),
    },
    "attention": {
        **_EVERYWHERE,
        "no_scale": Mistake(1, "forward"),
        "softmax_axis": Mistake(1, "forward"),
        "pooling": Mistake(1, "forward"),
        "accumulation": Mistake(1, "update"),
    },
    "recommender": {
        **_EVERYWHERE,
        "swapped": Mistake(1, "forward"),
        "no_item_bias": Mistake(1, "update", "unchanged"),
        "amsgrad": Mistake(2, "update"),
    },
}


class MindSporeAdam(torch.optim.Optimizer):
    """Adam as MindSpore computes it: epsilon before the correction of the bias, decay added to the
    gradient.
    """

    def __init__(
        self, groups: list[dict[str, Any]], lr: float, beta: float = 0.9, amsgrad: bool = False
    ) -> None:
        super().__init__(groups, {"lr": lr, "weight_decay": 0.0})
        self.count, self.beta, self.amsgrad = 0, beta, amsgrad

    @torch.no_grad()
    def step(self, closure: Callable[[], torch.Tensor] | None = None) -> None:
        self.count += 1
        for group in self.param_groups:
            for weight in (weight for weight in group["params"] if weight.grad is not None):
                state = self.state[weight]
                gradient = weight.grad + group["weight_decay"] * weight
                first = state.setdefault("m", torch.zeros_like(weight))
                second = state.setdefault("v", torch.zeros_like(weight))
                first.mul_(self.beta).add_(gradient, alpha=1 - self.beta)
                second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
                largest = state.setdefault("largest", torch.zeros_like(weight))
                torch.maximum(largest, second, out=largest)
                rate = group["lr"] * (1 - 0.999**self.count) ** 0.5 / (1 - self.beta**self.count)
                weight.sub_(rate * first / ((largest if self.amsgrad else second).sqrt() + 1e-8))


def _optimizer(kind: str, net: nn.Module, wrong: str) -> torch.optim.Optimizer:
    data = NETS[kind]()
    rate = data.learning_rate * (1.01 if wrong == "learning_rate" else 1.0)
    decay = 0.0 if wrong == "no_decay" else data.weight_decay
    named = [(name, weight) for name, weight in net.named_parameters() if weight.requires_grad]
    is_norm = {name: name.startswith(_NORMS) and wrong != "decay_of_all" for name, _ in named}
    groups = [
        {"params": [weight for name, weight in named if not is_norm[name]], "weight_decay": decay},
        {"params": [weight for name, weight in named if is_norm[name]], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if kind == "cnn":
        dampening = 0.1 if wrong == "dampening" else 0.0
        return torch.optim.SGD(groups, rate, 0.9, dampening, nesterov=wrong == "nesterov")
    if kind == "regression":
        return torch.optim.SGD(groups, rate, 0.5 if wrong == "momentum" else 0.0)
    return MindSporeAdam(groups, rate, 0.8 if wrong == "betas" else 0.9, wrong == "amsgrad")


def _loss(kind: str, result: torch.Tensor, label: torch.Tensor, wrong: str) -> torch.Tensor:
    reduction = "sum" if wrong == "sum" else "mean"
    if kind in ("cnn", "mlp", "attention"):
        return F.cross_entropy(result, label.long(), reduction=reduction)
    return (F.l1_loss if wrong == "l1" else F.mse_loss)(result, label, reduction=reduction)


def train(
    kind: str, directory: Path, wrong: str = "", seed: int | None = None, freq: int = 1
) -> None:
    """Train a net and record loss and histograms as the collector does.

    Args:
        kind: which net.
        directory: of the run.
        wrong: the mistake to make.
        seed: of other first weights, instead of those of MindSpore's run.
        freq: gap between recorded steps.
    """
    data, net = NETS[kind](), NET_CLASSES[kind](wrong)
    generator = np.random.default_rng(seed)
    with torch.no_grad():
        for name, weight in net.named_parameters():
            first = torch.tensor(data.weights[name])
            if seed is not None and first.std(unbiased=False) > 0:
                first = torch.tensor(
                    generator.normal(first.mean(), first.std(unbiased=False), first.shape).astype(
                        np.float32
                    )
                )
            weight.copy_(first)
    if wrong == "weights":
        next(net.parameters()).data.flatten()[:3] += 0.05
    if wrong == "frozen":
        next(net.parameters()).requires_grad_(False)
    optimizer = _optimizer(kind, net, wrong)
    recorded = [(name, weight) for name, weight in net.named_parameters() if weight.requires_grad]
    columns = [torch.tensor(column) for column in (*data.inputs, data.labels)]
    with SummaryRecord(directory) as record:
        for step in range(1, STEPS + 1):
            begin = (step - 1) * BATCH % len(data.labels)
            *inputs, label = (column[begin : begin + BATCH] for column in columns)
            if wrong == "batch" and step == 6:
                label = label.flip(0)
            if wrong == "schedule" and step == 21:
                for group in optimizer.param_groups:
                    group["lr"] *= 0.9
            loss = _loss(kind, net(*inputs), label, wrong)
            if not (wrong == "accumulation" and step % 2 == 0):
                optimizer.zero_grad()
            (loss / 2 if wrong == "accumulation" else loss).backward()
            if wrong == "clip":
                nn.utils.clip_grad_norm_(net.parameters(), 0.1 if kind == "regression" else 1.0)
            if wrong != "accumulation" or step % 2 == 0:
                optimizer.step()
            if step % freq == 0 or step == 1:
                record.add_value("scalar", "loss/auto", loss.detach())
                for name, weight in recorded:
                    record.add_value("histogram", f"{name}/auto", weight.detach())
                record.record(step)
