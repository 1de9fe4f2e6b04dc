"""Describe the data pipeline of a DataLoader for MindInsight's data pages.

It also finds the path of the data for the lineage.

Only attributes and ``len()`` are read: no sample is fetched and no iterator created. Facts that
cannot be found are omitted, and an unusual data set raises no error.
"""

from __future__ import annotations

import logging
import math
from typing import Any

from mindsummary_lightning.dataset.loader_sizes import (
    CheckedSizes,
    batch_sampler_of,
    claimed_batch_size,
    inner_loader,
    loaders_in,
    sampler_of,
)
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
from mindsummary_lightning.values.limits import FLOAT32_MAX
from mindsummary_lightning.values.lineage_info import DatasetGraph, Operation

_LOG = logging.getLogger(__name__)

_ENDLESS = -1  # as in MindSpore's Repeat
_MAX_DEPTH = 16
_MAX_WEIGHTS = 32


# Any, here and below: of any library
def dataset_graph(dataloader: Any, batch: Any) -> DatasetGraph | None:
    """Return the data pipeline of a loader as a graph, with the last stage as root.

    The stages are Repeat, Batch, Shuffle, Map, source.

    A loader is a ``DataLoader``, Lightning's ``CombinedLoader``, a list, tuple or dict of loaders,
    or anything else that has a ``dataset`` or yields batches itself; for any other object the
    result is ``None``. The batch size is omitted if the first batch ``batch`` has another size.
    """
    try:
        return _loader_graph(dataloader, batch, Budget(), ())
    except Exception:  # one unusual object among the user's must not cost more than this graph
        _LOG.debug("no data graph of %s", type(dataloader), exc_info=True)
        return None


def dataset_path(dataset: Any) -> str | None:
    """Return the path where the samples of a data set are stored, or ``None``.

    It is the data set's own path, or the first path among the data sets that it wraps.
    """
    waiting, seen = [dataset], 0
    while waiting and seen < _MAX_DEPTH:
        current, seen = waiting.pop(0), seen + 1
        if (path := path_of(current)) is not None:
            return path
        waiting += wrapped_datasets(current)
    return None


def _loader_graph(
    loader: Any, batch: Any, budget: Budget, outer: tuple[Any, ...]
) -> DatasetGraph | None:
    loader = inner_loader(loader)
    if loader is None or not budget.claim_stage(loader, outer):
        return None
    outer = (*outer, loader)
    if parts := loaders_in(loader, batch):
        return _combined(loader, parts, budget, outer)
    dataset = safe_getattr(loader, "dataset")
    if dataset is not None:
        return _batched(loader, dataset, batch, budget, outer)
    fields: dict[str, Any] = {"dataset_class": dataset_class_name(loader)}
    if (length := length_of(loader)) is not None:
        fields["num_batches"] = length
    if yields(loader):
        return stage(source_name(loader), fields)
    return None


def _combined(
    loader: Any, parts: list[tuple[str, Any, Any]], budget: Budget, outer: tuple[Any, ...]
) -> DatasetGraph:
    mode = safe_getattr(loader, "_mode")  # Lightning has no public name for it
    longest = max(_batches(part) for _, part, _ in parts)
    names, children = [], []
    for name, part, batch in parts:
        graph = _loader_graph(part, batch, budget, outer)
        if graph is not None:
            is_repeated = mode == "max_size_cycle" and _batches(part) < longest
            names.append(name)
            children.append(
                stage("RepeatDataset", {"count": _ENDLESS}, graph) if is_repeated else graph
            )
    fields = {"loaders": names} if mode is None else {"mode": str(mode), "loaders": names}
    return stage(display_name(type(loader).__name__), fields, *children)


def _batches(loader: Any) -> float:
    length = length_of(loader)
    return math.inf if length is None else length


def _batched(
    loader: Any, dataset: Any, batch: Any, budget: Budget, outer: tuple[Any, ...]
) -> DatasetGraph | None:
    sampler = sampler_of(loader)
    graph = source_graph(
        dataset, budget, outer, None if sampler is None else _sampler_operation(sampler)
    )
    if graph is None:
        return None
    if _shuffles(sampler):
        graph = stage(
            "ShuffleDataset", {"buffer_size": length_of(sampler) or length_of(dataset)}, graph
        )
    batch_sampler = batch_sampler_of(loader)
    if claimed_batch_size(loader) is None or (
        batch_sampler is None and hasattr(loader, "batch_sampler")
    ):
        return graph  # batch_size=None: the data set yields batches
    size = CheckedSizes(loader, batch).sizes.batch_size
    fields = {} if size is None else {"batch_size": size}
    return stage("BatchDataset", fields | _batch_fields(loader, batch_sampler), graph)


def _batch_fields(loader: Any, batch_sampler: Any) -> dict[str, Any]:
    drops = safe_getattr(loader, "drop_last", False) or safe_getattr(
        batch_sampler, "drop_last", False
    )
    workers = safe_getattr(loader, "num_workers", 0)
    fields: dict[str, Any] = {"drop_remainder": bool(drops), "num_parallel_workers": workers}
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


def _shuffles(sampler: Any) -> bool:
    """Tell whether a sampler selects the samples in random order."""
    shuffle = safe_getattr(sampler, "shuffle")  # torch's DistributedSampler
    if isinstance(shuffle, bool):
        return shuffle
    return "Random" in type(_innermost(sampler)).__name__


def _sampler_operation(sampler: Any) -> Operation:
    """Describe a sampler for the ``sampler`` field of a data source.

    The description has its class, and its attributes that are numbers or texts.
    """
    inner = _innermost(sampler)
    fields: dict[str, Any] = {"sampler_name": display_name(type(sampler).__name__)}
    if inner is not sampler:
        fields["wraps"] = display_name(type(inner).__name__)
    for part in (inner, sampler):
        values = public_fields(part)
        fields |= {
            name: value
            for name, value in values.items()
            if isinstance(value, (bool, int, float, str))
        }
        if isinstance(count := safe_getattr(part, "num_samples"), int):
            fields["num_samples"] = count
    return Operation(parameters_of(fields), weights=_weights(inner))


def _innermost(sampler: Any) -> Any:
    """Return the user's sampler inside Lightning's wrapper for several devices."""
    inner = safe_getattr(safe_getattr(sampler, "dataset"), "_sampler")
    return sampler if inner is None else inner


def _weights(sampler: Any) -> tuple[float, ...]:
    weights = safe_getattr(sampler, "weights")
    try:
        numbers = (
            tuple(float(weight) for weight in weights) if 0 < len(weights) <= _MAX_WEIGHTS else ()
        )
    except (TypeError, ValueError, OverflowError):
        return ()
    if all(abs(number) <= FLOAT32_MAX for number in numbers):
        return numbers
    return ()
