"""The pipeline behind a DataLoader as MindInsight's data pages show it, and the facts of it that the lineage holds.

Only attributes and ``len()`` are read: no sample is fetched, no iterator made. Whatever cannot be found is left out,
and nothing here raises for a strange data set.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

from mindsummary_lightning.dataset.sampling import sampler_of, sampler_operation, shuffles
from mindsummary_lightning.dataset.sources import (
    StageBudget,
    length_of,
    path_of,
    source_graph,
    stage,
    wrapped_datasets,
)
from mindsummary_lightning.dataset.stage_parameters import dataset_class_name, read, shown_name
from mindsummary_lightning.values.lineage_info import INT32_MAX, DatasetGraph

__all__ = ["batch_size", "dataset_graph", "dataset_path", "dataset_size"]

_LOG = logging.getLogger(__name__)

_ENDLESS = -1  # as in MindSpore's Repeat
_MAX_DEPTH = 16


def dataset_graph(dataloader: Any) -> DatasetGraph | None:  # Any, here and below: a loader of any library
    """The pipeline of a loader, its last stage first: Repeat, Batch, Shuffle, Map, source.

    Args:
        dataloader: a ``DataLoader``, Lightning's ``CombinedLoader``, a list, tuple or dict of loaders, or anything that
            has a ``dataset`` or gives batches itself.

    Returns:
        None when there is nothing to show (no loader, an object that gives no batches).
    """
    try:
        return _loader_graph(dataloader, StageBudget())
    except Exception:  # one strange object among the user's must not cost more than this graph
        _LOG.debug("no data graph of %s", type(dataloader), exc_info=True)
        return None


def dataset_path(dataset: Any) -> str | None:
    """Where the samples of a data set lie: its own path, else the first one among the data sets it wraps."""
    waiting, seen = [dataset], 0
    while waiting and seen < _MAX_DEPTH:
        current, seen = waiting.pop(0), seen + 1
        if (path := path_of(current)) is not None:
            return path
        waiting += wrapped_datasets(current)
    return None


def dataset_size(dataloader: Any) -> int | None:
    """Number of samples in an epoch as MindSpore counts them: batches times batch size.

    Returns:
        None when the loader does not know its length or its batch size, or the number passes 32 bits.
    """
    size = batch_size(dataloader)
    batches = length_of(_first_loader(dataloader))
    if size is None or batches is None or batches * size > INT32_MAX:
        return None
    return batches * size


def batch_size(dataloader: Any) -> int | None:
    """Samples in a batch; of several loaders that of the first; None when the loader does not say."""
    loader = _first_loader(dataloader)
    for holder in (loader, read(loader, "batch_sampler")):
        size = read(holder, "batch_size")
        if isinstance(size, int) and not isinstance(size, bool) and 0 < size <= INT32_MAX:
            return size
    return 1 if _is_unbatched(loader) else None


def _is_unbatched(loader: Any) -> bool:
    """``DataLoader(batch_size=None)`` over a map-style data set: each sample is a step of its own."""
    return (
        read(loader, "dataset") is not None
        and hasattr(loader, "batch_size")
        and read(loader, "batch_size") is None
        and read(loader, "batch_sampler") is None
        and hasattr(type(loader.dataset), "__getitem__")
    )


def _several(loader: Any) -> list[tuple[str, Any]]:
    """(name, loader) of a collection of loaders; empty for a single one."""
    if type(loader).__name__ == "CombinedLoader":
        loader = read(loader, "iterables")
    if isinstance(loader, Mapping):
        pairs = [(str(name), inner) for name, inner in loader.items()]
    elif isinstance(loader, (list, tuple)):
        pairs = [(str(place), inner) for place, inner in enumerate(loader)]
    else:
        return []
    return pairs if pairs and all(read(inner, "dataset") is not None or _several(inner) for _, inner in pairs) else []


def _first_loader(loader: Any) -> Any:
    for _ in range(_MAX_DEPTH):
        inner = _several(loader)
        if not inner:
            break
        loader = inner[0][1]
    return loader


def _loader_graph(loader: Any, budget: StageBudget) -> DatasetGraph | None:
    if loader is None or not budget.enter(loader):
        return None
    try:
        parts = _several(loader)
        if parts:
            return _combined(loader, parts, budget)
        dataset = read(loader, "dataset")
        if dataset is None:
            return source_graph(loader, budget) if hasattr(type(loader), "__iter__") else None
        return _batched(loader, dataset, budget)
    finally:
        budget.leave()


def _combined(loader: Any, parts: list[tuple[str, Any]], budget: StageBudget) -> DatasetGraph:
    mode = read(loader, "_mode")
    graphs = [(name, graph) for name, part in parts if (graph := _loader_graph(part, budget)) is not None]
    children = [graph for _, graph in graphs]
    if mode == "max_size_cycle":  # all but the longest begin again
        lengths = [length_of(part) or math.inf for _, part in parts]
        children = [
            graph if length == max(lengths) else stage("RepeatDataset", {"count": _ENDLESS}, graph)
            for graph, length in zip(children, lengths, strict=False)
        ]
    fields = {"mode": str(mode), "loaders": [name for name, _ in graphs]}
    return stage(shown_name(type(loader).__name__), fields, *children)


def _batched(loader: Any, dataset: Any, budget: StageBudget) -> DatasetGraph | None:
    sampler = sampler_of(loader)
    graph = source_graph(dataset, budget, None if sampler is None else sampler_operation(sampler))
    if graph is None:
        return None
    if shuffles(sampler):
        graph = stage("ShuffleDataset", {"buffer_size": length_of(sampler) or length_of(dataset)}, graph)
    size = batch_size(loader)
    if size is None or read(loader, "batch_sampler", size) is None:  # batch_size=None: the data set gives batches
        return graph
    return stage("BatchDataset", _batch_fields(loader, size), graph)


def _batch_fields(loader: Any, size: int) -> dict[str, Any]:
    batch_sampler = read(loader, "batch_sampler")
    fields: dict[str, Any] = {
        "batch_size": size,
        "drop_remainder": bool(read(loader, "drop_last", False) or read(batch_sampler, "drop_last", False)),
        "num_parallel_workers": read(loader, "num_workers", 0),
    }
    if type(batch_sampler).__name__ not in ("BatchSampler", "NoneType"):
        fields["batch_sampler"] = dataset_class_name(batch_sampler)
    collate = read(loader, "collate_fn")
    name = str(read(collate, "__qualname__") or type(collate).__qualname__)
    if collate is not None and name not in ("default_collate", "default_convert"):
        fields["collate_fn"] = shown_name(name)
    for key in ("pin_memory", "persistent_workers", "prefetch_factor"):
        if (value := read(loader, key)) is not None:
            fields[key] = value
    return fields
