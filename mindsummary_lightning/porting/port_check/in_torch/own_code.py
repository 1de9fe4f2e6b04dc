"""``OwnCode``: reports operations in modules' own code, with file and line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    """Torch function mode: reports every torch function called while it is active.

    Args:
        tell: receives an operation.
        is_told: whether the code that runs now is of interest.
        weights: names of parameters by their identity.
        tell_use: receives the name of a weight if a function will contribute to its gradient.
    """

    def __init__(
        self,
        tell: Callable[[CodeOperation], None],
        is_told: Callable[[], bool],
        weights: Mapping[int, str],
        tell_use: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._tell = tell
        self._is_told = is_told
        self._weights = weights
        self._tell_use = tell_use

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, and report it if it computes something."""
        result = func(*args, **(kwargs or {}))
        if _has_gradient(result):
            self._tell_uses((*args, *(kwargs or {}).values()))
        name = getattr(func, "__name__", "")
        if (
            name not in _QUESTIONS
            and isinstance(result, (torch.Tensor, tuple, list))
            and self._is_told()
        ):
            self._tell(CodeOperation(name, calling_line()))
        return result

    def _tell_uses(self, arguments: tuple[Any, ...]) -> None:
        """Report weights among the arguments, also inside lists and tuples."""
        for argument in arguments:
            if isinstance(argument, torch.Tensor):
                name = self._weights.get(id(argument))
                if name is not None:
                    self._tell_use(name)
            elif isinstance(argument, (tuple, list)):
                self._tell_uses(tuple(argument))


def _has_gradient(result: Any) -> bool:
    """Tell whether a gradient may pass through a function's result."""
    parts = result if isinstance(result, (tuple, list)) else (result,)
    return any(isinstance(part, torch.Tensor) and part.requires_grad for part in parts)
