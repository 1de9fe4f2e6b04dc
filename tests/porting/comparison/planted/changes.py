"""The planted changes of weights, gradients, modules and points in the code."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

POINT_CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "scaled_by": lambda x: 0.9 * x,
    "flipped": lambda x: x.flip(-1),
    "rounded": lambda x: x.bfloat16().float(),
    "cut": lambda x: x.clamp(min=0.0),
    "shifted": lambda x: x.roll(1, 1),
    "dropped": lambda x: F.dropout(x, 0.1),
    "zeroed": lambda x: 0.0 * x,
    "detached": lambda x: x.detach(),
}


def _not_carried(name: str, weight: Tensor) -> Tensor:
    if weight.ndim > 1:
        return 0.2 * torch.rand(weight.shape, generator=torch.Generator().manual_seed(7)) - 0.1
    is_scale = name.endswith(("weight", "gamma"))
    return torch.full_like(weight, 1.0 if is_scale else 0.0)


def _turned(name: str, weight: Tensor) -> Tensor:
    """Transpose a square matrix, and turn the outputs of others round."""
    is_square = weight.shape[0] == weight.shape[1]
    return weight.transpose(0, 1).clone() if is_square else weight.flip(0)


WEIGHT_CHANGES: dict[str, Callable[[str, Tensor], Tensor]] = {
    "not_carried": _not_carried,
    "turned": _turned,
    "half": lambda name, weight: weight.half().float(),
    "scaled": lambda name, weight: 1.01 * weight,
    "rolled": lambda name, weight: weight.roll(1, 0),
    "negated": lambda name, weight: -weight,
}
GRADIENT_CHANGES: dict[str, Callable[[Tensor], object]] = {
    "frozen": lambda weight: weight.requires_grad_(False),
    "doubled": lambda weight: weight.register_hook(lambda gradient: 2 * gradient),
    "clamped": lambda weight: weight.register_hook(
        lambda gradient: gradient.clamp(-0.5 * gradient.abs().max(), 0.5 * gradient.abs().max())
    ),
}


class EinsumLinear(nn.Module):
    """A linear layer, written with ``einsum``."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias

    def forward(self, x: Tensor) -> Tensor:
        product = torch.einsum("...i,oi->...o", x, self.weight)
        return product if self.bias is None else product + self.bias


class _OtherAxisNorm(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        deviation, mean = torch.std_mean(x, 0, keepdim=True, correction=0)
        return (x - mean) / (deviation + self.eps) * self.weight + self.bias


class _ShiftedConv(nn.Conv2d):
    """A convolution whose image is padded by one more at its end and one fewer at its begin."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.roll(-1, -1))


class _ShiftedConv1d(nn.Conv1d):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.roll(-1, -1))


def _with(**values: object) -> Callable[[nn.Module], nn.Module]:
    """Return the change that sets attributes of a module."""

    def change(module: nn.Module) -> nn.Module:
        for name, value in values.items():
            setattr(module, name, value)
        return module

    return change


def _as(kind: type[nn.Module]) -> Callable[[nn.Module], nn.Module]:
    """Return the change that gives a module another class and keeps its state."""

    def change(module: nn.Module) -> nn.Module:
        module.__class__ = kind
        return module

    return change


def _statistics_lost(norm: nn.Module) -> nn.Module:
    norm.reset_running_stats()
    return norm


def _group(norm: nn.Module) -> nn.Module:
    made = nn.GroupNorm(1, norm.num_features)
    made.weight, made.bias = norm.weight, norm.bias
    return made


def _without_affine(norm: nn.Module) -> nn.Module:
    return nn.LayerNorm(norm.normalized_shape, norm.eps, elementwise_affine=False)


def _without_bias(module: nn.Module) -> nn.Module:
    if not isinstance(module, nn.RNNBase):
        module.bias = None
        return module
    options = {
        "num_layers": module.num_layers,
        "batch_first": True,
        "bidirectional": module.bidirectional,
        "bias": False,
    }
    made = type(module)(module.input_size, module.hidden_size, **options)
    made.load_state_dict(module.state_dict(), strict=False)
    return made


def _more_bias(module: nn.Module) -> nn.Module:
    random = torch.Generator().manual_seed(3)
    module.bias = nn.Parameter(0.1 * torch.randn(module.weight.shape[0], generator=random))
    return module


def _other_padding(module: nn.Module) -> nn.Module:
    is_image = isinstance(module, nn.Conv2d)
    return _as(_ShiftedConv if is_image else _ShiftedConv1d)(module)


def _padding_idx(module: nn.Module) -> nn.Module:
    module.padding_idx = 0
    return module


MODULE_CHANGES: dict[str, Callable[[nn.Module], nn.Module]] = {
    "eps": _with(eps=1e-2),
    "axis": _as(_OtherAxisNorm),
    "not_affine": _without_affine,
    "missing": lambda module: nn.Identity(),
    "norm_momentum": _with(momentum=0.01),
    "evaluated": lambda module: module.eval(),
    "statistics_lost": _statistics_lost,
    "group": _group,
    "groups": _with(num_groups=1),
    "leaky": lambda module: nn.LeakyReLU(0.01),
    "gelu": lambda module: nn.GELU(),
    "tanh_form": lambda module: nn.GELU("tanh"),
    "relu": lambda module: nn.ReLU(),
    "hardtanh": lambda module: nn.Hardtanh(),
    "hardswish": lambda module: nn.Hardswish(),
    "padding": _other_padding,
    "no_bias": _without_bias,
    "more_bias": _more_bias,
    "dropout_on": _with(p=0.1),
    "padding_idx": _padding_idx,
    "average": lambda module: nn.AvgPool2d(3, 2, 1),
    "smaller": lambda module: nn.MaxPool2d(2, 2),
    "time_first": _with(batch_first=False),
    "dropout_between": _with(dropout=0.1),
}


def replace_module(net: nn.Module, name: str, module: nn.Module) -> None:
    """Put a module in the place of another one."""
    around, _, last = name.rpartition(".")
    setattr(net.get_submodule(around), last, module)
