"""The images in a batch, if it has any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

__all__ = ["image_batch"]


def image_batch(batch: Any) -> torch.Tensor | None:
    """The batch's images, of shape ``(N, C, H, W)`` with C 1 or 3 and N at least 1; ``None`` if there are none.

    Args:
        batch: a tensor; or a list or tuple, whose first element counts (MindSpore's rule); or a mapping, whose first
            image-like tensor counts.
    """
    if isinstance(batch, (list, tuple)) and batch:
        return image_batch(batch[0])
    if isinstance(batch, Mapping):
        return next((found for found in map(image_batch, batch.values()) if found is not None), None)
    is_image = isinstance(batch, torch.Tensor) and batch.ndim == 4 and batch.shape[1] in (1, 3) and batch.numel() > 0
    return batch if is_image else None
