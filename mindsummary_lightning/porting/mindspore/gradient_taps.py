"""Defines cells that return their input and report its gradient.

A tensor gets no hook, because ``mindspore.jit`` compiles the hooks of tensors that it is called
with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore

from mindsummary_lightning.porting.mindspore.cell_calls import CellCalls

# Any, in this module: MindSpore's tensors.
TakeGradient = Callable[[Any], Any]  # returns the gradient that is passed on; None for the same one


class _Tap(mindspore.nn.Cell):  # type: ignore[misc] # mindspore has no types
    """Returns its input, and reports the gradient of its output."""

    def __init__(self, take: TakeGradient) -> None:
        super().__init__()
        self._take = take

    def construct(self, tensor: Any) -> Any:
        return tensor

    def bprop(self, tensor: Any, output: Any, gradient: Any) -> Any:
        self._take(gradient)
        return (gradient,)


class _Substitute(mindspore.nn.Cell):  # type: ignore[misc] # mindspore has no types
    """Replaces a tensor's values, and passes a gradient on to the tensor."""

    def __init__(self, take: TakeGradient) -> None:
        super().__init__()
        self._take = take

    def construct(self, own: Any, value: Any) -> Any:
        return value

    def bprop(self, own: Any, value: Any, output: Any, gradient: Any) -> Any:
        taken = self._take(gradient)
        passed = gradient if taken is None else taken
        fits = passed.shape == own.shape
        return (passed if fits else mindspore.ops.zeros_like(own)), mindspore.ops.zeros_like(value)


class _Inject(mindspore.nn.Cell):  # type: ignore[misc] # mindspore has no types
    """Returns its first argument, and gives its second argument a gradient."""

    def construct(self, carrier: Any, tensor: Any, gradient: Any) -> Any:
        return carrier

    def bprop(self, carrier: Any, tensor: Any, gradient: Any, output: Any, own: Any) -> Any:
        return own, gradient, mindspore.ops.zeros_like(gradient)


def tapped(tensor: Any, take: TakeGradient) -> Any:
    """Return a tensor whose gradient is passed to a function."""
    return CellCalls.run_unseen(_Tap(take), tensor)


def substituted(own: Any, value: Any, take: TakeGradient = lambda gradient: None) -> Any:
    """Replace a tensor's values, and pass their gradient through a function."""
    return CellCalls.run_unseen(_Substitute(take), own, value)


def with_injection(carrier: Any, tensor: Any, gradient: Any) -> Any:
    """Return ``carrier``, whose backward pass also gives ``tensor`` a gradient.

    It passes its own gradient on.
    """
    return CellCalls.run_unseen(_Inject(), carrier, tensor, gradient)


def is_differentiable(tensor: Any) -> bool:
    """Tell whether a tensor of this dtype may have a gradient."""
    return bool(tensor.is_floating_point()) or bool(tensor.is_complex())
