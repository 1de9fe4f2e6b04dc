"""The base classes of whichever Lightning namespaces are installed.

``lightning.pytorch`` and ``pytorch_lightning`` have different ``Logger`` and ``Callback`` classes. Their Trainers take
either kind, their ``LightningCLI`` takes only its own, so ours derive from both where both are installed. A Trainer
puts its own files into ``log_dir`` only for loggers it knows; being registered as a ``CSVLogger`` makes ours one of
these (read in 2.6.6, ``Trainer.log_dir``).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = [
    "CallbackBase",
    "LoggerBase",
    "current_rank",
    "pass_over",
    "rank_zero_experiment",
    "rank_zero_info",
    "rank_zero_only",
    "serve_log_dir",
]


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
    from lightning.fabric.loggers.logger import rank_zero_experiment
    from lightning.pytorch.callbacks import Callback as CallbackBase
    from lightning.pytorch.loggers import Logger as LoggerBase
    from lightning_utilities.core.rank_zero import rank_zero_info, rank_zero_only
else:
    LoggerBase = type("LoggerBase", tuple(space.loggers.Logger for space in _NAMESPACES), {})
    CallbackBase = type("CallbackBase", tuple(space.callbacks.Callback for space in _NAMESPACES), {})
    _FIRST = _NAMESPACES[0].__name__
    rank_zero_experiment = importlib.import_module(f"{_FIRST}.loggers.logger").rank_zero_experiment
    from lightning_utilities.core.rank_zero import rank_zero_info, rank_zero_only  # one for both namespaces


def current_rank() -> int:
    """Global rank of this process as far as it is known: launchers set it before training begins."""
    return int(getattr(rank_zero_only, "rank", None) or 0)


def serve_log_dir(logger_class: Any) -> Any:
    """Class decorator: make ``Trainer.log_dir`` of every namespace point at this logger's ``log_dir``."""
    for space in _NAMESPACES:
        space.loggers.CSVLogger.register(logger_class)
    return logger_class


def pass_over(callback: Any, base: type, hooks: Iterable[str]) -> None:
    """Let Trainers pass over hooks of a callback that have nothing to do, unless a subclass of ``base`` has them do it.

    A Trainer calls through its profiler whatever can be called, on every step, and leaves alone an attribute that is
    ``None`` (read in 2.6.6, ``_call_callback_hooks``).
    """
    for hook in hooks:
        if getattr(type(callback), hook) is getattr(base, hook):
            setattr(callback, hook, None)
