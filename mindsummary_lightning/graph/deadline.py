"""How long a capture may take: a clock that is looked at whenever the model calls torch."""

from __future__ import annotations

import time
from typing import Any

from torch.overrides import TorchFunctionMode

from mindsummary_lightning.errors import GraphCaptureError

__all__ = ["Deadline"]


class Deadline(TorchFunctionMode):
    """While active, the first torch function called after the time is up raises.

    Code that computes without torch is not interrupted.

    Args:
        time_limit_s: seconds from now.

    Attributes:
        error: what was raised; torch.export may hand on another exception in its place.
    """

    def __init__(self, time_limit_s: float) -> None:
        super().__init__()
        self._time_limit_s = time_limit_s
        self._end_s = time.monotonic() + time_limit_s
        self.error: GraphCaptureError | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.check()
        return func(*args, **(kwargs or {}))

    def check(self) -> None:
        """Raise if the time is up.

        Raises:
            GraphCaptureError: the time is up.
        """
        if time.monotonic() > self._end_s:
            self.error = GraphCaptureError(
                f"capturing the graph took longer than {self._time_limit_s:g} s; a smaller example input may help"
            )
            raise self.error
