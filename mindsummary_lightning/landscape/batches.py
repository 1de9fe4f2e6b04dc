"""Read the samples for a loss landscape from a data loader, and batch them.

They are read once, kept as tensors, and joined into larger batches on demand.

A batch is anything that the loader yields: a tensor, or tuples, lists, mappings and objects that
hold tensors. The loader is read as Lightning would read it, with seeded random generators. This
module runs no network.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from lightning.fabric.utilities import move_data_to_device
from lightning.pytorch.utilities.combined_loader import CombinedLoader
from torch import Tensor
from torch.utils import _pytree  # torch 2.5 to 2.15
from torch.utils.data import DataLoader

from mindsummary_lightning.conversion.flattening import batch_items, leaves
from mindsummary_lightning.landscape.plane import PROCESS_STATE, strided_parts

_MAX_PARTS = 100  # of a list or mapping: a longer one holds data, not samplers
_MAX_DEPTH = 6  # a loader's batch sampler's sampler; a loader over a loader


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch, and the number of its samples, by which its loss is weighted."""

    data: Any
    samples: int


def take_batches(data: Any, num_samples: int, seed: int) -> tuple[Batch, ...]:
    """Read batches from the start of a loader until they have ``num_samples`` samples.

    The batches have at most ``num_samples`` samples together, but there is at least one batch.

    The random generators of the loader are seeded while it is read, so that a shuffling loader
    gives the same samples each time.

    Raises:
        ValueError: the loader is empty, or a batch has no tensor with a batch dimension.
    """
    loader = _loader_of(data)
    batches: list[Batch] = []
    taken = 0
    with _seeded(loader, seed):
        for item in loader:
            # A CombinedLoader, of either package, gives triples that begin with the batch.
            batch = item[0] if _is_a(loader, "CombinedLoader") else item
            samples = _samples(batch)
            if batches and taken + samples > num_samples:
                break
            batches.append(Batch(batch, samples))
            taken += samples
            if taken >= num_samples:
                break
    if not batches:
        raise ValueError(
            "the dataloader is empty: a landscape needs at least one batch to compute losses on"
        )
    return tuple(batches)


def joined(batches: tuple[Batch, ...], max_samples: int) -> tuple[Batch, ...]:
    """Join neighbouring batches along their first dimension.

    A joined batch has at most ``max_samples`` samples.

    Some batches cannot be joined: batches of other shapes, with entries that are not tensors, or
    with unequal first dimensions. They stay as they are.
    """
    result: list[Batch] = []
    group: list[Batch] = []
    for batch in batches:
        count = batch.samples + sum(member.samples for member in group)
        layout = _layout(batch)
        if group and (count > max_samples or layout is None or layout != _layout(group[0])):
            result.append(_join(group))
            group = []
        group.append(batch)
    return (*result, _join(group))


def digest(data: Any) -> str:
    """Hash all elements of nested values, tensors included; return a hexadecimal text.

    The hash recognises rows of a landscape that were computed on the same values.
    """
    sha = hashlib.sha256()
    for name, leaf in leaves({"data": data}, batch_items):
        content = leaf if isinstance(leaf, (str, int, float)) else type(leaf).__name__
        sha.update(f"{name}{content}".encode())
        if not isinstance(leaf, Tensor):
            continue
        for part in strided_parts(leaf):
            own = part.detach().cpu().contiguous()
            sha.update(f"{own.dtype}{tuple(own.shape)}".encode())
            if own.numel():
                sha.update(own.flatten().view(torch.uint8).numpy().data)
    return sha.hexdigest()


