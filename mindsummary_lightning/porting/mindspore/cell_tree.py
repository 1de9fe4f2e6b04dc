"""Names the cells, parameters, inputs and outputs of a MindSpore network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import mindspore

from mindsummary_lightning.values.whole_step import WeightKind

# Any, in this module: MindSpore's cells and tensors, and what the user's cells take and return.
# how the last part of a running statistic's name begins
_STATISTICS = ("moving_", "running_", "num_batches")


def network_cells(network: Any, optimizer: Any) -> dict[int, tuple[str, str | None]]:
    """Map the ``id`` of every cell to its name and to a recomputing outer cell.

    Inner cells of MindSpore's own layers and optimizers are left out.

    Returns:
        The name of each cell, and the name of the cell above it that computes its outputs again in
        the backward pass.
    """
    cells: dict[int, tuple[str, str | None]] = {}
    for name, cell in reversed([*network.cells_and_names()]):
        is_optimizer = cell is optimizer or isinstance(cell, mindspore.nn.Optimizer)
        if not is_optimizer and not _is_inner(cell):
            cells[id(cell)] = name, _recomputed_above(network, name)
    return cells


def _is_inner(cell: Any) -> bool:
    """Tell whether a cell is a private part of a MindSpore layer."""
    kind = type(cell)
    return kind.__name__.startswith("_") and kind.__module__.startswith("mindspore.")


def _recomputed_above(network: Any, name: str) -> str | None:
    """Find the innermost enclosing cell that recomputes its outputs.

    Such a cell computes its outputs again in the backward pass.
    """
    found, cell, path = None, network, ""
    for part in name.split(".") if name else ():
        if getattr(cell, "_recompute_cell", None) is not None:
            found = path
        cell = getattr(cell, "_cells", {}).get(part)
        path = f"{path}.{part}".lstrip(".")
    return found


def parameters(network: Any) -> Iterator[tuple[str, WeightKind, Any]]:
    """Yield name, kind and tensor of all parameters and running statistics.

    A cell around the network, such as a loss of the user's, puts its own word before
    ``Parameter.name``.
    """
    for name, parameter in network.parameters_and_names():
        last_word = name.rpartition(".")[2]
        is_statistic = not parameter.requires_grad and last_word.startswith(_STATISTICS)
        yield name, "buffer" if is_statistic else "parameter", parameter
    for name, buffer in getattr(network, "named_buffers", tuple)():
        yield name, "buffer", buffer


def tensors(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all tensors in a batch, input or output, with their dotted paths."""
    if isinstance(value, mindspore.Tensor):
        yield path, value
        return
    for key, part in _parts(value):
        yield from tensors(part, f"{path}.{key}" if path else key)


def _parts(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [(str(key), part) for key, part in value.items()]
    if isinstance(value, (tuple, list)):
        keys = getattr(value, "_fields", range(len(value)))
        return [(str(key), part) for key, part in zip(keys, value, strict=True)]
    return [*vars(value).items()] if hasattr(value, "__dataclass_fields__") else []


def arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """List the tensors that a cell is called with.

    The path of a single tensor is ``""``.
    """
    positional = {str(index): value for index, value in enumerate(args)}
    found = [*tensors({**positional, **kwargs})]
    return [("", found[0][1])] if len(found) == 1 and found[0][0] == "0" else found


def with_arguments(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], change: Callable[[Any], Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Replace a call's tensors by ``change``, in the order of :func:`arguments`."""
    changed = tuple(with_tensors(value, change) for value in args)
    return changed, _with_changed_parts(kwargs, change)


def with_tensors(value: Any, change: Callable[[Any], Any]) -> Any:
    """Replace a nested value's tensors by ``change``, in the order of :func:`tensors`."""
    if isinstance(value, mindspore.Tensor):
        return change(value)
    if isinstance(value, Mapping):
        changed = _with_changed_parts(value, change)
        return changed if type(value) is dict else type(value)(changed)  # type: ignore[call-arg]
    if isinstance(value, (tuple, list)):
        parts = [with_tensors(part, change) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return replace(value, **_with_changed_parts(vars(value), change))
    return value


def _with_changed_parts(value: Mapping[Any, Any], change: Callable[[Any], Any]) -> dict[Any, Any]:
    return {key: with_tensors(part, change) for key, part in value.items()}
