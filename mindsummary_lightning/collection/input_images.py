"""The images in a batch, if it has any."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import torch

__all__ = ["image_batch"]

_MAX_DEPTH = 16  # levels of nesting; a batch that contains itself ends there


def image_batch(batch: Any) -> torch.Tensor | None:
    """The batch's images, of shape ``(N, C, H, W)`` with C 1 or 3 and N at least 1; ``None`` if there are none.

    Args:
        batch: a tensor, or any nesting of lists, tuples, named tuples, mappings and dataclasses. The first tensor that
            has the shape of an image batch counts, depth first. (MindSpore looks at the first column only.)
    """
    return _first_images(batch, _MAX_DEPTH)


def _first_images(part: Any, depth: int) -> torch.Tensor | None:
    if isinstance(part, torch.Tensor):
        return part if part.ndim == 4 and part.shape[1] in (1, 3) and part.numel() > 0 else None
    if not depth:
        return None
    return next((found for inner in _parts(part) if (found := _first_images(inner, depth - 1)) is not None), None)


def _parts(part: Any) -> Iterable[Any]:
    if isinstance(part, (list, tuple)):
        return part
    if isinstance(part, Mapping):
        return part.values()
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        return (getattr(part, field.name, None) for field in dataclasses.fields(part))
    return ()
