"""Cross-entropy over few classes with the samples innermost: the same numbers, several times sooner on a CPU.

torch takes the exponentials of a sample's logits together. Fewer than a vector register holds go one by one, and the
loss of ten classes then takes longer than the layers before it. Nothing else about the loss is changed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

__all__ = ["FewClasses"]

# What an AVX-512 register holds; from there on the usual order is the faster one.
_FLOATS_TOGETHER = 16
# Logits of a batch below which watching every call of the network costs as much as it saves.
_PAYS_FROM = 4096


class FewClasses(TorchFunctionMode):
    """While this lasts, ``functional.cross_entropy`` of logits ``(N, C)`` and classes ``(N,)`` is computed so.

    Attributes:
        is_used: whether it met such a call.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_used = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = self._cross_entropy if func is functional.cross_entropy else func
        return call(*args, **(kwargs or {}))

    def _cross_entropy(self, input: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Tensor:  # noqa: A002 torch's name
        if not _fits(input, target):
            return functional.cross_entropy(input, target, *args, **kwargs)
        self.is_used = True
        # As one picture of N pixels and C channels.
        loss = functional.cross_entropy(input.T[None], target[None], *args, **kwargs)
        return loss[0] if loss.ndim else loss


def _fits(logits: Any, target: Any) -> bool:
    return (
        type(logits) is Tensor
        and type(target) is Tensor
        and logits.device.type == "cpu"
        and logits.dtype == torch.float32
        and logits.ndim == 2
        and logits.shape[1] < _FLOATS_TOGETHER
        and logits.numel() >= _PAYS_FROM
        and target.ndim == 1
    )
