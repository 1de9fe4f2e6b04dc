"""The images in a batch, if it has any."""

from __future__ import annotations

from typing import Any

import torch

from mindsummary_lightning.conversion.flattening import batch_items, leaves


def image_batch(batch: Any) -> torch.Tensor | None:
    """The batch's images, of shape ``(N, C, H, W)`` with C 1 or 3 and N at least 1; ``None`` if there are none.

    Args:
        batch: a tensor, or any nesting of lists, tuples, mappings and objects with attributes. The first tensor that
            has the shape of an image batch counts, depth first. (MindSpore looks at the first column only.)
    """
    parts = (part for _, part in leaves({"batch": batch}, batch_items))
    return next((part for part in parts if isinstance(part, torch.Tensor) and _is_images(part)), None)


def _is_images(tensor: torch.Tensor) -> bool:
    return tensor.ndim == 4 and tensor.shape[1] in (1, 3) and tensor.numel() > 0
