"""Tensors in arguments, batches and results of any structure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from mindsummary_lightning.conversion.flattening import batch_items, leaves

__all__ = ["named_tensors", "tensors_in"]

# Any, here and below: arguments and batches have whatever type the user gives them.


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Every tensor in nested tuples, lists and mappings, such as the arguments of a torch function."""
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value if isinstance(value, (tuple, list)) else value.values() if isinstance(value, Mapping) else ()
    return [tensor for part in parts for tensor in tensors_in(part)]


def named_tensors(values: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in named batches or results with its dotted name (``batch.image``, ``batch.0.edge_index``).

    Underscored attributes add nothing to the name: a PyTorch Geometric batch keeps ``x`` in ``_store._mapping``.
    """
    for key, part in leaves(values, batch_items):
        if isinstance(part, torch.Tensor):
            yield re.sub("/_[^/]*", "", key).replace("/", "."), part
