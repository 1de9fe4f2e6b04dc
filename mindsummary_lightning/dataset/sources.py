"""Data sets, from the outermost wrapper to the source of the samples, as stages of a pipeline."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from mindsummary_lightning.conversion.flattening import value_or_default
from mindsummary_lightning.dataset.stage_parameters import dataset_class_name, display_name, parameters_of, read
from mindsummary_lightning.dataset.transforms import map_operations, transforms_of
from mindsummary_lightning.values.lineage_info import DatasetGraph, Operation

MAX_STAGES = 200
"""Stages of one pipeline that are drawn; a concatenation of thousands of files would fill the page."""

_MAX_DEPTH = 24

# torchvision's class -> MindSpore's, which the data lineage page has a column for.
_MINDSPORE_NAMES = {
    "CIFAR10": "Cifar10Dataset",
    "CIFAR100": "Cifar100Dataset",
    "ImageFolder": "ImageFolderDataset",
    "MNIST": "MnistDataset",
    "VOCDetection": "VOCDataset",
    "VOCSegmentation": "VOCDataset",
}

# Names the pages read as stages of another kind; a Map without operations even stops their script.
_STAGE_NAMES = frozenset(f"{name}{end}" for name in ("Batch", "Map", "Repeat", "Shuffle") for end in ("", "Dataset"))


def claim_stage(part: Any, left: Iterator[int], outer: tuple[Any, ...]) -> bool:
    """Whether a data set or loader is drawn as one more stage of those that are ``left``, and counts as one.

    It is not if it is among those around it (``outer``): one may contain itself.
    """
    is_new = len(outer) < _MAX_DEPTH and all(part is not around for around in outer)
    return is_new and next(left, None) is not None


def stage(op_type: str, fields: Mapping[str, Any], *children: DatasetGraph) -> DatasetGraph:
    """A stage that is neither a Map nor a source."""
    return DatasetGraph({"op_type": op_type, **parameters_of(fields)}, children=children)


def source_graph(
    dataset: Any, left: Iterator[int], outer: tuple[Any, ...], sampler: Operation | None = None
) -> DatasetGraph | None:
    """A data set, what it wraps and the transforms of each, the last stage first; ``None`` without :func:`claim_stage`.

    The sampler is shown at the outermost data set.
    """
    if not claim_stage(dataset, left, outer):
        return None
    inner = wrapped_datasets(dataset)
    children = [graph for part in inner if (graph := source_graph(part, left, (*outer, dataset))) is not None]
    graph = _own_stage(dataset, tuple(children), len(inner) - len(children), sampler)
    for column, transform in transforms_of(dataset):
        if operations := map_operations(transform):
            fields = parameters_of({"op_type": "MapDataset", "input_columns": [column]})
            graph = DatasetGraph(fields, operations=operations, children=(graph,))
    return graph


def _own_stage(
    dataset: Any, children: tuple[DatasetGraph, ...], skipped: int, sampler: Operation | None
) -> DatasetGraph:
    found = {"dataset_dir": path_of(dataset), "num_samples": length_of(dataset), "datasets_skipped": skipped or None}
    fields = {
        "op_type": source_name(dataset),
        "dataset_class": dataset_class_name(dataset),
        **{key: value for key, value in found.items() if value is not None},
    }
    return DatasetGraph(parameters_of(fields), sampler=sampler, children=children)


def source_name(source: Any) -> str:
    """The type of the stage that a data set, or a loader without one, is drawn as."""
    name = type(source).__name__
    shown = _MINDSPORE_NAMES.get(name) or display_name(name)
    return f"{shown}Source" if shown in _STAGE_NAMES else shown


def wrapped_datasets(dataset: Any) -> list[Any]:
    """The data sets inside torch's Subset, ConcatDataset, ChainDataset and StackDataset, and wrappers built alike."""
    parts = read(dataset, "datasets")
    for inner in ([read(dataset, "dataset")], list(parts.values()) if isinstance(parts, dict) else parts):
        if isinstance(inner, (list, tuple)) and all(map(yields, inner)):
            return list(inner)
    return []


def yields(value: Any) -> bool:
    """Whether a value gives samples or batches: one by one, or by their numbers."""
    is_plain = value is None or isinstance(value, (str, bytes, os.PathLike))
    return not is_plain and (hasattr(type(value), "__getitem__") or hasattr(type(value), "__iter__"))


def length_of(dataset: Any) -> int | None:
    """``len()`` of a data set, sampler or loader; ``None`` if it has none, or the user's own fails."""
    length: int | None = value_or_default(None, len, dataset)
    return length


def path_of(dataset: Any) -> str | None:
    """The ``root`` of a data set, as torchvision's have it; of the data set itself and not of those that it wraps."""
    path = read(dataset, "root")
    return str(path) if isinstance(path, (str, os.PathLike)) and str(path) else None
