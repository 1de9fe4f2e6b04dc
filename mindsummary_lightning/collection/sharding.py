"""Recognizes tensors of which a rank holds only a shard."""

from __future__ import annotations

import math
from typing import Any

import torch


def is_sharded(tensor: torch.Tensor) -> bool:
    """Tell whether a rank holds only a shard of a tensor.

    Such a tensor is a `DTensor` (FSDP2, tensor parallel) or a parameter of FSDP1.
    """
    return is_flattened(tensor) or any(
        not placement.is_replicate() for placement in getattr(tensor, "placements", ())
    )


def is_flattened(parameter: torch.Tensor) -> bool:
    """Tell whether FSDP1 has moved a parameter into a flat parameter.

    It looks whole, and holds this rank's part at most.

    Reads ``_fsdp_flattened``, by which FSDP1 itself knows them (torch 2.1 to 2.13). Neither the
    part's place in the parameter nor its ranks can be read from it, so its values cannot be reduced
    as those of a `DTensor` are.
    """
    return bool(getattr(parameter, "_fsdp_flattened", False))


def groups_that_share(tensor: Any) -> tuple[Any, ...]:
    """Return the process groups over which a ``DTensor`` is sharded.

    Raises:
        TypeError: each rank holds a summand and not a part.
    """
    placements = tensor.placements
    if any(not (placement.is_shard() or placement.is_replicate()) for placement in placements):
        raise TypeError(
            f"expected a DTensor that is sharded or replicated, found placements {placements}"
        )
    return tuple(
        tensor.device_mesh.get_group(n)
        for n, placement in enumerate(placements)
        if placement.is_shard()
    )


def largest_shard(tensor: Any) -> int:
    """Return the number of elements in the largest shard of a ``DTensor``."""
    shape = list(tensor.shape)
    for n, placement in enumerate(tensor.placements):
        if placement.is_shard():
            shape[placement.dim] = -(-shape[placement.dim] // tensor.device_mesh.size(n))
    return math.prod(shape)
