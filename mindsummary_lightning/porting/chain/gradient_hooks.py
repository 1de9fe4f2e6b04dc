"""Finds and registers hooks that may change the gradients of weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# Any, in this module: handles of hooks, and torch's tables of them.


def has_gradient_hooks(tensor: torch.Tensor) -> bool:
    """Tell whether a leaf tensor has a hook that may change its gradient."""
    after = getattr(tensor, "_post_accumulate_grad_hooks", None)
    return bool(tensor._backward_hooks) or bool(after)


def register_first_hook(tensor: torch.Tensor, hook: Callable[[torch.Tensor], None]) -> Any:
    """Register a gradient hook that runs before the tensor's existing hooks.

    Returns:
        The handle that removes the hook.
    """
    handle: Any = tensor.register_hook(hook)  # type: ignore[no-untyped-call]
    table: Any = tensor._backward_hooks
    later = {identity: other for identity, other in table.items() if identity != handle.id}
    for identity in later:
        del table[identity]
    table.update(later)  # torch calls them in the order in which they were put in
    return handle
