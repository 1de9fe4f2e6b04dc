"""Describe data sets and their transforms as stages of a data pipeline.

The stages go from the outermost wrapper to the source of the samples.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from mindsummary_lightning.conversion.flattening import value_or_default
from mindsummary_lightning.dataset.stage_parameters import (
    dataset_class_name,
    display_name,
    json_text,
    parameters_of,
    public_fields,
    safe_getattr,
)
from mindsummary_lightning.values.lineage_info import DatasetGraph, Operation, ParameterValue

# Any, in this module: data sets and transforms of any class.
_MAX_STAGES = 200  # of one pipeline; a concatenation of thousands of files would fill the page
_MAX_OPERATIONS = 100
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
    f"{name}{end}" for name in ("Batch", "Map", "Repeat", "Shuffle") for end in ("", "Dataset")
)


class Budget:
    """The number of stages that may still be added to the graph of a data pipeline."""

    def __init__(self) -> None:
        self._left = _MAX_STAGES

    def claim_stage(self, part: Any, outer: tuple[Any, ...]) -> bool:
        """Tell whether a stage may be added to the graph, and count it.

        The stage is refused if the budget is used up, if the stages are nested too deeply, or if it
        is one of the enclosing stages (``outer``), because a data set may contain itself.
        """
        contains_itself = any(part is around for around in outer)
        if contains_itself or self._left == 0 or len(outer) >= _MAX_DEPTH:
            return False
        self._left -= 1
        return True


def stage(op_type: str, fields: Mapping[str, Any], *children: DatasetGraph) -> DatasetGraph:
    """Build a pipeline stage that is neither a Map stage nor a source."""
    return DatasetGraph({"op_type": op_type, **parameters_of(fields)}, children=children)


def source_graph(
    dataset: Any, budget: Budget, outer: tuple[Any, ...], sampler: Operation | None = None
) -> DatasetGraph | None:
    """Return the stages of a data set, its wrapped data sets and their transforms.

    The root is the last stage. The result is ``None`` if the budget is used up.

    The sampler is shown at the outermost data set.
    """
    if not budget.claim_stage(dataset, outer):
        return None
    inner = wrapped_datasets(dataset)
    children = []
    for part in inner:
        child = source_graph(part, budget, (*outer, dataset))
        if child is not None:
            children.append(child)
    source: dict[str, Any] = {
        "op_type": source_name(dataset),
        "dataset_class": dataset_class_name(dataset),
    }
    path, length = path_of(dataset), length_of(dataset)
    if path is not None:
        source["dataset_dir"] = path
    if length is not None:
        source["num_samples"] = length
    if len(children) < len(inner):
        source["datasets_skipped"] = len(inner) - len(children)
    graph = DatasetGraph(parameters_of(source), sampler=sampler, children=tuple(children))
    for column, transform in _transforms_of(dataset):
        parts = itertools.islice(_flat(transform), _MAX_OPERATIONS)
        operations = tuple(map(_operation, parts))
        if operations:
            parameters = parameters_of({"op_type": "MapDataset", "input_columns": [column]})
            graph = DatasetGraph(parameters, operations=operations, children=(graph,))
    return graph


def source_name(source: Any) -> str:
    """Return the name of the stage of a data set, or of a loader without a data set."""
    name = type(source).__name__
    drawn = _MINDSPORE_NAMES.get(name) or display_name(name)
    if drawn in _STAGE_NAMES:
        return f"{drawn}Source"
    return drawn


def wrapped_datasets(dataset: Any) -> list[Any]:
    """Return the data sets inside a wrapper such as ``torch.utils.data.Subset``.

    The wrappers are Subset, ConcatDataset, ChainDataset, StackDataset, and classes with the same
    attributes.
    """
    parts = safe_getattr(dataset, "datasets")
    parts = list(parts.values()) if isinstance(parts, dict) else parts
    for inner in ([safe_getattr(dataset, "dataset")], parts):
        if isinstance(inner, (list, tuple)) and all(map(yields, inner)):
            return list(inner)
    return []


def yields(value: Any) -> bool:
    """Tell whether an object yields samples or batches, by iteration or by index."""
    if isinstance(value, (str, bytes, os.PathLike)):
        return False
    return hasattr(type(value), "__getitem__") or hasattr(type(value), "__iter__")


def length_of(dataset: Any) -> int | None:
    """Return ``len()`` of a data set, sampler or loader, or ``None``.

    It is ``None`` if the object has no length, or if its ``__len__`` fails.
    """
    return value_or_default(None, len, dataset)


def path_of(dataset: Any) -> str | None:
    """Return the ``root`` attribute of a data set, as in torchvision, or ``None``.

    The ``root`` of wrapped data sets is not used.
    """
    path = safe_getattr(dataset, "root")
    if isinstance(path, (str, os.PathLike)) and str(path):
        return str(path)
    return None


def _transforms_of(dataset: Any) -> list[tuple[str, Any]]:
    """Return the transforms of a data set as pairs of column and transform.

    The attributes are those of torchvision's data sets.
    """
    named = {
        "input": safe_getattr(dataset, "transform"),
        "target": safe_getattr(dataset, "target_transform"),
    }
    own = [pair for pair in named.items() if callable(pair[1])]
    # of both columns; torchvision makes it of the two if they are given
    joint = safe_getattr(dataset, "transforms")
    return own or ([("input", joint)] if callable(joint) else [])


def _flat(transform: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the single transforms of which a transform is composed.

    It may be torchvision's ``Compose`` (v1 and v2) or an ``nn.Sequential``.
    """
    parts: Any = list(transform) if isinstance(transform, nn.Sequential) else None
    if type(transform).__name__ == "Compose":
        parts = safe_getattr(transform, "transforms")
    if not isinstance(parts, (list, tuple)) or depth == _MAX_DEPTH:
        yield transform
        return
    for part in parts:
        yield from _flat(part, depth + 1)


def _operation(transform: Any) -> Operation:
    """Describe a transform by its name and by its parameters as JSON.

    The keys are MindSpore's ``tensor_op_name`` and ``tensor_op_params``.
    """
    if isinstance(transform, functools.partial):
        inner = _operation(transform.func).parameter
        arguments = {
            f"argument_{place}": value for place, value in enumerate(transform.args)
        } | transform.keywords
        return Operation({**inner, "tensor_op_params": json_text(arguments)})
    function = safe_getattr(transform, "__func__", transform)  # of a bound method
    name = safe_getattr(function, "__name__")
    if isinstance(name, str) and not isinstance(transform, nn.Module):
        module = str(safe_getattr(function, "__module__", ""))
        parameter: dict[str, ParameterValue] = {"tensor_op_name": display_name(name)}
        if module:
            parameter["python_module"] = module
        return Operation(parameter)
    fields = public_fields(transform)
    if isinstance(transform, nn.Module):
        fields.pop("training", None)
        fields |= {key: part for key, part in transform._modules.items() if part is not None}
    wrapped = fields.get("transforms")
    # RandomApply, RandomChoice: which of them runs is chance
    if isinstance(wrapped, (list, tuple)):
        fields["transforms"] = [type(part).__name__ for part in wrapped]
    parameters = json_text(fields) if fields else "None"
    return Operation(
        {"tensor_op_name": display_name(type(transform).__name__), "tensor_op_params": parameters}
    )
