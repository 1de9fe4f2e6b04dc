"""The transforms of a data set, one operation each: torchvision v1 and v2, Compose, nn.Sequential, any callable."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from torch import nn

from mindsummary_lightning.dataset.stage_parameters import json_text, public_fields, read, shown_name
from mindsummary_lightning.values.lineage_info import Operation

__all__ = ["map_operations", "transforms_of"]

MAX_OPERATIONS = 100
_MAX_NESTING = 16

# Where data sets keep what they do to a sample. torchvision's ``transforms`` holds the other two, so it comes last.
_FIELDS = (
    "transform",
    "target_transform",
    "input_transform",
    "joint_transform",
    "augmentation",
    "augmentations",
    "preprocess",
    "transforms",
    "_transform",
    "map_fn",
)
_FIELDS_OF_ANY_MODULE = frozenset({"training"})


def transforms_of(dataset: Any) -> list[tuple[str, Any]]:  # Any: a data set of any class
    """(name of the field, transform) for each transform that a data set says it has, none twice."""
    found: list[tuple[str, Any]] = []
    for name in _FIELDS:
        transform = read(dataset, name)
        if transform is None or (name == "transforms" and found):
            continue
        if callable(transform) or isinstance(transform, (list, tuple)):
            found.append((name, transform))
    hugging_face = read(dataset, "format")
    if isinstance(hugging_face, dict):
        transform = (hugging_face.get("format_kwargs") or {}).get("transform")
        found += [("with_transform", transform)] if callable(transform) else []
    return found


def map_operations(transform: Any) -> tuple[Operation, ...]:
    """A transform as the operations it is composed of, in their order; at most 100.

    Each has ``tensor_op_name`` and, where it has any, ``tensor_op_params`` as JSON, as MindSpore writes them.
    """
    single = []
    for part in _flat(transform, _MAX_NESTING):
        single.append(_operation(part))
        if len(single) == MAX_OPERATIONS:
            break
    return tuple(single)


def _flat(transform: Any, nesting: int) -> Iterator[Any]:
    parts: Any = None
    if isinstance(transform, (list, tuple)):
        parts = list(transform)
    elif isinstance(transform, nn.Sequential):
        parts = list(transform._modules.values())
    elif type(transform).__name__ == "Compose":  # torchvision's v1 and v2, albumentations', monai's
        parts = read(transform, "transforms")
    elif type(transform).__name__ == "StandardTransform":  # how torchvision holds the two of a data set
        parts = [read(transform, "transform"), read(transform, "target_transform")]
    if not isinstance(parts, (list, tuple)) or not nesting:
        yield transform
        return
    for part in parts:
        if part is not None:
            yield from _flat(part, nesting - 1)


def _operation(transform: Any) -> Operation:
    if isinstance(transform, functools.partial):
        inner = _operation(transform.func).parameter
        arguments = {f"argument_{place}": value for place, value in enumerate(transform.args)} | transform.keywords
        return Operation({**inner, "tensor_op_params": json_text(arguments)})
    function = read(transform, "__func__", transform)  # of a bound method
    name = read(function, "__name__")
    if isinstance(name, str) and not isinstance(transform, nn.Module):
        module = str(read(function, "__module__", ""))
        return Operation({"tensor_op_name": shown_name(name), **({"python_module": module} if module else {})})
    fields = {key: value for key, value in _fields(transform).items() if key not in _FIELDS_OF_ANY_MODULE}
    parameters = json_text(fields) if fields else "None"
    return Operation({"tensor_op_name": shown_name(type(transform).__name__), "tensor_op_params": parameters})


def _fields(transform: Any) -> dict[str, Any]:
    fields = public_fields(transform)
    if isinstance(transform, nn.Module):
        fields |= {name: module for name, module in transform._modules.items() if module is not None}
    wrapped = fields.get("transforms")
    if isinstance(wrapped, (list, tuple)):  # RandomApply, RandomChoice: which of them runs is chance
        fields["transforms"] = [type(part).__name__ for part in wrapped]
    return fields
