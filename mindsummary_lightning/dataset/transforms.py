"""The transforms of a data set, one operation each: torchvision's, ``Compose``, ``nn.Sequential``, any callable."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

from torch import nn

from mindsummary_lightning.dataset.stage_parameters import display_name, json_text, public_fields, read
from mindsummary_lightning.values.lineage_info import Operation

MAX_OPERATIONS = 100
_MAX_NESTING = 16


def transforms_of(dataset: Any) -> list[tuple[str, Any]]:  # Any: a data set of any class
    """(column, transform) for each transform of a data set, as torchvision's data sets name them."""
    columns = {"transform": "input", "target_transform": "target", "transforms": "input"}
    found = [(column, read(dataset, name)) for name, column in columns.items()]
    known = [(column, transform) for column, transform in found[:2] if callable(transform)]
    return known or [(column, transform) for column, transform in found[2:] if callable(transform)]


def map_operations(transform: Any) -> tuple[Operation, ...]:
    """A transform as the operations it is composed of, in their order; at most 100.

    Each has ``tensor_op_name`` and, where it has any, ``tensor_op_params`` as JSON, as MindSpore writes them.
    """
    return tuple(_operation(part) for part in itertools.islice(_flat(transform, _MAX_NESTING), MAX_OPERATIONS))


def _flat(transform: Any, nesting: int) -> Iterator[Any]:
    parts: Any = None
    if isinstance(transform, nn.Sequential):
        parts = list(transform)
    elif type(transform).__name__ == "Compose":  # torchvision's v1 and v2
        parts = read(transform, "transforms")
    if not isinstance(parts, (list, tuple)) or not nesting:
        yield transform
        return
    for part in parts:
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
        return Operation({"tensor_op_name": display_name(name), **({"python_module": module} if module else {})})
    fields = _fields(transform)
    parameters = json_text(fields) if fields else "None"
    return Operation({"tensor_op_name": display_name(type(transform).__name__), "tensor_op_params": parameters})


def _fields(transform: Any) -> dict[str, Any]:
    fields = public_fields(transform)
    if isinstance(transform, nn.Module):
        fields.pop("training", None)
        fields |= {name: module for name, module in transform._modules.items() if module is not None}
    wrapped = fields.get("transforms")
    if isinstance(wrapped, (list, tuple)):  # RandomApply, RandomChoice: which of them runs is chance
        fields["transforms"] = [type(part).__name__ for part in wrapped]
    return fields
