"""The base classes of whichever Lightning namespaces are installed.

``lightning.pytorch`` and ``pytorch_lightning`` have different ``Logger`` and ``Callback`` classes. Their Trainers take
either kind, their ``LightningCLI`` takes only its own, so ours derive from both where both are installed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

__all__ = ["CallbackBase", "LoggerBase", "rank_zero_experiment", "rank_zero_info", "rank_zero_only"]


def _installed() -> list[ModuleType]:
    found = []
    for name in ("lightning.pytorch", "pytorch_lightning"):
        try:
            found.append(importlib.import_module(name))
        except ModuleNotFoundError as error:
            if error.name not in (name, name.partition(".")[0]):
                raise
    if not found:
        raise ModuleNotFoundError(
            "neither lightning nor pytorch_lightning is installed; 'pip install lightning' brings what the logger and "
            "the callbacks need"
        )
    return found


_NAMESPACES = _installed()

if TYPE_CHECKING:
    from lightning.pytorch.callbacks import Callback as CallbackBase
    from lightning.pytorch.loggers import Logger as LoggerBase
    from lightning_utilities.core.rank_zero import rank_zero_info, rank_zero_only

    _F = TypeVar("_F", bound=Callable[..., object])

    def rank_zero_experiment(get_experiment: _F) -> _F:
        """Lightning's decorator has no types: what it decorates would be unknown to a user's type checker."""
else:
    LoggerBase = type("LoggerBase", tuple(space.loggers.Logger for space in _NAMESPACES), {})
    CallbackBase = type("CallbackBase", tuple(space.callbacks.Callback for space in _NAMESPACES), {})
    _FIRST = _NAMESPACES[0].__name__
    rank_zero_experiment = importlib.import_module(f"{_FIRST}.loggers.logger").rank_zero_experiment
    from lightning_utilities.core.rank_zero import rank_zero_info, rank_zero_only  # one for both namespaces
