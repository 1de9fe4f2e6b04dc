"""Data sets, from the outermost wrapper to where the samples come from, as stages of a pipeline."""

from __future__ import annotations

import os
from collections.abc import Mapping
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
_STAGE_NAMES = frozenset(
    f"{name}{suffix}" for name in ("Batch", "Map", "Repeat", "Shuffle") for suffix in ("", "Dataset")
)
_INNER = ("dataset", "base_dataset", "source_dataset", "datapipe", "source_datapipe", "main_datapipe")
_INNERS = ("datasets", "datapipes")
_PATHS = (
    "root", "path", "data_path", "data_dir", "dataset_dir", "root_dir", "data_root", "folder", "directory",
    "image_dir", "img_dir", "filename", "file_path", "file",
)  # fmt: skip


class StageBudget:
    """How many stages may still be drawn, and which objects are being drawn already (a data set may hold itself)."""

    def __init__(self, stages: int = MAX_STAGES) -> None:
        self.left = stages
        self.open: list[int] = []

    def enter(self, dataset: Any) -> bool:
        """Whether there is room for one more; ends with ``leave``."""
        if self.left <= 0 or len(self.open) >= _MAX_DEPTH or id(dataset) in self.open:
            return False
        self.left -= 1
        self.open.append(id(dataset))
        return True

    def leave(self) -> None:
        """The data set that ``enter`` let in is drawn."""
        self.open.pop()


def stage(op_type: str, fields: Mapping[str, Any], *children: DatasetGraph) -> DatasetGraph:
    """A stage that is neither a Map nor a source."""
    return DatasetGraph({"op_type": op_type, **parameters_of(fields)}, children=children)


def source_graph(dataset: Any, budget: StageBudget, sampler: Operation | None = None) -> DatasetGraph | None:
    """A data set, what it wraps and the transforms of each, the last stage first.

    Args:
        dataset: any object that gives samples.
        budget: counts the stages.
        sampler: shown at the outermost data set.

    Returns:
        None when the budget is spent or the data set is inside itself.
    """
    if not budget.enter(dataset):
        return None
    try:
        inner = wrapped_datasets(dataset)
        children = [graph for part in inner if (graph := source_graph(part, budget)) is not None]
        graph = _own_stage(dataset, tuple(children), len(inner) - len(children), sampler)
        for name, transform in transforms_of(dataset):
            if operations := map_operations(transform):
                fields = {"op_type": "MapDataset", "input_columns": _columns(name)}
                graph = DatasetGraph(parameters_of(fields), operations=operations, children=(graph,))
        return graph
    finally:
        budget.leave()


def _columns(field: str) -> list[str]:
    return ["target"] if field == "target_transform" else ["input"]


def _own_stage(
    dataset: Any, children: tuple[DatasetGraph, ...], left_out: int, sampler: Operation | None
) -> DatasetGraph:
    name = type(dataset).__name__
    pipe = _datapipe_stage(dataset, children)
    if pipe is not None:
        return pipe
    times = read(dataset, "times", read(dataset, "repeats"))
    if children and isinstance(times, int) and not isinstance(times, bool):
        return stage("RepeatDataset", {"count": times}, *children)
    fields: dict[str, Any] = {"dataset_class": dataset_class_name(dataset)}
    if (path := path_of(dataset)) is not None:
        fields["dataset_dir"] = path
    if (length := length_of(dataset)) is not None:
        fields["num_samples"] = length
    for key in ("split", "builder_name", "config_name", "column_names"):  # HuggingFace; ``split`` also torchvision
        if (value := read(dataset, key)) is not None and not callable(value):
            fields[key] = value if isinstance(value, list) else str(value)
    if left_out:
        fields["datasets_left_out"] = left_out
    shown = _MINDSPORE_NAMES.get(name) or shown_name(name)
    op_type = f"{shown}Source" if shown in _STAGE_NAMES else shown
    return DatasetGraph({"op_type": op_type, **parameters_of(fields)}, sampler=sampler, children=children)


def _datapipe_stage(dataset: Any, children: tuple[DatasetGraph, ...]) -> DatasetGraph | None:
    """Torch's DataPipes name their stages by class: Mapper, Batcher, Shuffler."""
    name = type(dataset).__name__
    if not name.endswith("DataPipe") or not children:
        return None
    if name.startswith("Mapper"):
        operations = map_operations(read(dataset, "fn"))
        return DatasetGraph({"op_type": "MapDataset"}, operations=operations, children=children)
    if name.startswith("Batcher"):
        fields = {"batch_size": read(dataset, "batch_size"), "drop_remainder": bool(read(dataset, "drop_last", False))}
        return stage("BatchDataset", fields, *children)
    if name.startswith("Shuffler"):
        return stage("ShuffleDataset", {"buffer_size": read(dataset, "buffer_size")}, *children)
    return None


def wrapped_datasets(dataset: Any) -> list[Any]:
    """The data sets inside a Subset, ConcatDataset, ChainDataset, StackDataset, DataPipe or wrapper of the user's."""
    for name in _INNER:
        inner = read(dataset, name)
        if _gives_samples(inner):
            return [inner]
    for name in _INNERS:
        inners = read(dataset, name)
        parts = list(inners.values()) if isinstance(inners, dict) else inners
        if isinstance(parts, (list, tuple)) and parts and all(_gives_samples(part) for part in parts):
            return list(parts)
    return []


def _gives_samples(value: Any) -> bool:
    if value is None or isinstance(value, (str, bytes, os.PathLike, int, float)):
        return False
    return hasattr(type(value), "__getitem__") or hasattr(type(value), "__iter__")


def length_of(dataset: Any) -> int | None:
    """Number of samples, if the data set says one."""
    rows = read(dataset, "num_rows")
    if isinstance(rows, int):
        return rows
    try:
        return len(dataset)
    except Exception:  # no __len__, or the user's own fails: DataPipes raise TypeError, others whatever they like
        return None


def path_of(dataset: Any) -> str | None:
    """Where a data set says it lies, itself and not what it wraps."""
    for name in _PATHS:
        path = read(dataset, name)
        if isinstance(path, (str, os.PathLike)) and str(path):
            return str(path)
    files = read(dataset, "cache_files")  # HuggingFace
    first = files[0] if isinstance(files, list) and files else None
    cached = first.get("filename") if isinstance(first, dict) else None
    return cached if isinstance(cached, str) and cached else None
