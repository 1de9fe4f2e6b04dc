"""Selection of the parameters (or gradients) of a model that are recorded, and their tags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from torch import nn
from torch.optim import Optimizer

_DEFAULT_COUNT = 5  # MindSpore records the first five when no expression is given
_COMPILED = "_orig_mod."


def parameter_names(module: nn.Module, optimizers: Iterable[Optimizer]) -> list[tuple[str, nn.Parameter]]:
    """The parameters of a module that optimizers hold, with their names, in the optimizers' order, each once.

    The ``_orig_mod.`` of compiled parts is omitted from the names.
    """
    names = {id(parameter): name.replace(_COMPILED, "") for name, parameter in module.named_parameters()}
    held = [part for optimizer in optimizers for group in optimizer.param_groups for part in group["params"]]
    return list({id(part): (names[id(part)], part) for part in held if id(part) in names}.values())


def select_parameters(named: Sequence[tuple[str, nn.Parameter]], pattern: str | None) -> list[tuple[str, nn.Parameter]]:
    """The parameters whose name an expression matches from its start; the first five for ``None``."""
    if pattern is None:
        return list(named[:_DEFAULT_COUNT])
    expression = re.compile(pattern)
    return [(name, parameter) for name, parameter in named if expression.match(name)]
