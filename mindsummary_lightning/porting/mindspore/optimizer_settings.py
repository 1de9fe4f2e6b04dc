"""Reads the settings and state of a MindSpore optimizer."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mindspore

from mindsummary_lightning.values.whole_step import (
    FIRST_MOMENT,
    MOMENTUM,
    SECOND_MOMENT,
    STEP_COUNT,
)

# Any, in this module: MindSpore's optimizers and parameters.
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

_STATES = {  # MindSpore's names of states
    "moments": MOMENTUM,
    "accum": MOMENTUM,
    "moment1": FIRST_MOMENT,
    "moment2": SECOND_MOMENT,
    "moments1": FIRST_MOMENT,
    "moments2": SECOND_MOMENT,
    "exp_avg": FIRST_MOMENT,
    "exp_avg_sq": SECOND_MOMENT,
}


@dataclass(frozen=True)
class OptimizerState:
    """A tensor of an optimizer's state.

    Attributes:
        weight: the parameter that it belongs to; ``None`` for a state of all.
        name: as ``values.whole_step`` names it, or MindSpore's name.
        tensor: the state.
    """

    weight: Any
    name: str
    tensor: Any


def group_settings(optimizer: Any) -> list[list[Setting]]:
    """Return this step's settings, grouped by equal learning rate and weight decay.

    ``mindspore.nn``'s optimizers do not apply the weight decay to each parameter of a group, and
    what is applied tells the groups apart.
    """
    if _is_experimental(optimizer):
        return [[*_numbers(group)] for group in optimizer.param_groups]
    own: dict[tuple[str, str], Setting] = {}
    for name, (torch_name, path) in _NAMES.items():
        value = _number(getattr(optimizer, name, None))
        if value is not None:
            own[torch_name, path] = (torch_name, path, value)
    groups = dict.fromkeys(_rates_and_decays(optimizer))
    settings: list[list[Setting]] = []
    for rate, decay in groups:
        settings.append([("lr", "", rate), ("weight_decay", "", decay), *own.values()])
    return settings


def plain_settings(group: list[Setting]) -> dict[str, float]:
    """Return the settings of a group by PyTorch's names, such as ``betas.0``."""
    return {f"{name}.{path}".rstrip("."): value for name, path, value in group}


def group_members(optimizer: Any) -> list[list[Any]]:
    """List the parameters of every group that :func:`group_settings` returns."""
    if _is_experimental(optimizer):
        return [list(group["params"]) for group in optimizer.param_groups]
    groups: dict[tuple[float, float], list[Any]] = {}
    for key, parameter in zip(_rates_and_decays(optimizer), optimizer.parameters, strict=True):
        groups.setdefault(key, []).append(parameter)
    return list(groups.values())


def optimizer_state(optimizer: Any) -> Iterator[OptimizerState]:
    """Yield the state tensors from which the next update starts."""
    count = len(optimizer.parameters)
    # its accum is no momentum
    known = {} if isinstance(optimizer, mindspore.nn.Adagrad) else _STATES
    for name, value in vars(optimizer).items():
        is_of_weights = isinstance(value, mindspore.ParameterTuple) and len(value) == count
        if is_of_weights and not any(map(operator.is_, value, optimizer.parameters)):
            for parameter, state in zip(optimizer.parameters, value, strict=True):
                yield OptimizerState(parameter, known.get(name, name), state)
    step = getattr(optimizer, "global_step", getattr(optimizer, "state_step", None))
    if isinstance(step, mindspore.Tensor):
        yield OptimizerState(None, STEP_COUNT, step)


def _is_experimental(optimizer: Any) -> bool:
    """Tell whether an optimizer belongs to ``mindspore.experimental.optim``."""
    return hasattr(optimizer, "param_groups") and hasattr(optimizer, "group_start_id")


def _rates_and_decays(optimizer: Any) -> list[tuple[float, float]]:
    """List the learning rates and applied weight decays of all parameters."""
    count = len(optimizer.parameters)
    rates = _each(optimizer.get_lr(), count)
    decays = _each(optimizer.get_weight_decay(), count)
    scale = float(getattr(optimizer, "loss_scale", None) or 1.0)  # some multiply the decay with it
    flags = optimizer.decay_flags
    found = []
    for rate, decay, flag in zip(rates, decays, flags, strict=True):
        found.append((rate, decay / scale if flag else 0.0))
    return found


def _numbers(group: dict[str, Any]) -> Iterator[Setting]:
    for name, value in group.items():
        values = value if isinstance(value, (tuple, list)) else [value]
        paths = itertools.count() if values is value else [""]
        for path, each in zip(paths, values, strict=False):
            if name == "params":
                continue
            number = _number(each)
            if number is not None:
                yield name, str(path), number


def _each(value: Any, count: int) -> list[float]:
    values = value if isinstance(value, (tuple, list)) else [value] * count
    return [float(_number(each) or 0.0) for each in values]


def _number(value: Any) -> float | None:
    if hasattr(value, "asnumpy"):
        return float(value.asnumpy()) if value.size == 1 else None
    return float(value) if isinstance(value, (bool, int, float)) else None
