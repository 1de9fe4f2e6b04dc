"""Gradients as an optimizer sees them."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

__all__ = ["gradients_of", "total_norm"]


def gradients_of(parameters: Iterable[nn.Parameter]) -> list[torch.Tensor]:
    """The gradients there are."""
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def total_norm(gradients: Iterable[torch.Tensor]) -> torch.Tensor:
    """Euclidean norm of all gradients together, a float32 tensor on their device; sharded ones are reduced.

    Args:
        gradients: at least one, of any floating dtype; all ranks that share a sharded one must call.
    """
    norms = [torch.linalg.vector_norm(gradient.float()) for gradient in gradients]
    whole = [norm.full_tensor() if hasattr(norm, "full_tensor") else norm for norm in norms]
    total: torch.Tensor = torch.linalg.vector_norm(torch.stack([norm.to(whole[0].device) for norm in whole]))
    return total
