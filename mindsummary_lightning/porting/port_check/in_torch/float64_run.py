"""Runs a module in float64, to measure how rounding changes its outputs."""

from __future__ import annotations

import copy
from collections.abc import Set
from typing import Any

import torch
from torch import nn

from mindsummary_lightning.porting.chain.torch_arrays import float_array
from mindsummary_lightning.porting.port_check.in_torch.tensor_replacement import (
    argument_tensors,
    result_tensors,
    with_replaced,
)
from mindsummary_lightning.porting.port_check.tensor_distance import Array

# Any, in this module: arguments of the user's modules.


def run_in_float64(
    module: nn.Module, args: Any, kwargs: dict[str, Any], own_hooks: Set[int]
) -> list[Array] | None:
    """Run a copy of a module in float64, and return its outputs.

    Args:
        module: that is copied; it stays as it is.
        args: its positional arguments.
        kwargs: its keyword arguments.
        own_hooks: identities of hooks that the copy must not have.

    Returns:
        ``None`` if the module cannot be copied or run so.
    """
    if "_trainer" in vars(module):  # a LightningModule would take its Trainer along
        return None
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else []
    device = next((parameter.device.type for parameter in module.parameters()), "cpu")
    try:
        with torch.no_grad(), torch.random.fork_rng(devices), torch.autocast(device, enabled=False):
            exact = _without_hooks(copy.deepcopy(module).double(), own_hooks)
            table = {
                id(tensor): tensor.detach().double()
                for _, tensor in argument_tensors(args, kwargs)
                if tensor.is_floating_point()
            }
            new_args, new_kwargs = with_replaced((args, kwargs), table)
            return [
                float_array(tensor) for _, tensor in result_tensors(exact(*new_args, **new_kwargs))
            ]
    except Exception:  # whatever a copy of the user's module does: then nothing is measured
        return None


def _without_hooks(module: nn.Module, own_hooks: Set[int]) -> nn.Module:
    for part in module.modules():
        for hooks in (part._forward_pre_hooks, part._forward_hooks):
            for identity in own_hooks & hooks.keys():
                del hooks[identity]
                part._forward_hooks_always_called.pop(identity, None)
                part._forward_pre_hooks_with_kwargs.pop(identity, None)
                part._forward_hooks_with_kwargs.pop(identity, None)
    return module
