"""The summary operators: called with a name and a value anywhere inside a model, recorded on collected steps.

They work in eager mode, under ``torch.compile`` (``fullgraph=True`` too), in mixed precision and in recomputed
activations, and cost one look at a flag on a step that is not collected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from mindsummary_lightning.collection import operator_buffer


def scalar_summary(name: str, value: Any) -> None:
    """Record a number, or a tensor of one element, as a scalar.

    Every function and module here records under the bare name (no ``/auto``), in training only, on the steps that the
    SummaryCollector collects, whatever ``collect_specified_data`` says. A value may be of any dtype and device and may
    require grad; it is copied.

    Args:
        name: the tag, unique among the operators of a kind; of two values under one name the newest is recorded.
        value: a tensor of one element or a Python number.
    """
    if operator_buffer.is_open:
        _put("scalar", name, value)


def tensor_summary(name: str, value: torch.Tensor) -> None:
    """Record a tensor of at least one dimension, element by element; at most 20 steps of a run are kept.

    Args:
        name: as in :func:`scalar_summary`.
        value: at most 10,000,000 elements.
    """
    if operator_buffer.is_open:
        _put("tensor", name, value)


def image_summary(name: str, value: torch.Tensor) -> None:
    """Record a batch of pictures.

    Args:
        name: as in :func:`scalar_summary`.
        value: shape ``(N, C, H, W)`` with C 1 or 3; uint8, floating in [0, 1], or anything else, which is stretched to
            its range.
    """
    if operator_buffer.is_open:
        _put("image", name, value)


def histogram_summary(name: str, value: torch.Tensor) -> None:
    """Record the distribution of a tensor of at least one dimension.

    Args:
        name: as in :func:`scalar_summary`.
        value: the tensor; NaN and infinities are counted apart.
    """
    if operator_buffer.is_open:
        _put("histogram", name, value)


class _SummaryModule(nn.Module):
    _operator: Callable[[str, Any], None]

    def forward(self, name: str, value: Any) -> None:
        """Record ``value`` under ``name``."""
        if self.training:
            type(self)._operator(name, value)


class ScalarSummary(_SummaryModule):
    """:func:`scalar_summary` as a module; silent in eval mode."""

    _operator = staticmethod(scalar_summary)


class TensorSummary(_SummaryModule):
    """:func:`tensor_summary` as a module; silent in eval mode."""

    _operator = staticmethod(tensor_summary)


class ImageSummary(_SummaryModule):
    """:func:`image_summary` as a module; silent in eval mode."""

    _operator = staticmethod(image_summary)


class HistogramSummary(_SummaryModule):
    """:func:`histogram_summary` as a module; silent in eval mode."""

    _operator = staticmethod(histogram_summary)


def _put(plugin: str, name: str, value: Any) -> None:
    if torch.compiler.is_compiling():
        tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
        torch.ops.mindsummary_lightning.put(_SIDE_EFFECT, plugin, name, tensor.detach())
    elif not _in_backward():
        with torch._C.DisableTorchFunction():  # copying a value is not part of the training step that is observed
            operator_buffer.put(plugin, name, value)


def _in_backward() -> bool:
    """Whether autograd is running a backward pass here: activation checkpointing then repeats a forward pass.

    Reads ``torch._C._current_graph_task_id`` (torch 2.5 to 2.13). Without it, the repeated value is recorded, which is
    the same.
    """
    current = getattr(torch._C, "_current_graph_task_id", None)
    return current is not None and current() != -1


# A compiler removes an operation without results unless it changes something it can see.
_SIDE_EFFECT = torch.zeros(1)


@torch.library.custom_op("mindsummary_lightning::put", mutates_args=("changed",))
def _compiled_put(changed: torch.Tensor, plugin: str, name: str, value: torch.Tensor) -> None:
    if not _in_backward():
        operator_buffer.put(plugin, name, value)


@_compiled_put.register_fake
def _(changed: torch.Tensor, plugin: str, name: str, value: torch.Tensor) -> None:
    return None
