"""The six nets in PyTorch and Lightning: right, right in another way, or with one of the mistakes
of porters.

``python nets_torch.py DIRECTORY [NET ...]`` trains all; what is expected of each is in
``mistakes.py``.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import lightning as L
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import MindInsightLogger, SummaryCollector
from tests.porting.comparison.chains.data import (
    BATCH,
    CLASSES,
    HEADS,
    LENGTH,
    STEPS,
    VOCABULARY,
    WIDTH,
    carried,
    task,
)
from tests.porting.comparison.chains.mistakes import MISTAKES, VARIANTS

# what is made wrong, or in another way, in the net that is built and trained now
_WRONG: tuple[str, ...] = ()


def wrong(name: str) -> bool:
    return name in _WRONG


def choose(name: str, then: Any, otherwise: Any) -> Any:
    return then if wrong(name) else otherwise


class Attention(nn.Module):
    def __init__(self, is_causal: bool) -> None:
        super().__init__()
        self.is_causal = is_causal
        if wrong("fused_qkv") or wrong("qkv_order"):
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        else:
            self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out, self.drop = (
            nn.Linear(WIDTH, WIDTH),
            nn.Dropout(choose("attention_dropout", 0.1, 0.0)),
        )

    def split(self, x: Tensor) -> Tensor:
        if wrong("heads_last"):
            return x.view(*x.shape[:2], -1, HEADS).permute(0, 3, 1, 2)
        if wrong("heads_reshaped"):
            return x.reshape(x.shape[0], HEADS, x.shape[1], -1)
        return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        if hasattr(self, "qkv"):
            query, key, value = self.qkv(x).chunk(3, -1)
        elif wrong("query_key_swapped"):
            query, key, value = self.key(x), self.query(x), self.value(x)
        else:
            query, key, value = self.query(x), self.key(x), self.value(x)
        query, key, value = self.split(query), self.split(key), self.split(value)
        if wrong("fused_attention"):
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=self.is_causal)
        else:
            scores = query @ key.transpose(-2, -1)
            scores = scores / choose(
                "scale_missing", 1.0, math.sqrt(choose("scale_of_width", WIDTH, WIDTH // HEADS))
            )
            if self.is_causal and not wrong("mask_missing"):
                ones = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)
                hidden = ones.triu(choose("mask_hides_itself", 0, 1))
                hidden = ones.tril(-1) if wrong("mask_inverted") else hidden
                scores = scores.masked_fill(hidden, choose("mask_weak", -2.0, -1e9))
            mixed = self.drop(scores.softmax(choose("softmax_axis", -2, -1))) @ value
        mixed = mixed.transpose(1, 2) if not wrong("heads_not_joined") else mixed
        return self.out(mixed.reshape(x.shape))


class Mlp(nn.Module):
    def __init__(self, is_first: bool) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        if not wrong("functions"):
            tanh = wrong("gelu_tanh") and is_first
            self.act = nn.ReLU() if wrong("relu_for_gelu") else nn.GELU("tanh" if tanh else "none")

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)) if wrong("functions") else self.act(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, is_causal: bool, is_first: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = (
            nn.LayerNorm(WIDTH),
            nn.LayerNorm(WIDTH, eps=choose("norm_eps", 1e-2, 1e-5)),
        )
        self.attn, self.mlp, self.is_first = Attention(is_causal), Mlp(is_first), is_first
        self.drop = nn.Dropout(choose("dropout_on", 0.1, 0.0))

    def forward(self, x: Tensor) -> Tensor:
        if wrong("post_norm"):
            x = self.norm1(x + self.attn(x))
            return self.norm2(x + self.mlp(x))
        x = x + self.drop(self.attn(self.norm1(x)))
        if wrong("residual_of_norm") and self.is_first:
            h = self.norm2(x)
            return h + self.mlp(h)
        if wrong("residual_missing") and not self.is_first:
            return self.mlp(self.norm2(x))
        if wrong("detach") and self.is_first:
            return x + self.mlp(self.norm2(x)).detach()
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH, padding_idx=choose("padding_idx", 0, None))
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block(True, at == 0) for at in range(2)])
        self.norm = nn.LayerNorm(WIDTH)
        if wrong("untied"):
            self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        places = self.places((torch.arange(x.shape[1]) + choose("places_from_one", 1, 0)) % LENGTH)
        h = self.tokens(x) * choose("embedding_scale", 1.0, math.sqrt(WIDTH)) + places
        for block in reversed(self.blocks) if wrong("blocks_reversed") else self.blocks:
            h = block(h)
        h = h if wrong("last_norm_missing") else self.norm(h)
        return self.head(h) if wrong("untied") else h @ self.tokens.weight.T


class BasicBlock(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(
            outer, eps=choose("norm_eps", 1e-2, 1e-5) if stride == 2 else 1e-5
        )
        self.conv2, self.bn2 = (
            nn.Conv2d(outer, outer, 3, padding=1, bias=False),
            nn.BatchNorm2d(outer),
        )
        down = (nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))
        if wrong("down_of_average") and stride == 2:
            down = (nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(inner, outer, 1, bias=False)), down[1])
        self.down, self.stride = nn.Sequential(*down), stride
        if not wrong("functions"):
            self.relu = nn.ReLU(wrong("in_place"))

    def relu_(self, x: Tensor) -> Tensor:
        return F.relu(x) if wrong("functions") else self.relu(x)

    def forward(self, x: Tensor) -> Tensor:
        is_second = self.stride == 2
        h = self.conv1(x)
        h = (
            self.bn1(self.relu_(h))
            if wrong("relu_before_norm") and is_second
            else self.relu_(self.bn1(h))
        )
        h = self.bn2(self.conv2(h))
        if wrong("relu_before_adding") and is_second:
            return self.relu_(h) + self.down(x)
        if wrong("last_relu_missing") and is_second:
            return h + self.down(x)
        if wrong("shortcut_missing") and is_second:
            return self.relu_(h)
        if wrong("detach") and is_second:
            return self.relu_(h + self.down(x.detach()))
        return self.relu_(h + self.down(x))


class Resnet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        padding = {"padding_mode": "reflect"} if wrong("padding_reflect") else {}
        self.conv = nn.Conv2d(3, 8, 3, padding=1, bias=False, **padding)
        self.bn = nn.BatchNorm2d(8, momentum=choose("norm_momentum", 0.9, 0.1))
        self.relu = nn.ReLU(wrong("in_place"))
        self.pool = nn.MaxPool2d(2, 2) if wrong("pool_of_two") else nn.MaxPool2d(3, 2, 1)
        if wrong("average_pool"):
            self.pool = nn.AvgPool2d(3, 2, 1)
        self.layers = nn.Sequential(BasicBlock(8, 16, 1), BasicBlock(16, 32, 2))
        if wrong("other_containers"):
            self.stem = nn.Sequential(self.conv, self.bn, self.relu, self.pool)
            self.body = nn.Sequential(self.stem, self.layers)
        self.fc = nn.Linear(32, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        if wrong("channels_first_from_last"):
            x = x.permute(0, 3, 1, 2)
        if wrong("other_containers"):
            h = self.body(x)
        else:
            h = (
                F.relu(self.bn(self.conv(x)))
                if wrong("functions")
                else self.relu(self.bn(self.conv(x)))
            )
            h = self.layers(self.pool(h))
        if wrong("global_maximum"):
            return self.fc(h.amax((2, 3)))
        return self.fc(h.mean((2, 3)))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH, padding_idx=choose("padding_idx", 0, None))
        is_first = not wrong("batch_second")
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=is_first, bidirectional=True)
        self.gru, self.norm = nn.GRU(2 * WIDTH, WIDTH, batch_first=True), nn.LayerNorm(WIDTH)
        self.norm.eps = choose("norm_eps", 1e-2, 1e-5)
        self.fc1, self.fc2 = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.drop = nn.Dropout(choose("dropout_on", 0.2, 0.0))
        if not wrong("functions"):
            self.act = nn.Sigmoid() if wrong("sigmoid") else nn.Tanh()
        self.state: Any = None

    def forward(self, x: Tensor) -> Tensor:
        mask = (x != choose("mask_of_one", 1, 0)).float().unsqueeze(-1)
        if wrong("mask_inverted"):
            mask = 1 - mask + 1e-6
        if wrong("packed"):
            packed = nn.utils.rnn.pack_padded_sequence(
                self.tokens(x), mask.sum((1, 2)).long(), True, enforce_sorted=False
            )
            h = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], True, total_length=LENGTH)[0]
        elif wrong("batch_second_right"):
            h = self.lstm(self.tokens(x))[0]
        else:
            h, state = self.lstm(self.tokens(x), self.state)
            if wrong("state_kept"):
                self.state = tuple(each.detach() for each in state)
        if wrong("directions_swapped"):
            h = torch.cat([h[..., WIDTH:], h[..., :WIDTH]], -1)
        if wrong("detach"):
            h = h.detach()
        if wrong("initial_state"):
            h, last = self.gru(h, 0.1 * torch.ones(1, x.shape[0], WIDTH))
        else:
            h, last = self.gru(h.flip(1) if wrong("gru_backwards") else h)
        if wrong("last_state"):
            h = last[0]
        elif wrong("mean_of_all"):
            h = h.mean(1)
        elif wrong("maximum"):
            h = (h * mask).amax(1)
        else:
            h = (h * mask).sum(1) / mask.sum(1)
        h = self.fc1(h if wrong("norm_missing") else self.norm(h))
        return self.fc2(self.drop(torch.tanh(h) if wrong("functions") else self.act(h)))


class Squeeze(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(width, 8, 1), nn.Conv2d(8, width, 1)
        self.relu, self.gate = nn.ReLU(), nn.Sigmoid() if wrong("sigmoid") else nn.Hardsigmoid()

    def forward(self, x: Tensor) -> Tensor:
        squeezed = x.amax((2, 3), True) if wrong("squeeze_maximum") else x.mean((2, 3), True)
        if wrong("functions"):
            return x * F.hardsigmoid(self.expand(F.relu(self.reduce(squeezed))))
        scale = self.gate(self.expand(self.relu(self.reduce(squeezed))))
        scale = scale.detach() if wrong("detach") else scale
        return x + scale if wrong("gate_added") else x * scale


class Inverted(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int, kernel: int) -> None:
        super().__init__()
        wide = 3 * inner
        self.expand, self.bn1 = nn.Conv2d(inner, wide, 1, bias=False), nn.BatchNorm2d(wide)
        self.act = nn.SiLU() if wrong("silu") and kernel == 5 else nn.Hardswish(wrong("in_place"))
        padding = kernel // 2 - (1 if wrong("padding") and kernel == 5 else 0)
        self.depth = nn.Conv2d(wide, wide, kernel, stride, padding, groups=wide, bias=False)
        if wrong("dilated") and kernel == 5:
            self.depth.dilation, self.depth.padding = (2, 2), (4, 4)
        self.bn2, self.se = nn.BatchNorm2d(wide, eps=choose("norm_eps", 1e-3, 1e-5)), Squeeze(wide)
        self.bn2.momentum = choose("norm_momentum", 0.01, 0.1)
        self.project, self.bn3 = nn.Conv2d(wide, outer, 1, bias=False), nn.BatchNorm2d(outer)
        self.adds = inner == outer and not (wrong("shortcut_missing") and inner == 16)
        self.is_wide = kernel == 5

    def forward(self, x: Tensor) -> Tensor:
        h = self.act(self.bn1(self.expand(x)))
        h = self.bn2(self.depth(h))
        if wrong("squeeze_before_act") and self.is_wide:
            h = self.act(self.se(h))
        elif wrong("act_missing") and self.is_wide:
            h = self.se(h)
        elif wrong("squeeze_missing") and self.is_wide:
            h = self.act(h)
        else:
            h = self.se(self.act(h))
        h = self.bn3(self.project(h))
        if wrong("act_after_project") and self.is_wide:
            h = F.hardswish(h)
        return x + h if self.adds else h


class Mobilenet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish()
        )
        if wrong("same_padding"):  # TensorFlow's: one column more on the right than on the left
            self.stem[0] = nn.Sequential(
                nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(3, 8, 3, 2, bias=False)
            )
        blocks = Inverted(8, 8, 1, 3), Inverted(8, 16, 2, 5), Inverted(16, 16, 1, 3)
        self.blocks = nn.ModuleList(blocks) if wrong("other_containers") else nn.Sequential(*blocks)
        self.fc1, self.act, self.fc2 = nn.Linear(16, 32), nn.Hardswish(), nn.Linear(32, CLASSES)
        if wrong("relu_in_head"):
            self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        return self.fc2(self.act(self.fc1(h.mean((2, 3)))))


class Vit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, WIDTH, 4, 4)
        self.cls, self.places = (nn.Parameter(torch.zeros(1, count, WIDTH)) for count in (1, 17))
        self.blocks = nn.Sequential(Block(False, True), Block(False, False))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.patch(x)
        h = h.transpose(2, 3).flatten(2).mT if wrong("patches_by_column") else h.flatten(2).mT
        cls = self.cls.expand(len(x), -1, -1)
        if wrong("places_before_cls"):
            h = torch.cat((cls, h + self.places[:, 1:]), 1)
        elif wrong("cls_last"):
            h = torch.cat((h, cls), 1) + self.places
        else:
            h = torch.cat((cls, h), 1) + choose("places_missing", 0.0, 1.0) * self.places
        h = self.blocks(h)
        if wrong("mean_of_patches"):
            return self.head(self.norm(h)[:, 1:].mean(1))
        if wrong("cls_of_last"):
            return self.head(self.norm(h)[:, -1])
        return self.head(self.norm(h[:, 0]) if wrong("norm_of_cls") else self.norm(h)[:, 0])


class Twice(nn.Module):
    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.is_bottom = outer == 32
        self.conv1, self.conv2 = (
            nn.Conv2d(inner, outer, 3, padding=1),
            nn.Conv2d(outer, outer, 3, padding=1),
        )
        groups = choose("groups", 4, 2) if outer == 32 else 2
        self.norm1, self.norm2 = nn.GroupNorm(groups, outer), nn.GroupNorm(groups, outer)
        self.norm2.eps = choose("norm_eps", 1e-2, 1e-5)
        slope = choose("leak", 0.01, 0.1)
        if not wrong("functions"):
            self.act = nn.LeakyReLU(slope, wrong("in_place"))
        if wrong("instance_norm") and self.is_bottom:
            self.norm1 = nn.GroupNorm(outer, outer)

    def act_(self, x: Tensor) -> Tensor:
        return F.leaky_relu(x, 0.1) if wrong("functions") else self.act(x)

    def forward(self, x: Tensor) -> Tensor:
        h = self.act_(self.norm1(self.conv1(x)))
        h = self.conv2(h)
        if wrong("norm_missing") and self.is_bottom:
            return self.act_(h)
        return (
            self.norm2(self.act_(h))
            if wrong("act_before_norm") and self.is_bottom
            else self.act_(self.norm2(h))
        )


class Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2, self.bottom = Twice(3, 8), Twice(8, 16), Twice(16, 32)
        self.pool = nn.AvgPool2d(2) if wrong("average_pool") else nn.MaxPool2d(2)
        self.up2, self.up1 = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
        self.mix2, self.mix1, self.out = Twice(32, 16), Twice(16, 8), nn.Conv2d(8, 1, 1)

    def up(self, h: Tensor, layer: nn.Module, is_aligned: bool) -> Tensor:
        return layer(
            F.avg_pool2d(
                F.interpolate(h, scale_factor=2, mode="bilinear", align_corners=is_aligned), 2
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2) if wrong("functions") else self.pool(first))
        h = self.bottom(F.max_pool2d(second, 2) if wrong("functions") else self.pool(second))
        h = self.up(h, self.up2, True) if wrong("align_corners") else self.up2(h)
        second = second.detach() if wrong("detach") else second
        h = self.mix2(torch.cat((h, second) if wrong("concat_order") else (second, h), 1))
        h = self.up1(h)
        first = torch.zeros_like(first) if wrong("skip_missing") else first
        first = first.flip(-1) if wrong("skip_flipped") else first
        h = self.out(self.mix1(torch.cat((first, h), 1)))
        return h.sigmoid() if wrong("sigmoid_twice") else h


NETS = {
    "transformer": Transformer, "resnet": Resnet, "recurrent": Recurrent, "mobilenet": Mobilenet,
    "vit": Vit,
    "unet": Unet,
}  # fmt: skip


class MindSporesAdam(torch.optim.Optimizer):
    """Adam that decays gradients and adds eps before it corrects the bias."""

    def __init__(
        self, groups: Any, lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
    ) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})
        self.count = 0

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.count += 1
        for group in self.param_groups:
            first, second = group["betas"]
            rate = group["lr"] * math.sqrt(1 - second**self.count) / (1 - first**self.count)
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                gradient, state = weight.grad + group["weight_decay"] * weight, self.state[weight]
                if not state:
                    state["m"], state["v"] = torch.zeros_like(weight), torch.zeros_like(weight)
                state["m"].mul_(first).add_(gradient, alpha=1 - first)
                state["v"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
                weight.sub_(rate * state["m"] / (state["v"].sqrt() + group["eps"]))
        return loss


class Port(L.LightningModule):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.model, self.kind, self.task = NETS[kind](), kind, task(kind)

    def loss(self, scores: Tensor, y: Tensor) -> Tensor:
        how = {"reduction": "sum"} if wrong("loss_sum") else {}
        if self.kind == "unet":
            if wrong("loss_squares"):
                return F.mse_loss(scores.sigmoid(), y)
            weight = torch.tensor(2.0) if wrong("loss_weighted") else None
            return F.binary_cross_entropy_with_logits(scores, y, pos_weight=weight, **how)
        if self.kind == "transformer":
            scores, y = scores.flatten(0, 1), y.flatten()
            how["ignore_index"] = choose("padding_counted", -100, 0)
        if wrong("label_smoothing"):
            how["label_smoothing"] = 0.1
        if wrong("loss_weighted"):
            how["weight"] = torch.linspace(0.5, 1.5, scores.shape[-1])
        if wrong("softmax_twice"):
            scores = scores.softmax(-1)
        return F.cross_entropy(scores, y.long(), **how)

    def training_step(self, batch: Any, index: int) -> Tensor:
        x, y = batch
        if wrong("nhwc"):
            x = x.permute(0, 3, 1, 2)
        if wrong("labels_shifted"):
            y = y.roll(1, -1)
        loss = self.loss(self.model(x), y)
        if wrong("loss_halved"):
            loss = loss / 2
        if wrong("penalty"):
            loss = loss + 0.01 * sum(weight.square().sum() for weight in self.parameters())
        return loss

    def configure_optimizers(self) -> Any:
        data, named = self.task, [*self.model.named_parameters()]
        norms = {
            f"{name}.{last}" for name, module in self.model.named_modules() for last in ("weight",
            "bias")
            if isinstance(module, (nn.LayerNorm, nn.BatchNorm2d, nn.GroupNorm))
        }  # fmt: skip
        undecayed = set() if wrong("decay_all") else norms
        if wrong("decay_not_of_biases"):
            undecayed = norms | {name for name, _ in named if name.endswith("bias")}
        if wrong("left_out"):
            named = [each for each in named if each[0] != LEFT_OUT[self.kind]]
        decay = choose("decay_missing", 0.0, choose("decay_tenfold", 10, 1) * data.decay)
        groups = [
            {
                "params": [weight for name, weight in named if name not in undecayed],
                "weight_decay": decay,
            },
            {
                "params": [weight for name, weight in named if name in undecayed],
                "weight_decay": 0.0,
            },
        ]
        groups = [group for group in groups if group["params"]]
        rate = data.rate[0] * choose("rate_off", 1.02, 1.0)
        rate *= choose("rate_tenfold", 10, 1)
        if data.optimizer == "adam":
            betas = choose("betas", (0.8, 0.99), (0.9, 0.999))
            kind: Any = torch.optim.AdamW if wrong("adamw") else MindSporesAdam
            kind = torch.optim.Adam if wrong("torch_adam") else kind
            optimizer = kind(groups, rate, betas=betas, eps=choose("eps", 1e-4, 1e-8))
        else:
            momentum = 0.9 if data.optimizer == "momentum" else choose("momentum_added", 0.9, 0.0)
            momentum = choose("momentum_off", 0.8, momentum)
            more = {"nesterov": wrong("nesterov"), "dampening": choose("dampening", 0.1, 0)}
            optimizer = torch.optim.SGD(groups, rate, momentum, **more)
        if len({*data.rate}) == 1:
            return optimizer
        factors = [each / data.rate[0] for each in data.rate]
        shift = choose("schedule_late", -1, choose("schedule_early", 1, 0))
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: factors[min(max(step + shift, 0), STEPS - 1)]
        )
        interval = choose("schedule_by_epoch", "epoch", "step")
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": interval},
        }

    def optimizer_zero_grad(self, epoch: int, index: int, optimizer: Any) -> None:
        if not wrong("gradients_kept"):
            super().optimizer_zero_grad(epoch, index, optimizer)


LEFT_OUT = {
    "transformer": "blocks.1.mlp.fc2.weight", "resnet": "fc.weight",
    "recurrent": "gru.weight_hh_l0",
    "mobilenet": "blocks.1.depth.weight", "vit": "places", "unet": "up2.weight",
}  # fmt: skip


FROZEN = {
    "transformer": "tokens.weight", "resnet": "conv.weight", "recurrent": "tokens.weight",
    "mobilenet": "stem.0.weight", "vit": "patch.weight", "unet": "down1.conv1.weight",
}  # fmt: skip


def _half(value: Tensor) -> Tensor:
    return value.half().float()


CARRIED: dict[str, dict[str, dict[str, Any]]] = {
    "transformer": {
        "carried_transposed": {"blocks.1.attn.out.weight": lambda value: value.T.contiguous()},
        "carried_in_half": {"blocks.0.mlp.fc1.weight": _half},
        "not_carried": {"blocks.1.norm2.weight": torch.ones_like},
        "padding_zeroed": {
            "tokens.weight": lambda value: value * (torch.arange(len(value)) > 0)[:, None]
        },
    },
    "resnet": {
        "carried_transposed": {
            "layers.0.conv2.weight": lambda value: value.transpose(0, 1).contiguous()
        },
        "kernel_flipped": {"layers.1.conv1.weight": lambda value: value.flip(-1, -2)},
        "statistics_not_carried": {"layers.0.bn1.running_mean": torch.zeros_like},
        "deviation_for_variance": {"layers.1.bn2.running_var": torch.sqrt},
        "carried_in_half": {"fc.weight": _half},
    },
    "recurrent": {
        "gates_in_other_order": {
            "lstm.weight_ih_l0": lambda value: torch.cat([*value.chunk(4)][::-1])
        },
        "bias_not_carried": {"gru.bias_hh_l0": torch.zeros_like},
        "carried_transposed": {
            "lstm.weight_hh_l0_reverse": lambda value: torch.cat([g.T for g in value.chunk(4)])
        },
        "reset_and_update_swapped": {
            "gru.weight_ih_l0": lambda value: torch.cat([value.chunk(3)[at] for at in (1, 0, 2)])
        },
    },
    "mobilenet": {
        "kernel_flipped": {"blocks.1.depth.weight": lambda value: value.flip(-1)},
        "statistics_not_carried": {"blocks.2.bn3.running_var": torch.ones_like},
        "carried_scaled": {"blocks.0.se.reduce.weight": lambda value: value * 1.001},
        "not_carried": {"stem.1.bias": torch.zeros_like},
    },
    "vit": {
        "carried_transposed": {"blocks.0.attn.value.weight": lambda value: value.T.contiguous()},
        "places_shifted": {"places": lambda value: value.roll(1, 1)},
        "carried_in_half": {"blocks.1.mlp.fc2.weight": _half},
        "patch_of_bgr": {"patch.weight": lambda value: value.flip(1)},
    },
    "unet": {
        "kernel_transposed": {"up1.weight": lambda value: value.mT.contiguous()},
        "carried_flipped": {"up2.weight": lambda value: value.flip(-1, -2)},
        "not_carried": {"out.bias": torch.zeros_like},
        "carried_in_half": {"bottom.conv2.weight": _half},
    },
}


def _carry(port: Port) -> None:
    weights = {
        name: carried(name, tuple(value.shape))
        for name, value in port.model.state_dict().items()
        if value.ndim
    }
    for name in [name for name in weights if ".qkv." in name]:
        first, last = name.split(".qkv.")
        order = ("key", "query", "value") if wrong("qkv_order") else ("query", "key", "value")
        third = (weights[name].shape[0] // 3, *weights[name].shape[1:])
        parts = [carried(f"{first}.{part}.{last}", third) for part in order]
        weights[name] = torch.cat([torch.tensor(part) for part in parts]).numpy()
    if port.kind == "resnet" and wrong("other_containers"):
        places = {"0": "conv", "1": "bn"}
        for name in weights:
            if name.startswith(("stem.", "body.0.")):
                place, last = name.removeprefix("body.0.").removeprefix("stem.").split(".")
                weights[name] = carried(f"{places[place]}.{last}", weights[name].shape)
            if name.startswith("body.1."):
                weights[name] = carried(name.replace("body.1.", "layers."), weights[name].shape)
    for inner, outer in (("down.0.1.", "down.0."), ("stem.0.1.", "stem.0.")):
        for name in weights:
            if inner in name:
                weights[name] = carried(name.replace(inner, outer), weights[name].shape)
    state = {name: torch.tensor(value) for name, value in weights.items()}
    for mistake, changes in CARRIED.get(port.kind, {}).items():
        for name, change in changes.items() if wrong(mistake) else ():
            state[name] = change(state[name])
    port.model.load_state_dict(state, strict=False)
    port.model.requires_grad_(True)


def _freeze(port: Port) -> None:
    if wrong("frozen"):
        port.model.get_parameter(FROZEN[port.kind]).requires_grad_(False)
    if wrong("gradient_doubled"):
        port.model.get_parameter(LEFT_OUT[port.kind]).register_hook(lambda gradient: 2 * gradient)
    if wrong("gradient_clamped"):
        for weight in port.model.parameters():
            weight.register_hook(lambda gradient: gradient.clamp(-1e-3, 1e-3))


def _batches(kind: str) -> TensorDataset:
    data = task(kind)
    x, y = torch.tensor(data.inputs), torch.tensor(data.labels)
    changes: dict[str, Callable[[Tensor], Tensor]] = {
        "bgr": lambda x: x.flip(1), "unscaled": lambda x: x * 2 - 0.3,
        "mirrored": lambda x: x.flip(-1),
        "nearly_scaled": lambda x: x * 1.001, "transposed": lambda x: x.mT.contiguous(),
        "nhwc": lambda x: x.permute(0, 2, 3, 1).contiguous(), "other_order": lambda x: x.roll(1, 0),
        "third_batch": lambda x: torch.cat([x[: 2 * BATCH], x[2 * BATCH :].flip(0)]),
        "nhwc_read_as_nchw": lambda x: x.permute(0, 2, 3, 1).reshape(x.shape),
        "rounded": lambda x: (x * 64).round() / 64,
        "tokens_off": lambda x: torch.where(x > 0, x % (VOCABULARY - 1) + 1, x),
        "padded_left": lambda x: _left(x),
        "truncated": lambda x: torch.where(torch.arange(x.shape[-1]) < LENGTH - 2, x, 0),
        "reversed": lambda x: x.flip(1),
        "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    }  # fmt: skip
    for mistake, change in changes.items():
        x = change(x) if wrong(mistake) else x
    if wrong("labels_off"):
        y = (y + 1) % CLASSES if kind != "unet" else 1 - y
    if wrong("other_order"):
        y = y.roll(1, 0)
    if wrong("labels_of_others"):
        y = y.flip(0)
    return TensorDataset(x, y)


def _left(x: Tensor) -> Tensor:
    return torch.stack([row.roll(int((row == 0).sum())) for row in x])


def train(
    kind: str,
    directory: str | os.PathLike[str],
    mistake: str = "",
    check: L.Callback | None = None,
    **collector: Any,
) -> None:
    """Train a port and record it, or call ``check`` on it instead.

    ``mistake`` is a name, or several names joined by ``+``.
    """
    global _WRONG
    _WRONG = tuple(mistake.split("+"))
    torch.manual_seed(0)
    port = Port(kind)
    _carry(port)
    _freeze(port)
    if wrong("eval_mode"):
        port.model.eval()
    if wrong("channels_last"):
        port.model.to(memory_format=torch.channels_last)
    folder, version = os.path.split(directory)
    recorder = SummaryCollector(
        collect_freq=1, collect_specified_data={"collect_landscape": None, "collect_graph": False},
        **{"collect_output_statistics": True, **collector},
    )  # fmt: skip
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    trainer = L.Trainer(
        max_epochs=1, accelerator="cpu", enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
        logger=False if check is not None else MindInsightLogger(folder, name="", version=version),
        callbacks=[recorder if check is None else check],
        gradient_clip_val=choose("clipped", 0.5, choose("clipped_by_value", 0.01, None)),
        gradient_clip_algorithm=choose("clipped_by_value", "value", "norm"),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(port, DataLoader(_batches(kind), BATCH))
    _WRONG = ()


if __name__ == "__main__":
    torch.set_num_threads(1)
    for kind in sys.argv[2:] or NETS:
        for mistake in ["", *VARIANTS[kind], *MISTAKES[kind]]:
            train(kind, os.path.join(sys.argv[1], kind, f"pt-{mistake}".rstrip("-")), mistake)
        print(kind, "trained", flush=True)
