"""Keeping the values of a model's tensors through a real forward pass, without holding a large model twice.

Buffers are small, so the pass works on copies of them; a weight is copied only when something is about to write to it.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from mindsummary_lightning.graph.preserve_state import mutable_contents

__all__ = ["KeepWeights", "buffers_replaced"]


def buffers_replaced(module: nn.Module) -> None:
    """Put copies in the places of all buffers and plain tensor attributes; ``untouched`` puts the originals back.

    Batch norm writes its running statistics in kernels that do not say so, hence copies and not ``KeepWeights``.
    """
    copies: dict[int, torch.Tensor] = {}

    def stand_in(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or isinstance(value, nn.Parameter):
            return value
        return copies.setdefault(id(value), value.detach().clone())

    for part in list(module.modules()):
        holders = [part.__dict__, *(container for container, _ in mutable_contents(part.__dict__))]
        for holder in holders:
            if isinstance(holder, (list, deque)):
                for index, value in enumerate(holder):
                    holder[index] = stand_in(value)
            elif isinstance(holder, dict):
                for key, value in list(holder.items()):
                    holder[key] = stand_in(value)


class KeepWeights(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's __init_subclass__
    """While active, a watched tensor is copied just before an operation writes to it; ``restore`` puts the copy back.

    Args:
        tensors: the tensors whose values must survive.
    """

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self._watched = {tensor.untyped_storage()._cdata: tensor for tensor in tensors if _has_storage(tensor)}
        self._copies: list[tuple[torch.UntypedStorage, torch.UntypedStorage]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        for argument, value in zip(func._schema.arguments, args, strict=False):
            self._before_write(argument, value)
        for argument in func._schema.arguments[len(args) :]:
            self._before_write(argument, kwargs.get(argument.name))
        return func(*args, **kwargs)

    def _before_write(self, argument: Any, value: Any) -> None:
        if argument.alias_info is None or not argument.alias_info.is_write:
            return
        for tensor in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(tensor, torch.Tensor) and _has_storage(tensor):
                storage = tensor.untyped_storage()
                if self._watched.pop(storage._cdata, None) is not None:
                    self._copies.append((storage, storage.clone()))  # type: ignore[no-untyped-call]  # torch's

    def restore(self) -> None:
        """Give every tensor that was written to its old bytes back."""
        for storage, copy in self._copies:
            storage.copy_(copy)


def _has_storage(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and type(tensor) in (torch.Tensor, nn.Parameter)
