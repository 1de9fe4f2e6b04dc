"""The loss in what a training step returned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def mean_loss(outputs: Any, accumulated_batches: int = 1) -> torch.Tensor | None:
    """The mean of a step's loss as a float32 tensor on its device; ``None`` if there is none.

    A step returns a tensor or number, a mapping with ``"loss"``, or a list or tuple that begins with one of these.
    Lightning hands out the loss divided by the accumulated batches (automatic optimization); it is undone.
    """
    if isinstance(outputs, Mapping):
        outputs = outputs.get("loss")
    if isinstance(outputs, (list, tuple)):
        return mean_loss(outputs[0], accumulated_batches) if outputs else None
    if isinstance(outputs, (int, float)):
        outputs = torch.tensor(float(outputs))
    if not isinstance(outputs, torch.Tensor) or not outputs.numel():
        return None
    loss = outputs.detach().float()
    if loss.dim():
        loss = loss.mean()
    return loss if accumulated_batches == 1 else loss * accumulated_batches


def loss_alone(outputs: Any) -> Any:
    """What :func:`mean_loss` reads of a step's outputs, so that nothing else of them stays alive until it is read."""
    if isinstance(outputs, Mapping):
        outputs = outputs.get("loss")
    if isinstance(outputs, (list, tuple)):
        return loss_alone(outputs[0]) if outputs else None
    if not isinstance(outputs, torch.Tensor):
        return outputs
    # Of a large tensor, or an element of one, the mean is taken now.
    return outputs.detach() if outputs.numel() == 1 and not outputs._is_view() else mean_loss(outputs)
