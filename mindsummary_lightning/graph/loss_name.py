"""Find the name of the function that computed a loss.

The name is known from observed calls, or else from autograd's graph.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from mindsummary_lightning.graph.module_names import (
    is_compiled,
    module_class_name,
    torch_class_name,
)

_FUNCTIONS = re.compile(
    r"\w+_loss|(linear_)?cross_entropy|binary_cross_entropy(_with_logits)?|kl_div"
)
_OF_AUTOGRAD = {
    "BinaryCrossEntropy": "binary_cross_entropy",
    "BinaryCrossEntropyWithLogits": "binary_cross_entropy_with_logits",
    "CtcLoss": "ctc_loss",
    "CudnnCtcLoss": "ctc_loss",
    "HuberLoss": "huber_loss",
    "MseLoss": "mse_loss",
    "MultiMarginLoss": "multi_margin_loss",
    "MultilabelMarginLoss": "multilabel_margin_loss",
    "NllLoss": "nll_loss",
    "NllLoss2D": "nll_loss",
    "SmoothL1Loss": "smooth_l1_loss",
    "SoftMarginLoss": "soft_margin_loss",
}
# A loss stays the same function's when it is reduced, weighted by what is not trained, cast or
# given another shape.
_PASSING = re.compile(
    "Alias|Clone|Div|Expand|Index|Masked(Fill|Select)|Mean|Mul|Nansum|Reshape|Select|Squeeze|Sum"
    "|ToCopy|(Unsafe)?View|Unsqueeze|Where"
)
_JOINING = frozenset(["Add", "Cat", "Stack"])
_MAX_FUNCTIONS = 1000


def is_loss_function(function: Any) -> bool:
    """Tell whether a torch function is a loss function, by its name."""
    return _FUNCTIONS.fullmatch(str(getattr(function, "__name__", ""))) is not None


def is_loss_module(module: nn.Module, output: Any) -> bool:
    """Tell whether a module that returned ``output`` is a loss module.

    It is if it has the class of a loss, or if it has no parameters and ``output`` is a single
    number.
    """
    if not isinstance(output, torch.Tensor):
        return False
    return _has_loss_class(module) or (output.numel() == 1 and _may_be_a_loss(module))


def _has_loss_class(module: nn.Module) -> bool:
    if type(module).__module__ == "torch.nn.modules.loss":
        return True
    return module_class_name(module).endswith("Loss")


def _may_be_a_loss(module: nn.Module) -> bool:
    return torch_class_name(module) is None and next(module.parameters(), None) is None


class WatchedLosses:
    """Forward hooks that note the names of the loss modules that are called.

    :func:`loss_name` uses the names. :meth:`end` removes the hooks.

    They serve a training whose graph is not observed. Modules inside a compiled module get no hook,
    because a hook would cause another compilation. Autograd knows no loss function in a compiled
    module either.
    """

    def __init__(self, network: nn.Module) -> None:
        self.names: dict[int, str] = {}
        closed = {network}
        for part in network.modules():
            if is_compiled(part):
                closed.update(part.modules())
        self._hooks = []
        for part in network.modules():
            if part in closed or isinstance(part, torch.jit.ScriptModule):
                continue
            if _has_loss_class(part) or _may_be_a_loss(part):
                self._hooks.append(part.register_forward_hook(self._note))

    def _note(self, module: nn.Module, _: Any, output: Any) -> None:
        if is_loss_module(module, output) and output.grad_fn is not None:
            self.names[output.grad_fn._sequence_nr()] = module_class_name(module)

    def end(self) -> None:
        """Remove the forward hooks from all modules."""
        while self._hooks:
            self._hooks.pop().remove()


def loss_name(loss: torch.Tensor, observed: Mapping[int, str]) -> str | None:
    """Return the name of the function that computed a loss, before its backward pass.

    The result is ``None`` if the loss comes from no known function. ``observed`` maps the sequence
    number of the autograd function of a result to a name. A sum of several losses gets all their
    names, if all are known. A loss that was not observed gets the name that autograd has for its
    function.
    """
    names: dict[str, None] = {}  # as an ordered set
    waiting = [loss.grad_fn]
    for _ in range(_MAX_FUNCTIONS):
        if not waiting:
            return " + ".join(names) or None
        function = waiting.pop()
        if function is None:
            return None
        inputs = [source for source, _ in function.next_functions if source is not None]
        kind = _kind(function)
        name = observed.get(function._sequence_nr()) or _name_by_autograd(kind, inputs)
        if name is not None:
            names[name] = None
        elif _passes_loss(kind, len(inputs)):
            waiting += reversed(inputs)
        else:
            return None
    return None


def _passes_loss(kind: str, inputs: int) -> bool:
    """Tell whether an operation on losses gives a loss again, or a sum of losses."""
    if kind in _JOINING:
        return True
    return inputs == 1 and _PASSING.fullmatch(kind) is not None


def _name_by_autograd(kind: str, inputs: Sequence[torch.autograd.graph.Node]) -> str | None:
    """Return the loss function of an autograd function; ``None`` if it is no loss."""
    is_nll = kind.startswith("NllLoss")
    if is_nll and inputs and _kind(inputs[0]) == "LogSoftmax":
        return "cross_entropy"
    return _OF_AUTOGRAD.get(kind)


def _kind(function: torch.autograd.graph.Node) -> str:
    """Return the name of an autograd function without ``Backward`` and its number.

    The name of a user's ``autograd.Function`` has no number, and is not shortened.
    """
    return re.sub(r"Backward\d+$", "", function.name())
