"""Gradients of a module's weights, computed by the module alone on the original's values."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from mindsummary_lightning.porting.chain.torch_arrays import float_array
from mindsummary_lightning.porting.port_check.in_torch.float64_run import without_hooks
from mindsummary_lightning.porting.port_check.in_torch.tensor_replacement import (
    argument_tensors,
    result_tensors,
    tensor_like,
    with_replaced,
)
from mindsummary_lightning.porting.port_check.tensor_distance import Array

# Any, in this module: arguments of the user's modules.


@dataclass(frozen=True, slots=True, eq=False)
class LoneCall:
    """A call of a module.

    Attributes:
        args: positional arguments, with the original's values.
        kwargs: keyword arguments, with the original's values.
        gradients: of its outputs in the original, by their paths.
    """

    args: Any
    kwargs: dict[str, Any]
    gradients: Mapping[str, Array]


def lone_gradients(
    module: nn.Module, calls: Sequence[LoneCall], own_hooks: Set[int]
) -> dict[str, Array] | None:
    """Run a copy of a module, forward and backward, for each of its calls.

    Args:
        module: that is copied; it stays as it is.
        calls: of the module in the step.
        own_hooks: identities of hooks that the copy must not have.

    Returns:
        The sum over the calls by the weights' names in the module; ``None`` if the module cannot
        be copied or run so.
    """
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else []
    try:
        with torch.enable_grad(), torch.random.fork_rng(devices):
            lone = without_hooks(copy.deepcopy(module), own_hooks)
            for call in calls:
                _run(lone, call)
        return {
            name: float_array(weight.grad)
            for name, weight in lone.named_parameters(recurse=False)
            if weight.grad is not None
        }
    except Exception:  # whatever a copy of the user's module does: then nothing is measured
        return None


def _run(lone: nn.Module, call: LoneCall) -> None:
    """Add the gradients of one call to those of the copy's weights."""
    table = {
        id(tensor): tensor.detach().clone()
        for _, tensor in argument_tensors(call.args, call.kwargs)
    }
    args, kwargs = with_replaced((call.args, call.kwargs), table)
    outputs = [
        (path, tensor)
        for path, tensor in result_tensors(lone(*args, **kwargs))
        if path in call.gradients and tensor.requires_grad
    ]
    gradients = [tensor_like(call.gradients[path], tensor) for path, tensor in outputs]
    torch.autograd.backward([tensor for _, tensor in outputs], gradients)
