"""Operation names that PyTorch users know, from the names of torch's functions."""

from __future__ import annotations

import functools
import re

from torch import nn

__all__ = ["familiar_name", "is_arithmetic"]

# Functions whose torch.nn class is named neither like them nor like them with "Loss".
_EXCEPTIONS = {
    "batch_norm": "BatchNorm",
    "binary_cross_entropy": "BCELoss",
    "binary_cross_entropy_with_logits": "BCEWithLogitsLoss",
    "instance_norm": "InstanceNorm",
    "multi_head_attention_forward": "MultiheadAttention",
    "rnn_relu": "RNN",
    "rnn_tanh": "RNN",
}
_ARITHMETIC = re.compile(
    r"_*r?(add|sub|mul|div|truediv|true_divide|floordiv|floor_divide|pow|mod|remainder|eq|ne|gt|ge|lt|le)_*"
)


@functools.lru_cache(maxsize=1024)
def familiar_name(function: str, module_class: str | None) -> str:
    """The operation type shown for a function.

    Args:
        function: its bare name (``conv2d``, ``relu_``, ``__getitem__``).
        module_class: class of the torch.nn module that calls it, if one does.

    Returns:
        ``Conv2d`` for ``conv2d``, and the module's own class where it names a variant (``BatchNorm2d`` for
        ``batch_norm``); the function's name where users know it by that (``matmul``, ``cat``, ``add_``).
    """
    if function.startswith("_"):
        function = function.strip("_")
    plain, classes = function.replace("_", ""), _module_classes()
    known = _EXCEPTIONS.get(function) or classes.get(plain) or classes.get(f"{plain}loss")
    if module_class is not None and known and module_class.startswith(known):
        return module_class
    return known or function or "op"


@functools.lru_cache(maxsize=1024)
def is_arithmetic(function: str) -> bool:
    """Whether a number given to the function is an operand such as the 2 of ``x * 2``, not an option."""
    return _ARITHMETIC.fullmatch(function) is not None


@functools.cache
def _module_classes() -> dict[str, str]:
    """``conv2d`` to ``Conv2d`` and so on: PyTorch names functions and classes alike but for case and underscores."""
    classes = [kind for kind in vars(nn).values() if isinstance(kind, type) and issubclass(kind, nn.Module)]
    return {kind.__name__.lower(): kind.__name__ for kind in classes if not kind.__module__.endswith(".container")}
