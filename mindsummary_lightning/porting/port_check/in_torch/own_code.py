"""``OwnCode``: the operations in the own code of the modules that run, with file and line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from mindsummary_lightning.conversion.calling_line import calling_line
from mindsummary_lightning.porting.port_check.findings import CodeOperation

# Any, in this module: arguments and results of torch's functions.
_QUESTIONS = frozenset(
    (
        "__get__",
        "size",
        "dim",
        "numel",
        "stride",
        "is_floating_point",
        "is_contiguous",
        "__len__",
        "__hash__",
    )
)


class OwnCode(TorchFunctionMode):
    """Tells of every function of torch that is called while it is active.

    Args:
        tell: takes an operation.
        is_told: whether the code that runs now is of interest.
    """

    def __init__(self, tell: Callable[[CodeOperation], None], is_told: Callable[[], bool]) -> None:
        super().__init__()
        self._tell = tell
        self._is_told = is_told

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, and tell of it if it computes something."""
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if (
            name not in _QUESTIONS
            and isinstance(result, (torch.Tensor, tuple, list))
            and self._is_told()
        ):
            self._tell(CodeOperation(name, calling_line()))
        return result
