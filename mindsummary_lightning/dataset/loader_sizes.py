"""Find the batch size and the number of samples of a DataLoader.

The sizes that a loader states are checked against its batches. They may be wrong: a loader whose
data set yields whole batches states a batch size of 1. A size that does not fit a batch counts as
unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch

from mindsummary_lightning.conversion.flattening import Items, batch_items, leaves, value_or_default
from mindsummary_lightning.dataset.sources import length_of
from mindsummary_lightning.dataset.stage_parameters import safe_getattr
from mindsummary_lightning.values.lineage_info import INT32_MAX

# Any, in this module: loaders, samplers and batches of any class.
_MAX_DEPTH = 8  # of lists in a batch


class LoaderSizes(NamedTuple):
    """Number of samples in a batch and in an epoch; ``None`` if it is unknown."""

    batch_size: int | None
    dataset_size: int | None


UNKNOWN = LoaderSizes(None, None)


class CheckedSizes:
    """A DataLoader's batch size and number of samples, checked against its batches.

    A size counts until a batch contradicts it. If there are several loaders, the sizes are those of
    the first loader.

    ``max_batches`` is the largest number of batches in an epoch on each device
    (``limit_train_batches``). A loader may end earlier or later than it states, and batches may
    differ in size, so the second and the last batch of an epoch are checked too.
    """

    def __init__(self, dataloader: Any, batch: Any, max_batches: float = math.inf) -> None:
        loader, path = dataloader, []
        while parts := loaders_in(loader, batch):
            name, loader, batch = parts[0]
            path.append(name)
        self._path = path  # to the first loader's part of a batch
        self._last, self._rest = 0, 0  # number and size of an epoch's last batch
        self._read = 0  # batches of this epoch; none before its first one has been seen
        self.sizes: LoaderSizes = self._stated(inner_loader(loader), batch, max_batches)

    def see(self, index: int, batch: Any) -> None:
        """Check the sizes against a batch of an epoch.

        ``index`` is the number of the batch, from 0. Call it for every batch; it is cheap.
        """
        if index == 0:
            self._read = 1
        elif self._read:  # an epoch that is resumed within begins with the loader's first batch
            self._read += 1
            if self._path:  # one of several loaders may begin again before the others end
                index %= self._last + 1
            if self.sizes.dataset_size is not None and (index == 1 or index >= self._last):
                self._check(index, batch)

    def end_epoch(self) -> None:
        """Note the end of an epoch, and check the number of its batches."""
        if 0 < self._read <= self._last:
            self.sizes = self.sizes._replace(dataset_size=None)

    def _stated(self, loader: Any, batch: Any, max_batches: float) -> LoaderSizes:
        size = claimed_batch_size(loader)
        sampler = sampler_of(loader)
        dataset = safe_getattr(loader, "dataset")
        samples = length_of(sampler) if sampler is not None else length_of(dataset)
        if size is not None and samples:
            size = min(size, samples)
        if size is None or not fits(batch, size):
            return UNKNOWN
        batches = length_of(loader)
        if samples is None and batches is None:
            return LoaderSizes(size, None)
        limits: list[float] = [max_batches * size]
        if batches is not None:
            limits.append(batches * size)
        if samples is not None:
            limits.append(samples)
        count = int(min(limits))
        self._last, self._rest = (count - 1) // size, (count - 1) % size + 1
        devices = safe_getattr(sampler, "num_replicas", 1)
        # each of them repeats samples until all have the same number
        if isinstance(devices, int) and devices > 1:
            count = min(count * devices, length_of(dataset) or count * devices)
        return LoaderSizes(size, count if count <= INT32_MAX else None)

    def _check(self, index: int, batch: Any) -> None:
        for name in self._path:
            batch = dict(_items(batch)).get(name)
        if self._path and batch is None:  # other loaders have more
            return
        is_full = fits(batch, self.sizes.batch_size or 0)
        if index < self._last:
            self.sizes = self.sizes if is_full else UNKNOWN
        # One sample may be of any length: if others are expected in a batch, only a full one is
        # surely no such rest.
        elif index > self._last or not self._fits_rest(batch, is_full):
            self.sizes = self.sizes._replace(dataset_size=None)

    def _fits_rest(self, batch: Any, is_full: bool) -> bool:
        return fits(batch, self._rest) or (self._rest == 1 and not is_full)


def loaders_in(loader: Any, batch: Any = None) -> list[tuple[str, Any, Any]]:
    """Return the loaders of a collection, with their names and parts of a batch.

    The result is empty for a single loader.
    """
    if type(loader).__name__ == "CombinedLoader":
        loader = safe_getattr(loader, "iterables")
    if isinstance(loader, (list, tuple)):
        loader = dict(enumerate(loader))
    if not isinstance(loader, Mapping):
        return []
    loaders = {str(name): inner for name, inner in loader.items()}
    for inner in loaders.values():
        if safe_getattr(inner, "dataset") is None and not loaders_in(inner):
            return []
    batches = dict(_items(batch))
    return [(name, inner, batches.get(name)) for name, inner in loaders.items()]


def inner_loader(loader: Any) -> Any:
    """Return the DataLoader whose batches a wrapper around it passes on.

    A DataLoader is no data set, so an iterable whose ``dataset`` is a loader passes on the loader's
    batches.
    """
    for _ in range(_MAX_DEPTH):
        inner = safe_getattr(loader, "dataset")
        if safe_getattr(inner, "dataset") is None or not hasattr(inner, "batch_sampler"):
            break
        loader = inner
    return loader


def claimed_batch_size(loader: Any) -> int | None:
    """Return the batch size that a loader states; its batches may differ from it."""
    for holder in (loader, batch_sampler_of(loader)):
        size = safe_getattr(holder, "batch_size")
        if isinstance(size, int) and not isinstance(size, bool) and 0 < size <= INT32_MAX:
            return size
    # DataLoader(batch_size=None) over a map-style data set: each sample is a step of its own.
    has_no_batches = hasattr(loader, "batch_size") and batch_sampler_of(loader) is None
    is_map_style = hasattr(type(safe_getattr(loader, "dataset")), "__getitem__")
    return 1 if has_no_batches and is_map_style else None


def batch_sampler_of(loader: Any) -> Any:
    """Return the sampler of a loader that selects whole batches, or ``None``.

    It is ``batch_sampler``, or a ``sampler`` that selects batches (PyTorch's bulk loading).
    """
    batch_sampler, sampler = safe_getattr(loader, "batch_sampler"), safe_getattr(loader, "sampler")
    is_bulk = batch_sampler is None and safe_getattr(sampler, "sampler") is not None
    if is_bulk and safe_getattr(sampler, "batch_size") is not None:
        return sampler
    return batch_sampler


def sampler_of(loader: Any) -> Any:
    """Return the sampler of a loader that selects single samples, or ``None``.

    It may be inside a batch sampler.
    """
    sampler = safe_getattr(batch_sampler_of(loader), "sampler")
    if sampler is None:
        sampler = safe_getattr(loader, "sampler")
    # torch gives an iterable data set a sampler of this class, which picks nothing.
    if type(sampler).__name__ == "_InfiniteConstantSampler":
        return None
    return sampler


def fits(batch: Any, size: int) -> bool:
    """Tell whether a batch may contain a given number of samples.

    If the batch states its number of samples, this number counts (``num_graphs`` of PyTorch
    Geometric, ``batch_size`` of a TensorDict). Otherwise the first dimension of its tensors counts.
    If their lengths differ, a tensor or a list must have the given length. For a size of 1 this
    proves nothing, so then all lengths must be 1.
    """
    for name in ("num_graphs", "batch_size"):
        if isinstance(batch, torch.Tensor):
            break
        stated = safe_getattr(batch, name)
        if isinstance(stated, tuple) and stated:
            stated = stated[0]
        if isinstance(stated, int) and not isinstance(stated, bool):
            return stated == size
    lengths = {_length(part) for _, part in leaves({"batch": batch}, batch_items)}
    lengths.discard(None)
    if len(lengths) == 1 or size == 1:
        return lengths == {size}
    return size in lengths or size in _list_lengths(batch)


def _length(part: Any) -> int | None:
    if isinstance(part, torch.Tensor) and part.is_nested:
        return part.size(0)
    shape = safe_getattr(part, "shape")
    if isinstance(shape, tuple) and shape and isinstance(shape[0], int):
        return shape[0]
    return None


def _items(batch: Any) -> Items:
    return value_or_default(None, batch_items, batch) or []


def _list_lengths(batch: Any, depth: int = 0) -> Iterator[int]:
    if isinstance(batch, (list, tuple)):
        yield len(batch)
    for _, part in _items(batch) if depth < _MAX_DEPTH else []:
        yield from _list_lengths(part, depth + 1)
