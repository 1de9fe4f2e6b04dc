"""``shown_gradients``: reports weight gradients before the user clips them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mindspore
from mindspore.common.api import _pynative_executor

# Any, in this module: MindSpore's parameters and tensors, and nested gradients.
TakeGradient = Callable[[Any, Any], Any]


@contextmanager
def shown_gradients(take: TakeGradient) -> Iterator[None]:
    """Return a context that passes weight gradients through a function.

    Parameters get no hook, because ``mindspore.jit`` would compile it. ``value_and_grad``, ``grad``
    and ``GradOperation`` call one method in PyNative mode, which is replaced.

    Args:
        take: gets a parameter and its gradient, and returns the gradient that the caller should
            get.
    """
    own_grad = _pynative_executor.grad

    def grad(cell: Any, operation: Any, weights: Any, *args: Any, **kwargs: Any) -> Any:
        gradients = own_grad(cell, operation, weights, *args, **kwargs)
        wanted = [weights] if isinstance(weights, mindspore.Parameter) else list(weights or ())
        return _with_taken(gradients, wanted, take) if wanted else gradients

    _pynative_executor.grad = grad
    try:
        yield
    finally:
        del _pynative_executor.grad


def _with_taken(gradients: Any, weights: Sequence[Any], take: TakeGradient) -> Any:
    """Replace the gradients of weights, which are last in a sequence of gradients."""
    if isinstance(gradients, mindspore.Tensor):
        return take(weights[0], gradients) if len(weights) == 1 else gradients
    if not isinstance(gradients, (tuple, list)):
        return gradients
    is_of_weights = len(gradients) == len(weights) and _have_shapes_of(gradients, weights)
    if is_of_weights:
        pairs = zip(weights, gradients, strict=True)
        return tuple(take(weight, gradient) for weight, gradient in pairs)
    if len(gradients) == 2:  # gradients of inputs, and of weights
        return gradients[0], _with_taken(gradients[1], weights, take)
    return gradients


def _have_shapes_of(gradients: Sequence[Any], weights: Sequence[Any]) -> bool:
    pairs = zip(gradients, weights, strict=True)
    return all(
        isinstance(each, mindspore.Tensor) and each.shape == weight.shape for each, weight in pairs
    )
