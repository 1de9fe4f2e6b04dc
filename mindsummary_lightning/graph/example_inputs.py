"""Example inputs of any structure: what to call ``forward`` with, which tensors are in it, and how to put others there.

Nothing of the example is changed: a container that holds a tensor is copied before one is replaced.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from mindsummary_lightning.errors import GraphCaptureError

__all__ = ["Call", "forward_calls", "tensors_in"]

# Any, here and below: an example input has whatever type the user's forward takes.
_Rebuild = Callable[[Sequence[torch.Tensor]], Any]


@dataclasses.dataclass(frozen=True)
class Call:
    """Arguments of one call of ``forward``."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def named_tensors(self, module: nn.Module) -> list[tuple[str, torch.Tensor]]:
        """Every tensor in the arguments with its dotted name (``batch.image``), in the order ``filled`` takes them."""
        names = _argument_names(module, len(self.args))
        found: list[tuple[str, torch.Tensor]] = []
        for name, value in (*zip(names, self.args, strict=True), *self.kwargs.items()):
            _collect(value, name, found)
        return found

    def filled(self, tensors: Sequence[torch.Tensor]) -> Call:
        """The same call with other tensors in the places of its own.

        Args:
            tensors: as many as ``named_tensors`` gives, in its order.
        """
        remaining = iter(tensors)
        args = tuple(_replaced(value, remaining) for value in self.args)
        return Call(args, {name: _replaced(value, remaining) for name, value in self.kwargs.items()})


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Every tensor in a structure of sequences, mappings and dataclasses."""
    found: list[tuple[str, torch.Tensor]] = []
    _collect(value, "", found)
    return [tensor for _, tensor in found]


def forward_calls(module: nn.Module, example: Any) -> list[Call]:
    """Ways to call ``module.forward`` with an example input or a training batch, the most likely first.

    A mapping whose keys are argument names becomes keywords, a tuple or list becomes positional arguments; a batch
    that holds more than ``forward`` takes (a target) is shortened from its end. Whatever fits no such way is tried as
    the single argument. Calls that give something else where an annotation says ``torch.Tensor`` come last.

    Args:
        module: the network whose ``forward`` will be called.
        example: a tensor or any structure.

    Raises:
        GraphCaptureError: no way fits the signature.
    """
    ways: list[Call] = []
    if isinstance(example, Mapping):
        ways += _keyword_ways(module, example)
        ways.append(Call((example,), {}))
        ways += [Call((value,), {}) for value in list(example.values())[:1]]
    elif type(example) in (tuple, list):
        whole, single = Call(tuple(example), {}), Call((example,), {})
        ways += [whole, single, *(Call(tuple(example[:count]), {}) for count in range(len(example) - 1, 0, -1))]
    else:
        ways.append(Call((example,), {}))
        ways += [way for fields in [_fields(example)] if fields for way in _keyword_ways(module, fields)]
        if isinstance(example, tuple):
            ways.append(Call(tuple(example), {}))
    fitting = [way for way in ways if _fits(module, way)]
    if not fitting:
        raise GraphCaptureError(
            f"forward of {type(module).__name__} takes {_signature_text(module)}, which a "
            f"{type(example).__name__} as example input does not fit; pass the arguments as a tuple or a dict"
        )
    return sorted(fitting, key=lambda way: _contradicts_annotations(module, way))


def _keyword_ways(module: nn.Module, values: Mapping[Any, Any]) -> list[Call]:
    if not all(isinstance(key, str) for key in values):
        return []
    known = _parameters(module)
    taken = {key: value for key, value in values.items() if key in known}
    return [Call((), way) for way in (dict(values), taken) if way]


def _fields(value: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return dict(value._asdict()) if hasattr(value, "_asdict") else {}


def _parameters(module: nn.Module) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(module.forward).parameters
    except (TypeError, ValueError):  # a forward written in C has no signature
        return {}


def _fits(module: nn.Module, call: Call) -> bool:
    try:
        inspect.signature(module.forward).bind(*call.args, **call.kwargs)
    except TypeError:
        return False
    except ValueError:  # no signature to judge by
        return True
    return True


def _contradicts_annotations(module: nn.Module, call: Call) -> bool:
    """Whether an argument that ``forward`` says is a tensor would be none; a trace would find out much later."""
    try:
        bound = inspect.signature(module.forward).bind(*call.args, **call.kwargs)
    except ValueError:  # no signature
        return False
    for name, value in bound.arguments.items():
        annotation = bound.signature.parameters[name].annotation
        if annotation in (torch.Tensor, "torch.Tensor", "Tensor") and not isinstance(value, torch.Tensor):
            return True
    return False


def _signature_text(module: nn.Module) -> str:
    try:
        return str(inspect.signature(module.forward))
    except (TypeError, ValueError):  # as in _parameters
        return "arguments of its own"


def _argument_names(module: nn.Module, count: int) -> list[str]:
    names: list[str] = []
    for parameter in _parameters(module).values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}.{index}" for index in range(count - len(names))]
    names += [f"input.{index}" for index in range(count - len(names))]
    return names[:count]


def _collect(value: Any, name: str, found: list[tuple[str, torch.Tensor]]) -> None:
    if isinstance(value, torch.Tensor):
        found.append((name, value))
    else:
        labels = getattr(value, "_fields", None)  # of a named tuple
        for place, (key, element) in enumerate(_elements(value)):
            _collect(element, f"{name}.{labels[place] if isinstance(labels, tuple) else key}", found)


def _elements(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, (tuple, list)):
        return list(enumerate(value))
    return list(_fields(value).items())


def _replaced(value: Any, remaining: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return next(remaining)
    changed = {}
    for key, element in _elements(value):
        new = _replaced(element, remaining)
        if new is not element:
            changed[key] = new
    return _copy_with(value, changed) if changed else value


def _copy_with(value: Any, changed: dict[Any, Any]) -> Any:
    if isinstance(value, tuple):
        elements = [changed.get(index, element) for index, element in enumerate(value)]
        return type(value)(*elements) if hasattr(value, "_fields") else type(value)(elements)
    new = copy.copy(value)
    for key, element in changed.items():
        if dataclasses.is_dataclass(value):
            object.__setattr__(new, key, element)  # frozen dataclasses too
        else:
            new[key] = element
    return new
