"""Summary operators: functions and modules that record values inside a model.

They record on collected steps.

They work in eager mode, under ``torch.compile`` (``fullgraph=True`` too), in mixed precision and in
recomputed activations, and cost one look at a flag on a step that is not collected.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.jit import is_scripting  # type: ignore[attr-defined]  # a name that its scripts know

from mindsummary_lightning.collection import operator_buffer
from mindsummary_lightning.conversion.arguments import checked_name


def scalar_summary(name: str, value: Any) -> None:
    """Record a number, or a tensor with a single element, as a scalar.

    Every function and module here records under the bare name (no ``/auto``), in training only, on
    the steps that the SummaryCollector collects, whatever ``collect_specified_data`` says. A value
    may be of any dtype and device and may require grad; it is copied.

    Args:
        name: the tag, unique among the operators of a kind; of two values under one name the newest
            is recorded.
        value: a tensor of one element or a Python number.
    """
    if operator_buffer.is_listening:
        _put("scalar", name, value)


def tensor_summary(name: str, value: torch.Tensor) -> None:
    """Record all elements of a tensor with at least one dimension.

    A SummaryCollector records it on at most 20 steps of a run, ``SummaryRecord.record()`` at every
    call.

    Args:
        name: as in :func:`scalar_summary`.
        value: at most 10,000,000 elements.
    """
    if operator_buffer.is_listening:
        _put("tensor", name, value)


def image_summary(name: str, value: torch.Tensor) -> None:
    """Record a batch of images.

    Args:
        name: as in :func:`scalar_summary`.
        value: shape ``(N, C, H, W)`` with C 1 or 3; uint8, floating in [0, 1], or anything else,
            which is stretched to its range.
    """
    if operator_buffer.is_listening:
        _put("image", name, value)


def histogram_summary(name: str, value: torch.Tensor) -> None:
    """Record the histogram of a tensor with at least one dimension.

    Args:
        name: as in :func:`scalar_summary`.
        value: the tensor; NaN and infinities are counted separately.
    """
    if operator_buffer.is_listening:
        _put("histogram", name, value)


class ScalarSummary(nn.Module):
    """A module that calls :func:`scalar_summary`, in training mode only."""

    def forward(self, name: str, value: Any) -> None:
        """Record ``value`` under ``name``."""
        if self.training:
            scalar_summary(name, value)


class TensorSummary(nn.Module):
    """A module that calls :func:`tensor_summary`, in training mode only."""

    def forward(self, name: str, value: torch.Tensor) -> None:
        """Record ``value`` under ``name``."""
        if self.training:
            tensor_summary(name, value)


class ImageSummary(nn.Module):
    """A module that calls :func:`image_summary`, in training mode only."""

    def forward(self, name: str, value: torch.Tensor) -> None:
        """Record ``value`` under ``name``."""
        if self.training:
            image_summary(name, value)


class HistogramSummary(nn.Module):
    """A module that calls :func:`histogram_summary`, in training mode only."""

    def forward(self, name: str, value: torch.Tensor) -> None:
        """Record ``value`` under ``name``."""
        if self.training:
            histogram_summary(name, value)


def in_backward() -> bool:
    """Tell whether autograd is running a backward pass in this thread.

    Activation checkpointing then repeats a forward pass.

    Reads ``torch._C._current_graph_task_id`` (torch 2.5 to 2.13). Without it, what is repeated is
    recorded, too.
    """
    current = getattr(torch._C, "_current_graph_task_id", None)
    return current is not None and current() != -1


def _put(plugin: str, name: str, value: Any) -> None:
    if is_scripting():
        pass  # what follows cannot be scripted
    elif not torch.compiler.is_compiling():
        # copying a value is not part of the training step that is observed
        with torch._C.DisableTorchFunction():
            operator_buffer.put(plugin, checked_name(name), value, in_backward())
    elif operator_buffer.is_open:
        _put_compiled(plugin, checked_name(name), value)


def _put_compiled(plugin: str, name: str, value: Any) -> None:
    tensor = _as_tensor(value)
    if tensor is not None:
        torch.ops.mindsummary_lightning.put(_SIDE_EFFECT, plugin, name, tensor.detach())
    else:
        kind = _kind_of(value)
        torch.ops.mindsummary_lightning.put_unreadable(_SIDE_EFFECT, plugin, name, kind)


def _as_tensor(value: Any) -> torch.Tensor | None:
    """Convert a value to a tensor while ``torch.compile`` traces the model.

    The result is ``None`` if there are none, because an error would end the training. In lists only
    numbers are read, or tensors of one shape.
    """
    if isinstance(value, torch.Tensor):
        return None if value.is_meta else value
    if _is_list_of_tensors(value):
        return _stacked(value)
    if isinstance(value, int):
        value = _representable(value)
    if isinstance(value, (bool, int, float, complex)) or _shape(value) is not None:
        return torch.tensor(value)
    if hasattr(value, "__array__"):
        return torch.as_tensor(value)
    return None


def _stacked(tensors: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """Stack tensors; ``None`` if their shapes differ or a tensor has no data."""
    is_even = all(part.shape == tensors[0].shape and not part.is_meta for part in tensors)
    if is_even:
        return torch.stack([part.detach() for part in tensors])
    return None


def _kind_of(value: Any) -> str:
    for text, kind in _KINDS:  # not with `next`, which PyTorch 2.5 does not compile
        if isinstance(value, kind):
            return text
    return "an object"


def _representable(value: int) -> int | float | None:
    """Return an int, or the nearest float beyond 64 bits; ``None`` beyond floats."""
    if -(2**63) <= value < 2**63:
        return value
    if abs(value) <= _LARGEST:
        return float(value)
    return None


def _is_list_of_tensors(value: Any) -> bool:
    if not isinstance(value, (list, tuple)) or not value:
        return False
    return all(isinstance(part, torch.Tensor) for part in value)


def _shape(value: Any) -> tuple[int, ...] | None:
    """Return the shape of nested lists of numbers.

    The result is ``None`` if the lists are ragged or hold other values.
    """
    if isinstance(value, (bool, int, float)):
        return ()
    if not isinstance(value, (list, tuple)):
        return None
    shapes = [_shape(part) for part in value]
    if not shapes:
        return (0,)
    first = shapes[0]
    if first is None or any(shape != first for shape in shapes):
        return None
    return (len(shapes), *first)


class _Unreadable:
    """A placeholder for a value that a compiled program cannot record.

    Reading it raises an error with its kind.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"expected a number, an array or a tensor; found {self._kind}")


_KINDS = (
    ("None", type(None)),
    ("a text", str),
    ("an int that is too large for a float", int),
    ("a dict", dict),
    ("a tensor without data", torch.Tensor),
    ("a ragged list, or one of objects", (list, tuple)),
)
_LARGEST = int(sys.float_info.max)  # of the ints that are taken as a float
# A compiler removes an operation without results unless it changes something it can see.
_SIDE_EFFECT = torch.zeros(1)


@torch.library.custom_op("mindsummary_lightning::put", mutates_args=("changed",))
def _compiled_put(changed: torch.Tensor, plugin: str, name: str, value: torch.Tensor) -> None:
    operator_buffer.put(plugin, name, value, in_backward())


@_compiled_put.register_fake
def _(changed: torch.Tensor, plugin: str, name: str, value: torch.Tensor) -> None:
    return None


@torch.library.custom_op("mindsummary_lightning::put_unreadable", mutates_args=("changed",))
def _compiled_put_unreadable(changed: torch.Tensor, plugin: str, name: str, kind: str) -> None:
    operator_buffer.put(plugin, name, _Unreadable(kind), in_backward())


@_compiled_put_unreadable.register_fake
def _(changed: torch.Tensor, plugin: str, name: str, kind: str) -> None:
    return None
