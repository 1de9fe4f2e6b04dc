"""The pipeline behind a DataLoader: its stages for MindInsight's data pages, and path and sizes for the lineage.

Only attributes and ``len()`` are read: no sample is fetched and no iterator made. Whatever cannot be found is omitted,
and nothing here raises for an unusual data set.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

from mindsummary_lightning.dataset.sources import (
    Budget,
    length_of,
    path_of,
    source_graph,
    source_name,
    stage,
    wrapped_datasets,
    yields,
)
from mindsummary_lightning.dataset.stage_parameters import (
    dataset_class_name,
    display_name,
    parameters_of,
    public_fields,
    safe_getattr,
)
from mindsummary_lightning.values.lineage_info import INT32_MAX, DatasetGraph, Operation

_LOG = logging.getLogger(__name__)

_ENDLESS = -1  # as in MindSpore's Repeat
_MAX_DEPTH = 16
_MAX_WEIGHTS = 32


def dataset_graph(dataloader: Any) -> DatasetGraph | None:  # Any, here and below: a loader of any library
    """The pipeline of a loader, its last stage first: Repeat, Batch, Shuffle, Map, source.

    A loader is a ``DataLoader``, Lightning's ``CombinedLoader``, a list, tuple or dict of loaders, or anything else
    that has a ``dataset`` or yields batches itself; ``None`` for what yields none.
    """
    try:
        return _loader_graph(dataloader, Budget(), ())
    except Exception:  # one unusual object among the user's must not cost more than this graph
        _LOG.debug("no data graph of %s", type(dataloader), exc_info=True)
        return None


def dataset_path(dataset: Any) -> str | None:
    """Where the samples of a data set are stored: its own path, else the first one among the data sets it wraps."""
    waiting, seen = [dataset], 0
    while waiting and seen < _MAX_DEPTH:
        current, seen = waiting.pop(0), seen + 1
        if (path := path_of(current)) is not None:
            return path
        waiting += wrapped_datasets(current)
    return None


def dataset_size(dataloader: Any, max_batches: float = math.inf) -> int | None:
    """Number of samples that an epoch reads on all devices together, of several loaders that of the first.

    At most ``max_batches`` on each device, as ``limit_train_batches`` has them. ``None`` when neither the data set nor
    the loader knows its length, the loader does not state its batch size, or the number exceeds 32 bits.
    """
    loader = _first_loader(dataloader)
    size, sampler, dataset = batch_size(loader), _sampler_of(loader), safe_getattr(loader, "dataset")
    samples = length_of(sampler) if sampler is not None else length_of(dataset)
    batches = length_of(loader)
    if size is None or (samples is None and batches is None):
        return None
    counts = [math.inf if batches is None else batches * size, math.inf if samples is None else samples]
    count = int(min(*counts, max_batches * size))
    devices = safe_getattr(sampler, "num_replicas", 1)
    if isinstance(devices, int) and devices > 1:  # each of them repeats samples until all have the same number
        count = min(count * devices, length_of(dataset) or count * devices)
    return count if count <= INT32_MAX else None


def batch_size(dataloader: Any) -> int | None:
    """Samples in a batch; of several loaders that of the first; None when the loader does not state it."""
    loader = _first_loader(dataloader)
    for holder in (loader, safe_getattr(loader, "batch_sampler")):
        size = safe_getattr(holder, "batch_size")
        if isinstance(size, int) and not isinstance(size, bool) and 0 < size <= INT32_MAX:
            return size
    return 1 if _is_unbatched(loader) else None


def _is_unbatched(loader: Any) -> bool:
    """``DataLoader(batch_size=None)`` over a map-style data set: each sample is a step of its own."""
    has_no_batches = hasattr(loader, "batch_size") and safe_getattr(loader, "batch_sampler") is None
    return has_no_batches and hasattr(type(safe_getattr(loader, "dataset")), "__getitem__")


def _several(loader: Any) -> list[tuple[str, Any]]:
    """(name, loader) of a collection of loaders; empty for a single one."""
    if type(loader).__name__ == "CombinedLoader":
        loader = safe_getattr(loader, "iterables")
    if isinstance(loader, (list, tuple)):
        loader = dict(enumerate(loader))
    pairs = [(str(name), inner) for name, inner in loader.items()] if isinstance(loader, Mapping) else []
    return (
        pairs
        if pairs and all(safe_getattr(inner, "dataset") is not None or _several(inner) for _, inner in pairs)
        else []
    )


def _first_loader(loader: Any) -> Any:
    parts = _several(loader)
    return _first_loader(parts[0][1]) if parts else loader


def _loader_graph(loader: Any, budget: Budget, outer: tuple[Any, ...]) -> DatasetGraph | None:
    if loader is None or not budget.claim_stage(loader, outer):
        return None
    outer = (*outer, loader)
    if parts := _several(loader):
        return _combined(loader, parts, budget, outer)
    dataset = safe_getattr(loader, "dataset")
    if dataset is not None:
        return _batched(loader, dataset, budget, outer)
    fields = {"dataset_class": dataset_class_name(loader), "num_batches": length_of(loader)}
    return stage(source_name(loader), fields) if yields(loader) else None


def _combined(loader: Any, parts: list[tuple[str, Any]], budget: Budget, outer: tuple[Any, ...]) -> DatasetGraph:
    mode = safe_getattr(loader, "_mode")  # Lightning has no public name for it
    longest = max(_batches(part) for _, part in parts)
    names, children = [], []
    for name, part in parts:
        graph = _loader_graph(part, budget, outer)
        if graph is not None:
            is_repeated = mode == "max_size_cycle" and _batches(part) < longest
            names.append(name)
            children.append(stage("RepeatDataset", {"count": _ENDLESS}, graph) if is_repeated else graph)
    fields = {"loaders": names} if mode is None else {"mode": str(mode), "loaders": names}
    return stage(display_name(type(loader).__name__), fields, *children)


def _batches(loader: Any) -> float:
    length = length_of(loader)
    return math.inf if length is None else length


def _batched(loader: Any, dataset: Any, budget: Budget, outer: tuple[Any, ...]) -> DatasetGraph | None:
    sampler = _sampler_of(loader)
    graph = source_graph(dataset, budget, outer, None if sampler is None else _sampler_operation(sampler))
    if graph is None:
        return None
    if _shuffles(sampler):
        graph = stage("ShuffleDataset", {"buffer_size": length_of(sampler) or length_of(dataset)}, graph)
    size = batch_size(loader)
    if (
        size is None or safe_getattr(loader, "batch_sampler", size) is None
    ):  # batch_size=None: the data set yields batches
        return graph
    return stage("BatchDataset", _batch_fields(loader, size), graph)


def _batch_fields(loader: Any, size: int) -> dict[str, Any]:
    batch_sampler = safe_getattr(loader, "batch_sampler")
    fields: dict[str, Any] = {
        "batch_size": size,
        "drop_remainder": bool(
            safe_getattr(loader, "drop_last", False) or safe_getattr(batch_sampler, "drop_last", False)
        ),
        "num_parallel_workers": safe_getattr(loader, "num_workers", 0),
    }
    if type(batch_sampler).__name__ not in ("BatchSampler", "NoneType"):
        fields["batch_sampler"] = dataset_class_name(batch_sampler)
    collate = safe_getattr(loader, "collate_fn")
    name = str(safe_getattr(collate, "__qualname__") or type(collate).__qualname__)
    if collate is not None and name not in ("default_collate", "default_convert"):
        fields["collate_fn"] = display_name(name)
    for key in ("pin_memory", "persistent_workers", "prefetch_factor"):
        if (value := safe_getattr(loader, key)) is not None:
            fields[key] = value
    return fields


def _sampler_of(loader: Any) -> Any:  # Any: a loader of any class
    """The sampler that picks single samples, also that inside a batch sampler; ``None`` if there is none."""
    sampler = safe_getattr(safe_getattr(loader, "batch_sampler"), "sampler")
    sampler = safe_getattr(loader, "sampler") if sampler is None else sampler
    # torch gives an iterable data set a sampler of this class, which picks nothing.
    return None if type(sampler).__name__ == "_InfiniteConstantSampler" else sampler


def _shuffles(sampler: Any) -> bool:
    """Whether the samples come in random order."""
    shuffle = safe_getattr(sampler, "shuffle")  # torch's DistributedSampler
    return shuffle if isinstance(shuffle, bool) else "Random" in type(_innermost(sampler)).__name__


def _sampler_operation(sampler: Any) -> Operation:
    """The sampler as the ``sampler`` of a data source: its class and the numbers and texts it holds."""
    inner = _innermost(sampler)
    fields: dict[str, Any] = {"sampler_name": display_name(type(sampler).__name__)}
    if inner is not sampler:
        fields["wraps"] = display_name(type(inner).__name__)
    for part in (inner, sampler):
        values = public_fields(part)
        fields |= {name: value for name, value in values.items() if isinstance(value, (bool, int, float, str))}
        if isinstance(count := safe_getattr(part, "num_samples"), int):
            fields["num_samples"] = count
    return Operation(parameters_of(fields), weights=_weights(inner))


def _innermost(sampler: Any) -> Any:
    """The sampler whose choice Lightning's wrapper shares out among devices."""
    inner = safe_getattr(safe_getattr(sampler, "dataset"), "_sampler")
    return sampler if inner is None else inner


def _weights(sampler: Any) -> tuple[float, ...]:
    weights = safe_getattr(sampler, "weights")
    try:
        return tuple(float(weight) for weight in weights) if 0 < len(weights) <= _MAX_WEIGHTS else ()
    except (TypeError, ValueError):
        return ()
