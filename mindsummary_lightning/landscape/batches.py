"""The samples a landscape is computed on: read once, kept as tensors, joined into larger batches on demand.

A batch is whatever the loader yields: a tensor, or tuples, lists, mappings and objects that hold tensors. Nothing here
runs a network.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten  # torch 2.5 to 2.15

from mindsummary_lightning.conversion.flattening import batch_items, leaves
from mindsummary_lightning.landscape.loaders import batches_of, loader_of, seeded
from mindsummary_lightning.landscape.plane import strided_parts


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch and its number of samples, the weight of its loss in the mean."""

    data: Any
    samples: int


def take_batches(data: Any, num_samples: int, seed: int) -> tuple[Batch, ...]:
    """The first complete batches of ``data`` with at most ``num_samples`` samples together, but at least one batch.

    A loader's random generators are seeded while it is read, so that a shuffling one gives the same samples each time.
    """
    loader = loader_of(data)
    batches: list[Batch] = []
    with seeded(loader, seed):
        for item in batches_of(loader):
            samples = _samples(item)
            if batches and sum(batch.samples for batch in batches) + samples > num_samples:
                break
            batches.append(Batch(item, samples))
            if sum(batch.samples for batch in batches) >= num_samples:
                break
    if not batches:
        raise ValueError("the dataloader is empty: a landscape needs at least one batch to compute losses on")
    return tuple(batches)


def joined(batches: tuple[Batch, ...], max_samples: int) -> tuple[Batch, ...]:
    """Neighbouring batches joined along their first dimension while a joined one has at most ``max_samples``.

    Batches that cannot be joined (other shapes, entries that are not tensors, unequal first dimensions) stay apart.
    """
    result: list[Batch] = []
    group: list[Batch] = []
    for batch in batches:
        count = sum(one.samples for one in (*group, batch))
        layout = _layout(batch)
        if group and (count > max_samples or layout is None or layout != _layout(group[0])):
            result.append(_join(group))
            group = []
        group.append(batch)
    return (*result, _join(group))


def digest(data: Sequence[Any]) -> str:
    """A hash of every element of some batches, to recognise rows that were computed on the same samples."""
    sha = hashlib.sha256()
    for name, leaf in leaves({"batches": data}, batch_items):
        sha.update(f"{name}{leaf if isinstance(leaf, (str, int, float)) else type(leaf).__name__}".encode())
        for part in strided_parts(leaf) if isinstance(leaf, Tensor) else ():
            own = part.detach().cpu().contiguous()
            sha.update(f"{own.dtype}{tuple(own.shape)}".encode())
            sha.update(own.flatten().view(torch.uint8).numpy().data if own.numel() else b"")
    return sha.hexdigest()


def tensors_in_batch(data: Any) -> Iterator[Tensor]:
    """Every tensor in nested tuples, lists, mappings and objects."""
    return (part for _, part in leaves({"batch": data}, batch_items) if isinstance(part, Tensor))


def _samples(data: Any) -> int:
    for tensor in tensors_in_batch(data):
        if tensor.ndim and len(tensor):
            return len(tensor)
    raise ValueError(f"a batch of type {type(data).__name__} has no tensor with a batch dimension")


def _layout(batch: Batch) -> Any:
    """What batches have in common that can be joined; ``None`` if this one cannot be joined with any."""
    leaves_of_batch, structure = tree_flatten(batch.data)
    for leaf in leaves_of_batch:
        is_plain = type(leaf) is Tensor and leaf.layout == torch.strided
        if not is_plain or not leaf.ndim or len(leaf) != batch.samples:
            return None
    return structure, [(leaf.dtype, leaf.device, leaf.shape[1:]) for leaf in leaves_of_batch]


def _join(group: list[Batch]) -> Batch:
    if len(group) == 1:
        return group[0]
    columns = zip(*(tree_flatten(batch.data)[0] for batch in group), strict=True)
    data = tree_unflatten(map(torch.cat, columns), tree_flatten(group[0].data)[1])
    return Batch(data, sum(batch.samples for batch in group))
