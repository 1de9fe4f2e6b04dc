"""Finds the loss in the outputs of a training step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch


def loss_of(outputs: Any) -> Any:
    """Return the loss in the outputs of a training step, or ``None``.

    That is a tensor or number, a mapping with ``"loss"``, or a list or tuple that begins with one
    of these.
    """
    if isinstance(outputs, Mapping):
        outputs = outputs.get("loss")
    if isinstance(outputs, (list, tuple)):
        return loss_of(outputs[0]) if outputs else None
    return outputs


def mean_loss(outputs: Any, accumulated_batches: int = 1) -> torch.Tensor | None:
    """Return the mean of the loss in a step's outputs, or ``None`` without a loss.

    It is a float32 tensor on the loss's device.

    Lightning hands out the loss divided by the accumulated batches (automatic optimization); it is
    undone.
    """
    loss = loss_of(outputs)
    if isinstance(loss, (int, float)):
        loss = torch.tensor(float(loss))
    if not isinstance(loss, torch.Tensor) or not loss.numel():
        return None
    loss = loss.detach().float()
    mean: torch.Tensor = loss.mean() if loss.dim() else loss
    if accumulated_batches == 1:
        return mean
    return mean * accumulated_batches


def mean_of_losses(readers: Sequence[Callable[[], torch.Tensor | None]]) -> torch.Tensor | None:
    """Compute the mean of several losses on their device; ``None`` without losses.

    It does not wait for the device.
    """
    losses = []
    for read in readers:
        loss = read()
        if loss is not None:
            losses.append(loss)
    return torch.stack(losses).mean() if losses else None


def loss_alone(outputs: Any) -> Any:
    """Return the part of a step's outputs that :func:`mean_loss` reads.

    The rest of the outputs can then be freed, and of a loss that is a part of a large tensor the
    rest of that.
    """
    loss = loss_of(outputs)
    if not isinstance(loss, torch.Tensor):
        return loss
    if loss.numel() == 1:
        return loss.detach().clone() if loss._is_view() else loss.detach()
    return mean_loss(loss)
