"""Operation names that PyTorch users know, from the names of torch's functions."""

from __future__ import annotations

import functools
import re

from torch import nn

__all__ = ["familiar_name", "is_arithmetic"]

# PyTorch names functions and classes alike but for case, underscores and "Loss"; these are the others.
_CLASSES = {name.lower(): name for name, kind in vars(nn).items() if isinstance(kind, type)} | {
    "batchnorm": "BatchNorm",
    "binarycrossentropy": "BCELoss",
    "binarycrossentropywithlogits": "BCEWithLogitsLoss",
    "instancenorm": "InstanceNorm",
    "multiheadattentionforward": "MultiheadAttention",
    "rnnrelu": "RNN",
    "rnntanh": "RNN",
}

is_arithmetic = re.compile(
    r"_*r?(add|sub|mul|div|truediv|true_divide|floordiv|floor_divide|pow|mod|remainder|eq|ne|gt|ge|lt|le)_*"
).fullmatch
"""Whether a number given to the function is an operand such as the 2 of ``x * 2``, not an option."""


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
    plain = function.replace("_", "")
    known = _CLASSES.get(plain) or _CLASSES.get(f"{plain}loss")
    if module_class is not None and known and module_class.startswith(known):
        return module_class
    return known or function or "op"
