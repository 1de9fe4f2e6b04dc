"""Finds and replaces tensors in nested arguments."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from mindsummary_lightning.collection.tensor_statistics import plain_tensor
from mindsummary_lightning.graph.observation import named_tensors
from mindsummary_lightning.porting.chain.torch_arrays import dtype_name, float_array
from mindsummary_lightning.porting.port_check.port_frames import PortTensor
from mindsummary_lightning.porting.port_check.tensor_distance import Array

# Any, in this module: arguments and results of the user's modules.
_MAX_DEPTH = 16
ChangeTensor = Callable[[torch.Tensor], torch.Tensor]


def result_tensors(value: Any) -> list[tuple[str, torch.Tensor]]:
    """List the dense tensors of a nested value, with their dotted paths."""
    found = [("", value)] if isinstance(value, torch.Tensor) else [*named_tensors(value)]
    return [(path, tensor) for path, tensor in found if plain_tensor(tensor) is not None]


def argument_tensors(args: Any, kwargs: Mapping[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """List the tensors that a module is called with.

    The path of a single positional tensor is ``""``.
    """
    named = {**{str(place): value for place, value in enumerate(args)}, **kwargs}
    tensors = result_tensors(named)
    if len(tensors) == 1 and tensors[0][0] == "0":
        return [("", tensors[0][1])]
    return tensors


def port_tensors(tensors: list[tuple[str, torch.Tensor]]) -> list[PortTensor]:
    """Convert tensors to NumPy arrays, which may share the tensors' memory."""
    return [PortTensor(path, float_array(tensor), dtype_name(tensor)) for path, tensor in tensors]


def tensor_like(array: Array, like: torch.Tensor) -> torch.Tensor:
    """Make a tensor from an array, with a given tensor's dtype, device and format."""
    values = torch.tensor(np.ascontiguousarray(array))
    if values.shape != like.shape:
        return values.reshape(array.shape).to(like.dtype).to(like.device)
    result = torch.empty_like(like, requires_grad=False)
    if not result.is_contiguous() and result.stride() != like.stride():
        result = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    return result.copy_(values)


def with_replaced(value: Any, replacements: Mapping[int, torch.Tensor]) -> Any:
    """Replace tensors in a nested structure; ``replacements`` has their ``id``.

    Parts without a replaced tensor stay the same objects.
    """
    return _mapped(value, lambda tensor: replacements.get(id(tensor), tensor))


def with_distinct(value: Any) -> Any:
    """Replace tensors that occur again in a nested structure by views of themselves."""
    seen: set[int] = set()

    def distinct(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in seen:
            return tensor.view_as(tensor)
        seen.add(id(tensor))
        return tensor

    return _mapped(value, distinct)


def _mapped(value: Any, change: ChangeTensor, depth: int = 0) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if depth > _MAX_DEPTH or value is None or isinstance(value, (str, bytes, int, float, type)):
        return value
    if isinstance(value, (tuple, list)):
        return _sequence(value, [_mapped(part, change, depth + 1) for part in value])
    if isinstance(value, Mapping):
        return _mapping(value, change, depth)
    if hasattr(type(value), "__torch_function__") or hasattr(type(value), "named_parameters"):
        return value
    if dataclasses.is_dataclass(value) or hasattr(value, "__dict__"):
        return _object(value, change, depth)
    return value


def _sequence(value: Any, parts: list[Any]) -> Any:
    if all(new is old for new, old in zip(parts, value, strict=True)):
        return value
    if hasattr(value, "_fields"):
        return type(value)(*parts)
    return type(value)(parts)


def _mapping(value: Any, change: ChangeTensor, depth: int) -> Any:
    changed = {}
    for key, part in value.items():
        new = _mapped(part, change, depth + 1)
        if new is not part:
            changed[key] = new
    if not changed:
        return value
    result = copy.copy(value)
    for key, part in changed.items():
        result[key] = part
    return result


def _object(value: Any, change: ChangeTensor, depth: int) -> Any:
    changed = {}
    for name, part in vars(value).items():
        new = _mapped(part, change, depth + 1)
        if new is not part:
            changed[name] = new
    if not changed:
        return value
    result = copy.copy(value)
    for name, part in changed.items():
        object.__setattr__(result, name, part)
    return result


class ReplacedValue(torch.autograd.Function):
    """Replaces a tensor's values, and passes the gradient on to the tensor.

    ``tensor + (value - tensor).detach()`` would not be bit-equal to the value.
    """

    @staticmethod
    def forward(ctx: Any, own: torch.Tensor, value: list[torch.Tensor]) -> torch.Tensor:
        """Return the tensor in the list, so that later code may change it in place."""
        ctx.own_shape = own.shape
        return value[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Pass the gradient on to ``own``: zeros if the value has a different shape."""
        gradient = gradients[0]
        if gradient.shape != ctx.own_shape:
            gradient = gradient.new_zeros(ctx.own_shape)
        return gradient, None


def replaced(own: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Return a tensor with replaced values, connected to the original in autograd."""
    if own.requires_grad and torch.is_grad_enabled() and value.is_floating_point():
        result: torch.Tensor = ReplacedValue.apply(own, [value])  # type: ignore[no-untyped-call]
        return result
    return value