def tensors_in_batch(data: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested tuples, lists, mappings and objects."""
    return (part for _, part in leaves({"batch": data}, batch_items) if isinstance(part, Tensor))


def is_datamodule(data: Any) -> bool:
    """Tell whether an object is a LightningDataModule of any Lightning package."""
    return _is_a(data, "LightningDataModule")


def move_batch(batch: Any, device: torch.device) -> Any:
    """Move the tensors of a batch to a device, as Lightning does."""
    return move_data_to_device(batch, device)


def _samples(data: Any) -> int:
    for tensor in tensors_in_batch(data):
        if tensor.ndim and len(tensor):
            return len(tensor)
    raise ValueError(f"a batch of type {type(data).__name__} has no tensor with a batch dimension")


def _layout(batch: Batch) -> Any:
    """Return the structure, dtypes, devices and shapes that joined batches must share.

    The result is ``None`` if this batch cannot be joined.
    """
    parts, structure = _pytree.tree_flatten(batch.data)
    for part in parts:
        is_plain = type(part) is Tensor and part.layout == torch.strided
        if not is_plain or not part.ndim or len(part) != batch.samples:
            return None
    return structure, [(part.dtype, part.device, part.shape[1:]) for part in parts]


def _join(group: list[Batch]) -> Batch:
    if len(group) == 1:
        return group[0]
    columns = zip(*(_pytree.tree_flatten(batch.data)[0] for batch in group), strict=True)
    data = _pytree.tree_unflatten(map(torch.cat, columns), _pytree.tree_flatten(group[0].data)[1])
    return Batch(data, sum(batch.samples for batch in group))


def _loader_of(data: Any) -> Iterable[Any]:
    """Return the iterable of batches of a loader, several loaders, or a data module.

    Several loaders (a dict, list or tuple) are combined as Lightning combines them in training.

    A LightningDataModule is set up for a fit and gives its training loader.
    """
    if is_datamodule(data):
        data.prepare_data()
        data.setup("fit")
        data = data.train_dataloader()
    parts = list(data.values()) if isinstance(data, Mapping) else data
    has_parts = isinstance(parts, (list, tuple)) and bool(parts)
    if has_parts and all(isinstance(part, DataLoader) for part in parts):
        return CombinedLoader(data, "max_size_cycle")
    return data  # type: ignore[no-any-return]  # iterating over anything else raises


def _is_a(value: Any, name: str) -> bool:
    return any(kind.__name__ == name for kind in type(value).__mro__)


@contextmanager
def _seeded(loader: Any, seed: int) -> Iterator[None]:
    """Seed the random generators within a ``with`` block, and restore them afterwards.

    They are the global generators, and the generators of a loader and its samplers.
    """
    with PROCESS_STATE, ExitStack() as restored:
        restored.enter_context(torch.random.fork_rng(devices=[]))
        torch.manual_seed(seed)
        for generator in (random, np.random, *_generators(loader)):
            restored.callback(_seed(generator, seed))
        yield


def _seed(generator: Any, seed: int) -> Callable[[], Any]:
    """Seed a random generator; return a function that restores its earlier state."""
    if isinstance(generator, torch.Generator):
        state = generator.get_state()
        generator.manual_seed(seed)
        return lambda: generator.set_state(state)
    if isinstance(generator, np.random.Generator):
        bits: Any = generator.bit_generator
        before, bits.state = bits.state, type(bits)(seed).state
        return lambda: setattr(bits, "state", before)
    is_numpy = generator is np.random or isinstance(generator, np.random.RandomState)
    read, write = (
        (generator.get_state, generator.set_state)
        if is_numpy
        else (generator.getstate, generator.setstate)
    )
    state = read()
    generator.seed(seed % 2**32)
    return lambda: write(state)


def _generators(value: Any, depth: int = 0) -> Iterator[Any]:
    if isinstance(
        value, (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
    ):
        yield value
        return
    if depth == _MAX_DEPTH:
        return
    parts: Iterable[Any] = ()
    if isinstance(value, (list, tuple, Mapping)):
        if len(value) < _MAX_PARTS:
            parts = value.values() if isinstance(value, Mapping) else value
    elif hasattr(value, "__dict__") and not isinstance(value, (type, Tensor)):
        parts = vars(value).values()
    for part in parts:
        yield from _generators(part, depth + 1)
