"""What the parameter groups of a MindSpore optimizer are set to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

Setting = tuple[str, str, float]  # PyTorch's name of it, path within it, value

_NAMES = {  # MindSpore's names of settings, and PyTorch's with the place in a pair
    "momentum": ("momentum", ""),
    "dampening": ("dampening", ""),
    "nesterov": ("nesterov", ""),
    "use_nesterov": ("nesterov", ""),
    "beta1": ("betas", "0"),
    "beta2": ("betas", "1"),
    "eps": ("eps", ""),
    "epsilon": ("eps", ""),
}


def group_settings(optimizer: Any) -> list[list[Setting]]:
    """The settings of this step; parameters with one learning rate and one weight decay are a group.

    ``mindspore.nn``'s optimizers do not apply the weight decay to each parameter of a group, and what is applied tells
    the groups apart.
    """
    if hasattr(optimizer, "param_groups") and hasattr(optimizer, "group_start_id"):  # mindspore.experimental.optim
        return [[*_numbers(group)] for group in optimizer.param_groups]
    count = len(optimizer.parameters)
    rates, decays = (_each(value, count) for value in (optimizer.get_lr(), optimizer.get_weight_decay()))
    scale = float(getattr(optimizer, "loss_scale", None) or 1.0)  # some multiply the decay with it
    flags = optimizer.decay_flags
    applied = [decay / scale if flag else 0.0 for decay, flag in zip(decays, flags, strict=True)]
    own = {_NAMES[name]: value for name in _NAMES if (value := _number(getattr(optimizer, name, None))) is not None}
    rest = [(name, path, value) for (name, path), value in own.items()]
    groups = dict.fromkeys(zip(rates, applied, strict=True))
    return [[("lr", "", rate), ("weight_decay", "", decay), *rest] for rate, decay in groups]


def _numbers(group: dict[str, Any]) -> Iterator[Setting]:
    for name, value in group.items():
        values = value if isinstance(value, (tuple, list)) else [value]
        paths = itertools.count() if values is value else [""]
        for path, each in zip(paths, values, strict=False):
            if name != "params" and (number := _number(each)) is not None:
                yield name, str(path), number


def _each(value: Any, count: int) -> list[float]:
    values = value if isinstance(value, (tuple, list)) else [value] * count
    return [float(_number(each) or 0.0) for each in values]


def _number(value: Any) -> float | None:
    if hasattr(value, "asnumpy"):
        return float(value.asnumpy()) if value.size == 1 else None
    return float(value) if isinstance(value, (bool, int, float)) else None
