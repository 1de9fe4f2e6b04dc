"""Data sets, from the outermost wrapper to the source of the samples, as stages of a pipeline."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from mindsummary_lightning.dataset.stage_parameters import dataset_class_name, parameters_of, read, shown_name
from mindsummary_lightning.dataset.transforms import map_operations, transforms_of
from mindsummary_lightning.values.lineage_info import DatasetGraph, Operation

__all__ = ["MAX_STAGES", "StageBudget", "length_of", "path_of", "source_graph", "stage", "wrapped_datasets"]

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


class StageBudget:
    """Number of stages that may still be drawn, and the objects being drawn (a data set may contain itself)."""

    def __init__(self) -> None:
        self._left = MAX_STAGES
        self._open: list[int] = []

    @contextlib.contextmanager
    def room_for(self, dataset: Any) -> Iterator[bool]:
        """Whether there is room for this object; it counts as being drawn until the context ends."""
        if self._left <= 0 or len(self._open) >= _MAX_DEPTH or id(dataset) in self._open:
            yield False
            return
        self._left -= 1
        self._open.append(id(dataset))
        try:
            yield True
        finally:
            self._open.pop()


def stage(op_type: str, fields: Mapping[str, Any], *children: DatasetGraph) -> DatasetGraph:
    """A stage that is neither a Map nor a source."""
    return DatasetGraph({"op_type": op_type, **parameters_of(fields)}, children=children)


def source_graph(dataset: Any, budget: StageBudget, sampler: Operation | None = None) -> DatasetGraph | None:
    """A data set, what it wraps and the transforms of each, the last stage first.

    Args:
        dataset: any object that yields samples.
        budget: counts the stages.
        sampler: shown at the outermost data set.

    Returns:
        None when the budget is spent or the data set is inside itself.
    """
    with budget.room_for(dataset) as has_room:
        if not has_room:
            return None
        inner = wrapped_datasets(dataset)
        children = [graph for part in inner if (graph := source_graph(part, budget)) is not None]
        graph = _own_stage(dataset, tuple(children), len(inner) - len(children), sampler)
        for column, transform in transforms_of(dataset):
            if operations := map_operations(transform):
                fields = parameters_of({"op_type": "MapDataset", "input_columns": [column]})
                graph = DatasetGraph(fields, operations=operations, children=(graph,))
        return graph


def _own_stage(
    dataset: Any, children: tuple[DatasetGraph, ...], skipped: int, sampler: Operation | None
) -> DatasetGraph:
    name = type(dataset).__name__
    fields: dict[str, Any] = {"dataset_class": dataset_class_name(dataset)}
    if (path := path_of(dataset)) is not None:
        fields["dataset_dir"] = path
    if (length := length_of(dataset)) is not None:
        fields["num_samples"] = length
    if skipped:
        fields["datasets_skipped"] = skipped
    shown = _MINDSPORE_NAMES.get(name) or shown_name(name)
    op_type = f"{shown}Source" if shown in _STAGE_NAMES else shown
    return DatasetGraph({"op_type": op_type, **parameters_of(fields)}, sampler=sampler, children=children)


def wrapped_datasets(dataset: Any) -> list[Any]:
    """The data sets inside torch's Subset, ConcatDataset, ChainDataset and StackDataset, and wrappers built alike."""
    inner = read(dataset, "dataset")
    if _yields_samples(inner):
        return [inner]
    several = read(dataset, "datasets")
    parts = list(several.values()) if isinstance(several, dict) else several
    is_wrapper = isinstance(parts, (list, tuple)) and all(map(_yields_samples, parts))
    return list(parts) if is_wrapper else []


def _yields_samples(value: Any) -> bool:
    is_plain = value is None or isinstance(value, (str, bytes, os.PathLike))
    return not is_plain and (hasattr(type(value), "__getitem__") or hasattr(type(value), "__iter__"))


def length_of(dataset: Any) -> int | None:
    """``len()`` of a data set, sampler or loader, if it has one."""
    try:
        return len(dataset)
    except Exception:  # no __len__, or the user's own fails
        return None


def path_of(dataset: Any) -> str | None:
    """The ``root`` of a data set, as torchvision's have it; of the data set itself and not of those that it wraps."""
    path = read(dataset, "root")
    return str(path) if isinstance(path, (str, os.PathLike)) and str(path) else None
