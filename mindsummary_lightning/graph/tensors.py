"""Tensors in arguments, batches and results of any structure, which is only read: no property of it is computed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

__all__ = ["named_tensors", "tensors_in"]

# Any, here and below: arguments and batches have whatever type the user gives them.
_MAX_DEPTH = 8
_MAX_OBJECTS = 10_000
_OPAQUE_PACKAGES = ("torch", "lightning", "pytorch_lightning", "builtins", "numpy")


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Every tensor in nested tuples, lists and mappings, such as the arguments of a torch function."""
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value if isinstance(value, (tuple, list)) else value.values() if isinstance(value, Mapping) else ()
    return [tensor for part in parts for tensor in tensors_in(part)]


def named_tensors(value: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in a batch or result with its dotted name (``batch.image``, ``batch.0.edge_index``).

    Beside tuples, lists and mappings, the attributes of dataclasses and other objects are followed; underscored ones
    add nothing to the name (a PyTorch Geometric batch keeps ``x`` in ``_store._mapping``).

    Args:
        value: any structure; also a self-referential one.
        name: name of the whole.
    """
    seen: set[int] = set()
    waiting = [(name, value, 0)]
    while waiting and len(seen) < _MAX_OBJECTS:
        name, value, depth = waiting.pop()
        if isinstance(value, torch.Tensor):
            yield name, value
        elif depth < _MAX_DEPTH and id(value) not in seen:
            seen.add(id(value))
            inner = [(name if str(key).startswith("_") else f"{name}.{key}", part) for key, part in _elements(value)]
            waiting += [(inner_name, part, depth + 1) for inner_name, part in reversed(inner)]


def _elements(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, (tuple, list)):
        return list(zip(getattr(value, "_fields", range(len(value))), value, strict=True))
    is_opaque = type(value).__module__.partition(".")[0] in _OPAQUE_PACKAGES and not dataclasses.is_dataclass(value)
    return [] if is_opaque or isinstance(value, (type, nn.Module)) else list(getattr(value, "__dict__", {}).items())
