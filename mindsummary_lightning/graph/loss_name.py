"""The name of the function that a loss comes from, by what computed it: observed calls, else autograd's graph."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    "Alias|Clone|Div|Expand|Index|Masked(Fill|Select)|Mean|Mul|Nansum|Reshape|Select|Squeeze|Sum|ToCopy|(Unsafe)?View"
    "|Unsqueeze|Where"
)
_JOINING = frozenset(["Add", "Cat", "Stack"])
_MAX_FUNCTIONS = 1000


def is_loss_function(function: Any) -> bool:
    """Whether a function of torch is a loss."""
    return _FUNCTIONS.fullmatch(str(getattr(function, "__name__", ""))) is not None


def is_loss_module(module: nn.Module, output: Any) -> bool:
    """Whether a module that gave ``output`` is a loss: by its class, or one number from what has no parameters."""
    return isinstance(output, torch.Tensor) and (
        _has_loss_class(module) or (output.numel() == 1 and _may_be_a_loss(module))
    )


def _has_loss_class(module: nn.Module) -> bool:
    return type(module).__module__ == "torch.nn.modules.loss" or module_class_name(module).endswith(
        "Loss"
    )


def _may_be_a_loss(module: nn.Module) -> bool:
    return torch_class_name(module) is None and next(module.parameters(), None) is None


class WatchedLosses:
    """Names of loss modules that are called until :meth:`end`, as :func:`loss_name` takes them.

    For a training whose graph is not observed. What is inside a compiled part is left alone: a hook
    would compile it again. Autograd knows no loss function in it either.
    """

    def __init__(self, network: nn.Module) -> None:
        self.names: dict[int, str] = {}
        compiled = [part for part in network.modules() if is_compiled(part)]
        closed = {network, *(inner for part in compiled for inner in part.modules())}
        self._hooks = [
            part.register_forward_hook(self._note)
            for part in network.modules()
            if part not in closed and not isinstance(part, torch.jit.ScriptModule)
            if _has_loss_class(part) or _may_be_a_loss(part)
        ]

    def _note(self, module: nn.Module, _: Any, output: Any) -> None:
        if is_loss_module(module, output) and output.grad_fn is not None:
            self.names[output.grad_fn._sequence_nr()] = module_class_name(module)

    def end(self) -> None:
        """Take the hooks off."""
        while self._hooks:
            self._hooks.pop().remove()


def loss_name(loss: torch.Tensor, observed: Mapping[int, str]) -> str | None:
    """The name of a loss that has not been propagated back yet; ``None`` if it comes from no known function.

    ``observed`` holds names by the sequence number of the function that autograd has for the
    result. A sum of several losses has all their names, if all are known. What was not observed
    gets the name of the function, as autograd knows it.
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
        if (name := observed.get(function._sequence_nr())) is not None:
            names[name] = None
        elif kind in _OF_AUTOGRAD:
            is_log_softmax = (
                kind.startswith("NllLoss") and bool(inputs) and _kind(inputs[0]) == "LogSoftmax"
            )
            names["cross_entropy" if is_log_softmax else _OF_AUTOGRAD[kind]] = None
        elif kind in _JOINING or (_PASSING.fullmatch(kind) and len(inputs) == 1):
            waiting += reversed(inputs)
        else:
            return None
    return None


def _kind(function: torch.autograd.graph.Node) -> str:
    """What one of torch's own functions computed; those of a user's ``autograd.Function`` have no number."""
    return re.sub(r"Backward\d+$", "", function.name())
