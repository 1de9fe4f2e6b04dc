"""Selects the parameters of a model that are recorded.

Their values are read when a step is collected.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from mindsummary_lightning.collection.sharding import is_sharded

EVERY = ".*"
"""The expression that matches every parameter."""

_DEFAULT_COUNT = 5  # MindSpore records the first five when no expression is given
_COMPILED = "_orig_mod."
# by torch.nn.utils.parametrize
_PARAMETRIZED = re.compile(r"parametrizations\.(\w+)\.original\d*$")
# ends of the names that torch.nn.utils.prune gives to a weight and its mask
_PRUNED, _MASK = "_orig", "_mask"
# a module's parameters or buffers, and what one of them is called, and is
_Place = tuple[Mapping[str, Any], str, Any]


@dataclass(frozen=True, slots=True)
class NamedParameter:
    """A parameter that an optimizer holds, with its name in the model.

    Pruned, it has the name and the value of the weight that the module computes with. Parametrized,
    it keeps its own name (``parametrizations.weight.original``) and value, which say what it is: to
    compute the weight would run the user's code, and some of it changes state.
    """

    name: str
    parameter: torch.Tensor
    mask: torch.Tensor | None = None

    def value(self) -> torch.Tensor:
        """Return the parameter's present values, detached from autograd.

        A single number becomes a tensor of an element, so that it gets a histogram.
        """
        weight = self.parameter.detach()
        weight = weight if self.mask is None else weight * self.mask.to(weight.dtype)
        return weight if weight.dim() else weight.reshape(1)

    def matches(self, expression: re.Pattern[str]) -> bool:
        """Tell whether a regular expression matches the start of the parameter's name.

        Of the original of a parametrized weight, the weight's name counts, too.
        """
        readable = _PARAMETRIZED.sub(r"\1", self.name)
        return bool(expression.match(self.name) or expression.match(readable))


class ParameterNames:
    """Finds the names of the module parameters that optimizers hold.

    The names are computed again when the parameters or their modules have changed.

    A traversal of a deep network takes a tenth of the time of a step.
    """

    def __init__(self) -> None:
        self.release()

    def release(self) -> None:
        """Drop all references to parameters."""
        self._held: list[nn.Parameter] = []
        self._named: list[NamedParameter] = []
        self._places: list[_Place] = []

    def of(self, module: nn.Module, optimizers: Iterable[Optimizer]) -> list[NamedParameter]:
        """Return the optimizers' parameters in order, without duplicates, with names.

        The list is the same as long as the model has not changed.

        The ``_orig_mod.`` of compiled parts is omitted from the names.
        """
        held = [
            part for each in optimizers for group in each.param_groups for part in group["params"]
        ]
        if not (
            len(held) == len(self._held) == len(self._named)
            and all(map(operator.is_, held, self._held))
            and all(
                key in entries and entries[key] is value for entries, key, value in self._places
            )
        ):
            self._held, self._places = held, []
            self._named = self._find(module, dict.fromkeys(map(id, held)))
        return self._named

    def _find(self, module: nn.Module, held: dict[int, None]) -> list[NamedParameter]:
        named: dict[int, NamedParameter] = {}
        for path, part in module.named_modules():
            for key, parameter in part._parameters.items():
                if id(parameter) in held and id(parameter) not in named:
                    each = named[id(parameter)] = _named(
                        f"{path}.{key}".lstrip("."), parameter, key, part
                    )
                    self._places.append((part._parameters, key, parameter))
                    if each.mask is not None:
                        self._places.append((part._buffers, _mask_key(key), each.mask))
        return [named[part] for part in held if part in named]


def select_parameters(named: Sequence[NamedParameter], pattern: str | None) -> list[NamedParameter]:
    """Select parameters by a regular expression that matches the start of a name.

    ``None`` selects the first five.
    """
    if pattern is None:
        return list(named[:_DEFAULT_COUNT])
    if pattern == EVERY:
        return list(named)
    expression = re.compile(pattern)
    return [each for each in named if each.matches(expression)]


def _named(path: str, parameter: torch.Tensor, key: str, owner: nn.Module) -> NamedParameter:
    name = path.replace(_COMPILED, "")
    if not key.endswith(_PRUNED):
        return NamedParameter(name, parameter)
    mask = owner._buffers.get(_mask_key(key))
    if mask is None or mask.shape != parameter.shape or is_sharded(parameter):
        return NamedParameter(name, parameter)
    return NamedParameter(name.removesuffix(_PRUNED), parameter, mask)


def _mask_key(key: str) -> str:
    return f"{key.removesuffix(_PRUNED)}{_MASK}"
