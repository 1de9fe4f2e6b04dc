"""Tensors that are spread over several ranks."""

from __future__ import annotations

import torch

__all__ = ["is_sharded"]


def is_sharded(tensor: torch.Tensor) -> bool:
    """Whether each rank has only a part of the tensor: a ``DTensor`` with a placement other than replicated."""
    return any(not placement.is_replicate() for placement in getattr(tensor, "placements", ()))
