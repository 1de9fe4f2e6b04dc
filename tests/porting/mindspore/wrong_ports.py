"""The six nets as MindSpore ports of a PyTorch original, right and with mistakes.

``python wrong_ports.py REFERENCES REPORTS [full]`` checks each with ``PortCheck`` and writes
``REPORTS/NET.json``. What is expected of each was written before anything was run.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.train import Model

sys.path.insert(
    0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "comparison", "chains")
)
import nets_mindspore as nets  # the folder is no package here
from data import BATCH, HEADS, VOCABULARY, WIDTH, carried, task

from mindsummary_lightning.mindspore import PortCheck


@dataclass(frozen=True)
class Expected:
    """``modules``: of which one must be the finding's; ``kinds``: of which one must be its kind."""

    modules: tuple[str, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Mistake:
    """Changes a net, or the loss, the optimizer's settings or the data of its training."""

    expected: Expected
    net: Callable[[Any], None] | None = None
    loss: Callable[[], Any] | None = None
    optimizer: dict[str, Any] | None = None
    data: Callable[[np.ndarray], np.ndarray] | None = None


def _output(*modules: str) -> Expected:
    return Expected(modules, ("output",))


def _code(*modules: str) -> Expected:
    return Expected(modules, ("output", "inputs"))


_ATTENTION = _code("blocks.0.attn")
_LOSS, _UPDATE, _DATA = (
    Expected(("",), ("loss",)),
    Expected(("",), ("update",)),
    Expected(("",), ("data",)),
)


def _at(net: Any, path: str) -> Any:
    for part in path.split("."):
        net = net[int(part)] if part.isdigit() else getattr(net, part)
    return net


def _put(path: str, made: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Replace the cell at a path; parameters of the same name keep their values."""

    def change(net: Any) -> None:
        holder_path, _, last = path.rpartition(".")
        holder = _at(net, holder_path) if holder_path else net
        own = _at(net, path)
        other = made(own)
        for name, parameter in own.parameters_and_names():
            found = dict(other.parameters_and_names()).get(name)
            if found is not None and found.shape == parameter.shape:
                found.set_data(Tensor(parameter.asnumpy()))
                found.name = parameter.name
        if last.isdigit():
            holder[int(last)] = other
        else:
            setattr(holder, last, other)

    return change


def _code_of(path: str, construct: Callable[..., Any]) -> Callable[[Any], None]:
    """Give the cell at a path another ``construct``."""

    def change(net: Any) -> None:
        cell = _at(net, path) if path else net
        cell.__class__ = type(type(cell).__name__, (type(cell),), {"construct": construct})

    return change


def _set(path: str, value: Any) -> Callable[[Any], None]:
    def change(net: Any) -> None:
        holder, _, last = path.rpartition(".")
        setattr(_at(net, holder), last, value)

    return change


def _weight(path: str, change_of: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any], None]:
    def change(net: Any) -> None:
        parameter = _at(net, path)
        changed = np.array(change_of(parameter.asnumpy()), np.float32)
        parameter.set_data(Tensor(changed.reshape(parameter.shape)))

    return change


def _weights(*modules: str) -> Expected:
    return Expected(modules, ("weights",))


def _frozen(path: str) -> Callable[[Any], None]:
    def change(net: Any) -> None:
        _at(net, path).requires_grad = False

    return change


def _reset_and_update_swapped(value: np.ndarray) -> np.ndarray:
    reset, update, new = np.split(value, 3)
    return np.concatenate([update, reset, new])


def _half(value: np.ndarray) -> np.ndarray:
    return value.astype(np.float16).astype(np.float32)


# ---- code of modules


def _attention(**how: Any) -> Callable[..., Any]:
    def construct(self: Any, x: Any) -> Any:
        query, key, value = self.query(x), self.key(x), self.value(x)
        if how.get("swapped"):
            query, key = key, query
        split = self.split
        if how.get("reshaped"):
            split = lambda each: each.reshape(each.shape[0], HEADS, each.shape[1], -1)  # noqa: E731
        query, key, value = split(query), split(key), split(value)
        if how.get("stopped"):
            query = ops.stop_gradient(query)
        scores = ops.matmul(query, key.transpose(0, 1, 3, 2)) / how.get(
            "scale", math.sqrt(WIDTH // HEADS)
        )
        if self.is_causal and not how.get("unmasked"):
            ones = np.ones((x.shape[1], x.shape[1]), bool)
            hidden = Tensor(
                np.tril(ones, -1) if how.get("inverted") else np.triu(ones, how.get("above", 1))
            )
            scores = ops.masked_fill(scores, hidden, how.get("hidden", -1e9))
        mixed = ops.matmul(self.softmax(scores), value)
        mixed = mixed if how.get("not_joined") else mixed.transpose(0, 2, 1, 3)
        return self.out(mixed.reshape(x.shape))

    return construct


def _post_norm(self: Any, x: Any) -> Any:
    x = self.norm1(x + self.attn(x))
    return self.norm2(x + self.mlp(x))


def _residual_missing(self: Any, x: Any) -> Any:
    x = x + self.attn(self.norm1(x))
    return self.mlp(self.norm2(x))


def _residual_of_norm(self: Any, x: Any) -> Any:
    x = x + self.attn(self.norm1(x))
    h = self.norm2(x)
    return h + self.mlp(h)


def _stopped_mlp(self: Any, x: Any) -> Any:
    x = x + self.attn(self.norm1(x))
    return x + ops.stop_gradient(self.mlp(self.norm2(x)))


def _transformer(
    scale: float = math.sqrt(WIDTH), first: int = 0, norm: bool = True
) -> Callable[..., Any]:
    def construct(self: Any, x: Any) -> Any:
        h = self.tokens(x) * scale + self.places((ops.arange(x.shape[1]) + first) % x.shape[1])
        for block in self.blocks:
            h = block(h)
        return ops.matmul(self.norm(h) if norm else h, self.tokens.embedding_table.T)

    return construct


def _relu_before_norm(self: Any, x: Any) -> Any:
    h = self.bn1(self.relu(self.conv1(x)))
    return self.relu(self.bn2(self.conv2(h)) + self.down(x))


def _last_relu_missing(self: Any, x: Any) -> Any:
    return self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))) + self.down(x)


def _shortcut_missing(self: Any, x: Any) -> Any:
    return self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))))


def _stopped_shortcut(self: Any, x: Any) -> Any:
    h = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
    return self.relu(h + ops.stop_gradient(self.down(x)))


def _global_maximum(self: Any, x: Any) -> Any:
    h = self.layers(self.pool(self.relu(self.bn(self.conv(x)))))
    return self.fc(h.max((2, 3)))


def _recurrent(**how: Any) -> Callable[..., Any]:
    def construct(self: Any, x: Any) -> Any:
        mask = (x != how.get("padding", 0)).astype(ms.float32).expand_dims(-1)
        h, _ = self.lstm(self.tokens(x))
        if how.get("directions"):
            h = ops.cat((h[..., WIDTH:], h[..., :WIDTH]), -1)
        if how.get("stopped"):
            h = ops.stop_gradient(h)
        h, last = self.gru(ops.flip(h, (1,)) if how.get("flipped") else h)
        if how.get("last"):
            h = last[0]
        elif how.get("mean"):
            h = h.mean(1)
        else:
            h = (h * mask).sum(1) / mask.sum(1)
        h = h if how.get("no_norm") else self.norm(h)
        return self.fc2(self.act(self.fc1(h)))

    return construct


def _squeeze(**how: Any) -> Callable[..., Any]:
    def construct(self: Any, x: Any) -> Any:
        squeezed = (
            ops.amax(x, (2, 3), keepdims=True)
            if how.get("maximum")
            else x.mean((2, 3), keep_dims=True)
        )
        gate = self.gate(self.expand(self.relu(self.reduce(squeezed))))
        gate = ops.stop_gradient(gate) if how.get("stopped") else gate
        return x + gate if how.get("added") else x * gate

    return construct


def _inverted(order: str) -> Callable[..., Any]:
    def construct(self: Any, x: Any) -> Any:
        h = self.bn2(self.depth(self.act(self.bn1(self.expand(x)))))
        if order == "squeeze first":
            h = self.act(self.se(h))
        elif order == "no act":
            h = self.se(h)
        elif order == "no squeeze":
            h = self.act(h)
        else:
            h = self.se(self.act(h))
        h = self.bn3(self.project(h))
        if order == "act last":
            h = ops.hardswish(h)
        return x + h if self.adds and order != "no shortcut" else h

    return construct


def _vit(**how: Any) -> Callable[..., Any]:
    def construct(self: Any, x: Any) -> Any:
        h = self.patch(x)
        h = h.swapaxes(2, 3) if how.get("by_column") else h
        h = h.reshape(x.shape[0], WIDTH, -1).transpose(0, 2, 1)
        cls = ops.tile(self.cls, (x.shape[0], 1, 1))
        h = ops.cat((h, cls) if how.get("cls_last") else (cls, h), 1)
        h = h if how.get("no_places") else h + self.places
        h = self.norm(self.blocks(h))
        return self.head(
            h[:, 1:].mean(1) if how.get("mean") else h[:, -1 if how.get("of_last") else 0]
        )

    return construct


def _unet(**how: Any) -> Callable[..., Any]:
    def construct(self: Any, x: Any) -> Any:
        first = self.down1(x)
        second = self.down2(self.pool(first))
        h = self.up2(self.bottom(self.pool(second)))
        second = ops.stop_gradient(second) if how.get("stopped") else second
        h = self.up1(self.mix2(ops.cat((h, second) if how.get("order") else (second, h), 1)))
        first = ops.zeros_like(first) if how.get("no_skip") else first
        first = ops.flip(first, (3,)) if how.get("flipped") else first
        h = self.out(self.mix1(ops.cat((first, h), 1)))
        return ops.sigmoid(h) if how.get("sigmoid") else h

    return construct


def _twice(**how: Any) -> Callable[..., Any]:
    def construct(self: Any, x: Any) -> Any:
        h = self.conv2(self.act(self.norm1(self.conv1(x))))
        if how.get("no_norm"):
            return self.act(h)
        return self.norm2(self.act(h)) if how.get("act_first") else self.act(self.norm2(h))

    return construct


# ---- losses


class _NextToken(nn.Cell):
    def __init__(self, **how: Any) -> None:
        super().__init__()
        self.how = {"ignore_index": 0, **how}

    def construct(self, scores: Any, labels: Any) -> Any:
        return ops.cross_entropy(scores.reshape(-1, VOCABULARY), labels.reshape(-1), **self.how)


class _Halved(nn.Cell):
    def __init__(self, loss: Any) -> None:
        super().__init__()
        self.loss = loss

    def construct(self, scores: Any, labels: Any) -> Any:
        return self.loss(scores, labels) / 2


def _norm(size: int, epsilon: float = 1e-2) -> Callable[[Any], Any]:
    return lambda own: nn.LayerNorm((size,), epsilon=epsilon)


def _conv(inner: int, outer: int, kernel: int, **settings: Any) -> Callable[[Any], Any]:
    return lambda own: nn.Conv2d(inner, outer, kernel, **settings)


def _flipped(images: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(images[:, ::-1])


def _of_blocks() -> dict[str, Mistake]:
    """Mistakes in what the transformer and the vision transformer share."""
    attention = "blocks.0.attn"
    return {
        "norm_eps": Mistake(_output("blocks.0.norm2"), _put("blocks.0.norm2", _norm(WIDTH))),
        "gelu_tanh": Mistake(
            _output("blocks.0.mlp.act"), _put("blocks.0.mlp.act", lambda own: nn.GELU())
        ),
        "relu_for_gelu": Mistake(
            _output("blocks.1.mlp.act"), _put("blocks.1.mlp.act", lambda own: nn.ReLU())
        ),
        "query_key_swapped": Mistake(_ATTENTION, _code_of(attention, _attention(swapped=True))),
        "heads_reshaped": Mistake(_ATTENTION, _code_of(attention, _attention(reshaped=True))),
        "heads_not_joined": Mistake(_ATTENTION, _code_of(attention, _attention(not_joined=True))),
        "scale_missing": Mistake(_ATTENTION, _code_of(attention, _attention(scale=1.0))),
        "softmax_axis": Mistake(
            _code("blocks.0.attn.softmax", "blocks.0.attn"),
            _put(f"{attention}.softmax", lambda own: nn.Softmax(-2)),
        ),
        "post_norm": Mistake(_code("blocks.0"), _code_of("blocks.0", _post_norm)),
        "residual_missing": Mistake(_code("blocks.1"), _code_of("blocks.1", _residual_missing)),
        "residual_of_norm": Mistake(_code("blocks.1"), _code_of("blocks.1", _residual_of_norm)),
        "gradient_stopped": Mistake(
            Expected(("blocks.0",), ("no gradient", "gradient")), _code_of("blocks.0", _stopped_mlp)
        ),
        "query_stopped": Mistake(
            Expected(("blocks.1.attn", "blocks.1.attn.query"), ("no gradient", "gradient")),
            _code_of("blocks.1.attn", _attention(stopped=True)),
        ),
        "carried_in_half": Mistake(
            _weights("blocks.1.mlp.fc2"), _weight("blocks.1.mlp.fc2.weight", _half)
        ),
        "carried_transposed": Mistake(
            _weights("blocks.1.attn.out"),
            _weight("blocks.1.attn.out.weight", lambda value: value.T),
        ),
        "rate_off": Mistake(_UPDATE, optimizer={"rate": 1.02}),
        "decay_all": Mistake(_UPDATE, optimizer={"decays_all": True}),
    }


MISTAKES: dict[str, dict[str, Mistake]] = {
    "transformer": {
        **_of_blocks(),
        "mask_missing": Mistake(_ATTENTION, _code_of("blocks.0.attn", _attention(unmasked=True))),
        "mask_inverted": Mistake(_ATTENTION, _code_of("blocks.0.attn", _attention(inverted=True))),
        "mask_hides_itself": Mistake(_ATTENTION, _code_of("blocks.0.attn", _attention(above=0))),
        "mask_weak": Mistake(_ATTENTION, _code_of("blocks.0.attn", _attention(hidden=-2.0))),
        "embedding_scale": Mistake(_code(""), _code_of("", _transformer(scale=1.0))),
        "places_from_one": Mistake(_code("", "places"), _code_of("", _transformer(first=1))),
        "last_norm_missing": Mistake(_code(""), _code_of("", _transformer(norm=False))),
        "frozen": Mistake(
            Expected(("tokens",), ("no gradient",)), _frozen("tokens.embedding_table")
        ),
        "padding_counted": Mistake(_LOSS, loss=lambda: _NextToken(ignore_index=-100)),
        "label_smoothing": Mistake(_LOSS, loss=lambda: _NextToken(label_smoothing=0.1)),
        "tokens_off": Mistake(_DATA, data=lambda x: np.where(x > 0, x % (VOCABULARY - 1) + 1, x)),
    },
    "resnet": {
        "bgr": Mistake(_DATA, data=_flipped),
        "norm_eps": Mistake(
            _output("layers.1.bn1"), _put("layers.1.bn1", lambda own: nn.BatchNorm2d(32, eps=1e-2))
        ),
        "norm_momentum": Mistake(
            Expected(("bn",), ("update",)), _put("bn", lambda own: nn.BatchNorm2d(8, momentum=0.1))
        ),
        "padding_same": Mistake(
            _output("layers.1.conv1"),
            _put("layers.1.conv1", _conv(16, 32, 3, stride=2, pad_mode="same")),
        ),
        "pool_same": Mistake(
            _output("pool"), _put("pool", lambda own: nn.MaxPool2d(3, 2, pad_mode="same"))
        ),
        "average_pool": Mistake(
            _output("pool"), _put("pool", lambda own: nn.AvgPool2d(3, 2, pad_mode="pad", padding=1))
        ),
        "relu_before_norm": Mistake(_code("layers.1"), _code_of("layers.1", _relu_before_norm)),
        "last_relu_missing": Mistake(_code("layers.1"), _code_of("layers.1", _last_relu_missing)),
        "shortcut_missing": Mistake(_code("layers.0"), _code_of("layers.0", _shortcut_missing)),
        "gradient_stopped": Mistake(
            Expected(("layers.1",), ("no gradient", "gradient")),
            _code_of("layers.1", _stopped_shortcut),
        ),
        "global_maximum": Mistake(_code(""), _code_of("", _global_maximum)),
        "kernel_flipped": Mistake(
            _weights("layers.1.conv1"),
            _weight("layers.1.conv1.weight", lambda value: value[..., ::-1, ::-1]),
        ),
        "statistics_not_carried": Mistake(
            _weights("layers.0.bn1"), _weight("layers.0.bn1.moving_mean", np.zeros_like)
        ),
        "carried_in_half": Mistake(_weights("fc"), _weight("fc.weight", _half)),
        "frozen": Mistake(Expected(("conv",), ("no gradient",)), _frozen("conv.weight")),
        "label_smoothing": Mistake(_LOSS, loss=lambda: nn.CrossEntropyLoss(label_smoothing=0.1)),
        "loss_sum": Mistake(_LOSS, loss=lambda: nn.CrossEntropyLoss(reduction="sum")),
        "rate_off": Mistake(_UPDATE, optimizer={"rate": 1.02}),
        "decay_all": Mistake(_UPDATE, optimizer={"decays_all": True}),
    },
    "recurrent": {
        "reset_and_update_swapped": Mistake(
            _weights("gru"), _weight("gru.weight_ih_l0", _reset_and_update_swapped)
        ),
        "bias_not_carried": Mistake(_weights("gru"), _weight("gru.bias_hh_l0", np.zeros_like)),
        "norm_eps": Mistake(_output("norm"), _put("norm", _norm(WIDTH))),
        "sigmoid": Mistake(_output("act"), _put("act", lambda own: nn.Sigmoid())),
        "directions_swapped": Mistake(_code(""), _code_of("", _recurrent(directions=True))),
        "gru_backwards": Mistake(_code(""), _code_of("", _recurrent(flipped=True))),
        "last_state": Mistake(_code(""), _code_of("", _recurrent(last=True))),
        "mean_of_all": Mistake(_code(""), _code_of("", _recurrent(mean=True))),
        "mask_of_one": Mistake(_code(""), _code_of("", _recurrent(padding=1))),
        "norm_missing": Mistake(_code(""), _code_of("", _recurrent(no_norm=True))),
        "gradient_stopped": Mistake(
            Expected(("", "lstm"), ("no gradient", "gradient")),
            _code_of("", _recurrent(stopped=True)),
        ),
        "frozen": Mistake(
            Expected(("tokens",), ("no gradient",)), _frozen("tokens.embedding_table")
        ),
        "loss_halved": Mistake(_LOSS, loss=lambda: _Halved(nn.CrossEntropyLoss())),
        "betas": Mistake(_UPDATE, optimizer={"beta1": 0.8, "beta2": 0.99}),
        "rate_off": Mistake(_UPDATE, optimizer={"rate": 1.02}),
    },
    "mobilenet": {
        "bgr": Mistake(_DATA, data=_flipped),
        "kernel_flipped": Mistake(
            _weights("blocks.1.depth"),
            _weight("blocks.1.depth.weight", lambda value: value[..., ::-1]),
        ),
        "carried_scaled": Mistake(
            _weights("blocks.0.se.reduce"),
            _weight("blocks.0.se.reduce.weight", lambda value: value * 1.001),
        ),
        "same_padding": Mistake(
            _output("stem.0"), _put("stem.0", _conv(3, 8, 3, stride=2, pad_mode="same"))
        ),
        "silu": Mistake(_output("blocks.1.act"), _put("blocks.1.act", lambda own: nn.SiLU())),
        "sigmoid": Mistake(
            _output("blocks.0.se.gate"), _put("blocks.0.se.gate", lambda own: nn.Sigmoid())
        ),
        "relu_in_head": Mistake(_output("act"), _put("act", lambda own: nn.ReLU())),
        "norm_eps": Mistake(
            _output("blocks.0.bn2"), _put("blocks.0.bn2", lambda own: nn.BatchNorm2d(24, eps=1e-3))
        ),
        "norm_momentum": Mistake(
            Expected(("blocks.2.bn3",), ("update",)),
            _put("blocks.2.bn3", lambda own: nn.BatchNorm2d(16, momentum=0.99)),
        ),
        "squeeze_maximum": Mistake(
            _code("blocks.0.se"), _code_of("blocks.0.se", _squeeze(maximum=True))
        ),
        "gate_added": Mistake(_code("blocks.1.se"), _code_of("blocks.1.se", _squeeze(added=True))),
        "gate_stopped": Mistake(
            Expected(("blocks.2.se",), ("no gradient", "gradient")),
            _code_of("blocks.2.se", _squeeze(stopped=True)),
        ),
        "squeeze_before_act": Mistake(
            _code("blocks.1"), _code_of("blocks.1", _inverted("squeeze first"))
        ),
        "act_missing": Mistake(_code("blocks.1"), _code_of("blocks.1", _inverted("no act"))),
        "squeeze_missing": Mistake(
            _code("blocks.1"), _code_of("blocks.1", _inverted("no squeeze"))
        ),
        "act_after_project": Mistake(
            _code("blocks.1"), _code_of("blocks.1", _inverted("act last"))
        ),
        "shortcut_missing": Mistake(
            _code("blocks.2"), _code_of("blocks.2", _inverted("no shortcut"))
        ),
        "rate_off": Mistake(_UPDATE, optimizer={"rate": 1.02}),
        "loss_sum": Mistake(_LOSS, loss=lambda: nn.CrossEntropyLoss(reduction="sum")),
    },
    "vit": {
        **_of_blocks(),
        "bgr": Mistake(_DATA, data=_flipped),
        "patches_by_column": Mistake(_code(""), _code_of("", _vit(by_column=True))),
        "cls_last": Mistake(_code(""), _code_of("", _vit(cls_last=True))),
        "places_missing": Mistake(_code(""), _code_of("", _vit(no_places=True))),
        "mean_of_patches": Mistake(_code(""), _code_of("", _vit(mean=True))),
        "cls_of_last": Mistake(_code(""), _code_of("", _vit(of_last=True))),
        "frozen": Mistake(Expected(("patch",), ("no gradient",)), _frozen("patch.weight")),
        "label_smoothing": Mistake(_LOSS, loss=lambda: nn.CrossEntropyLoss(label_smoothing=0.1)),
    },
    "unet": {
        "bgr": Mistake(_DATA, data=_flipped),
        "groups": Mistake(
            _output("bottom.norm1"), _put("bottom.norm1", lambda own: nn.GroupNorm(4, 32))
        ),
        "norm_eps": Mistake(
            _output("down1.norm2"), _put("down1.norm2", lambda own: nn.GroupNorm(2, 8, eps=1e-2))
        ),
        "leak": Mistake(_output("down1.act"), _put("down1.act", lambda own: nn.LeakyReLU(0.2))),
        "average_pool": Mistake(_output("pool"), _put("pool", lambda own: nn.AvgPool2d(2, 2))),
        "concat_order": Mistake(_code(""), _code_of("", _unet(order=True))),
        "skip_missing": Mistake(_code(""), _code_of("", _unet(no_skip=True))),
        "skip_flipped": Mistake(_code(""), _code_of("", _unet(flipped=True))),
        "skip_stopped": Mistake(
            Expected(("", "down2"), ("no gradient", "gradient")), _code_of("", _unet(stopped=True))
        ),
        "sigmoid_twice": Mistake(_code(""), _code_of("", _unet(sigmoid=True))),
        "norm_missing": Mistake(_code("bottom"), _code_of("bottom", _twice(no_norm=True))),
        "act_before_norm": Mistake(_code("mix2"), _code_of("mix2", _twice(act_first=True))),
        "kernel_transposed": Mistake(
            _weights("up1"), _weight("up1.weight", lambda value: value.swapaxes(-1, -2))
        ),
        "not_carried": Mistake(_weights("out"), _weight("out.bias", np.zeros_like)),
        "frozen": Mistake(
            Expected(("down1.conv1",), ("no gradient",)), _frozen("down1.conv1.weight")
        ),
        "loss_halved": Mistake(_LOSS, loss=lambda: _Halved(nn.BCEWithLogitsLoss(reduction="mean"))),
        "rate_off": Mistake(_UPDATE, optimizer={"rate": 1.02}),
        "decay_all": Mistake(_UPDATE, optimizer={"decays_all": True}),
    },
}

COMBINATIONS: dict[str, list[tuple[str, ...]]] = {
    "transformer": [
        ("norm_eps", "mask_hides_itself"),
        ("gelu_tanh", "residual_missing", "label_smoothing"),
        ("scale_missing", "embedding_scale", "rate_off", "gradient_stopped"),
        ("carried_in_half", "relu_for_gelu", "query_stopped"),
        ("tokens_off", "mask_missing", "padding_counted"),
        ("norm_eps", "relu_for_gelu", "softmax_axis", "decay_all", "places_from_one"),
        ("frozen", "residual_of_norm"),
        ("carried_transposed", "gelu_tanh", "query_key_swapped", "rate_off"),
    ],
    "resnet": [
        ("norm_eps", "pool_same"),
        ("bgr", "kernel_flipped", "last_relu_missing", "label_smoothing"),
        ("average_pool", "shortcut_missing", "rate_off"),
        ("norm_momentum", "gradient_stopped"),
        ("padding_same", "pool_same", "global_maximum", "decay_all", "carried_in_half"),
        ("statistics_not_carried", "norm_eps", "rate_off"),
        ("frozen", "relu_before_norm"),
        ("shortcut_missing", "last_relu_missing", "loss_sum"),
    ],
    "recurrent": [
        ("norm_eps", "sigmoid"),
        ("bias_not_carried", "directions_swapped", "loss_halved"),
        ("gru_backwards", "sigmoid", "betas", "reset_and_update_swapped"),
        ("last_state", "frozen"),
        ("mask_of_one", "rate_off", "norm_eps"),
    ],
    "mobilenet": [
        ("same_padding", "silu", "sigmoid"),
        ("bgr", "norm_eps", "gate_added", "relu_in_head"),
        ("squeeze_maximum", "act_missing", "rate_off"),
        ("kernel_flipped", "gate_stopped", "loss_sum"),
        ("carried_scaled", "silu", "shortcut_missing", "squeeze_maximum", "norm_momentum"),
        ("squeeze_before_act", "sigmoid"),
        ("act_after_project", "norm_eps", "same_padding", "rate_off"),
    ],
    "vit": [
        ("norm_eps", "gelu_tanh"),
        ("bgr", "cls_last", "relu_for_gelu"),
        ("places_missing", "scale_missing", "residual_missing", "label_smoothing"),
        ("query_stopped", "mean_of_patches", "rate_off"),
        ("carried_transposed", "gelu_tanh", "frozen"),
        ("heads_reshaped", "residual_of_norm", "cls_of_last", "carried_in_half", "decay_all"),
        ("patches_by_column", "post_norm"),
    ],
    "unet": [
        ("groups", "leak"),
        ("concat_order", "norm_missing", "rate_off"),
        ("bgr", "skip_flipped", "not_carried"),
        ("average_pool", "norm_eps", "act_before_norm", "loss_halved"),
        ("kernel_transposed", "skip_missing"),
        ("skip_stopped", "groups", "decay_all"),
        ("leak", "norm_eps", "sigmoid_twice", "frozen", "groups"),
    ],
}


def check(kind: str, reference: str, mistakes: tuple[str, ...]) -> dict[str, Any]:
    """The report on a port with some mistakes."""
    planted = [MISTAKES[kind][name] for name in mistakes]
    data, net = task(kind), nets.NETS[kind]()
    for parameter in net.get_parameters():
        parameter.set_data(Tensor(carried(nets.name_there(parameter.name), parameter.shape)))
    loss = nets.LOSSES.get(kind, lambda: nn.CrossEntropyLoss())
    inputs, how = data.inputs, {}
    for mistake in planted:
        if mistake.net is not None:
            mistake.net(net)
        loss = mistake.loss or loss
        inputs = inputs if mistake.data is None else mistake.data(inputs)
        how.update(mistake.optimizer or {})
    optimizer = _optimizer(data, net, how)
    loader = ds.NumpySlicesDataset((inputs, data.labels), ["x", "y"], shuffle=False).batch(BATCH)
    before = {
        each.name: each.asnumpy().tobytes()
        for each in (*net.get_parameters(), *optimizer.get_parameters())
    }
    check = PortCheck(reference, steps=1)
    Model(net, loss(), optimizer).train(1, loader, callbacks=[check], dataset_sink_mode=False)
    after = {
        each.name: each.asnumpy().tobytes()
        for each in (*net.get_parameters(), *optimizer.get_parameters())
    }
    assert before == after, "the check has changed the port"
    assert check.report is not None
    return {
        "mistakes": [*mistakes],
        "expected": [
            {"modules": each.expected.modules, "kinds": each.expected.kinds} for each in planted
        ],
        "report": check.report.to_dict(),
    }


def _optimizer(data: Any, net: Any, how: dict[str, Any]) -> Any:
    weights = net.trainable_params()
    rate = [each * how.get("rate", 1.0) for each in (*data.rate, data.rate[-1])]
    own = {name: how[name] for name in ("beta1", "beta2") if name in how}
    if data.optimizer == "adam":
        optimizer = nn.Adam(weights, rate, weight_decay=data.decay, **own)
    elif data.optimizer == "momentum":
        optimizer = nn.Momentum(weights, rate, 0.9, weight_decay=data.decay, **own)
    else:
        optimizer = nn.SGD(weights, rate, weight_decay=data.decay, **own)
    if how.get("decays_all"):
        optimizer.decay_flags = tuple(True for _ in weights)
    return optimizer


def _reports(kind: str, reference: str, is_full: bool) -> list[dict[str, Any]]:
    alone = [(name,) for name in MISTAKES[kind]]
    combined = COMBINATIONS[kind]
    wanted = [(), *alone, *combined] if is_full else [(), *alone[:4], *combined[1:3]]
    return [check(kind, reference, mistakes) for mistakes in wanted]


if __name__ == "__main__":
    ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
    references, reports, *how = sys.argv[1:]
    os.makedirs(reports, exist_ok=True)
    for kind in sorted(os.listdir(references)):
        with open(os.path.join(reports, f"{kind}.json"), "w", encoding="utf-8") as file:
            json.dump(_reports(kind, os.path.join(references, kind), "full" in how), file, indent=1)
